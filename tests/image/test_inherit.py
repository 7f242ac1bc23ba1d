"""The container defaults in a stranger's base: the accepted and the refused ones."""

from __future__ import annotations

from typing import Any

import pytest

from sandwright.errors import ArchiveRefused
from sandwright.image.inherit import inherited

REFUSED: dict[str, tuple[Any, str]] = {
    "no object": (True, "it: config: expected an object"),
    "words": ("x", "it: config: expected an object"),
    "variables that are no list": ({"Env": "A=b"}, "it: Env: expected an array"),
    "a variable that is no text": ({"Env": [{"A": "b"}]}, "it: Env: expected strings"),
    "an entrypoint that is no list": ({"Entrypoint": "/run"}, "it: Entrypoint: expected an array"),
    "an entrypoint of numbers": ({"Entrypoint": [1]}, "it: Entrypoint: expected strings"),
    "a command of lists": ({"Cmd": [["x"]]}, "it: Cmd: expected strings"),
    "labels that are no object": ({"Labels": ["a"]}, "it: Labels: expected an object"),
    "a label that is no text": ({"Labels": {"a": 1}}, "it: Labels: values must be strings"),
}


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused(config: Any, message: str) -> None:
    with pytest.raises(ArchiveRefused) as caught:
        inherited({"config": config}, "it")
    assert str(caught.value) == message


@pytest.mark.parametrize("document", [{}, {"config": None}, {"config": {}}], ids=["absent", "null", "empty"])
def test_nothing_is_said(document: dict[str, Any]) -> None:
    settings = inherited(document, "it")
    assert (settings.config.user, settings.config.command, settings.config.entrypoint) == (None, None, None)
    assert (settings.config.environment, settings.more) == ({}, {})


def test_what_is_taken_over() -> None:
    config = {
        "User": "app",
        "Env": ["A=b=c", "EMPTY="],
        "Entrypoint": ["/run"],
        "Cmd": ["x"],
        "WorkingDir": "/w",
        "Labels": {"a": "b"},
        "StopSignal": "SIGINT",
        "Volumes": {"/data": {}},
    }
    settings = inherited({"config": config}, "it")
    assert settings.config.environment == {"A": "b=c", "EMPTY": ""}
    assert (settings.config.user, settings.config.workdir) == ("app", "/w")
    assert (settings.config.entrypoint, settings.config.command) == (("/run",), ("x",))
    assert (settings.config.labels, settings.config.stop_signal) == ({"a": "b"}, "SIGINT")
    assert settings.more == {"Volumes": {"/data": {}}}
