"""The user's bus in directories that replace `$XDG_RUNTIME_DIR`: without it crun refuses rootless Podman."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from sandwright.host import collect_host
from sandwright.runtime.contract import Variant
from sandwright.runtime.podman import PODMAN
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.verify.fixture import plant_fixture


@contextmanager
def _verify() -> Iterator[Path]:
    with plant_fixture() as fixture:
        yield fixture.state


@contextmanager
def _image_checks() -> Iterator[Path]:
    with (
        scratch_directory() as root,
        PODMAN.session(Variant(), collect_host(), root / "r", threading.Event()),
    ):
        yield hidden_directory(root, "r") / "xdg"


PLACES = [_verify, _image_checks]


@pytest.mark.parametrize("place", PLACES)
def test_a_bus(
    place: Callable[[], AbstractContextManager[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus is the user's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "bus"))
        with place() as directory:
            assert (directory / "bus").readlink() == tmp_path / "bus"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("runtime", ["", "relative", "/nonexistent"])
def test_no_bus(
    place: Callable[[], AbstractContextManager[Path]], runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    with place() as directory:
        assert not (directory / "bus").is_symlink()
