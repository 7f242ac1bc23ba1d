"""Cloud accounts: the paths that `credentials.cloud` opens and closes, whichever presets a policy extends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandwright.api import Policy
from sandwright.policy.facts import HostEntry, HostFacts

KEY = "/srv/keys/google.json"
FACTS = HostFacts(
    os="linux", home="/home/u", project="/home/u/p", environment={"GOOGLE_APPLICATION_CREDENTIALS": KEY},
    entries={
        **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p", "/home/u/.aws"), HostEntry("directory")),
        **dict.fromkeys(("/srv", "/srv/keys"), HostEntry("directory")),
        KEY: HostEntry("file"),
        "/srv/key": HostEntry("symlink", "keys/google.json"),
    },
)  # fmt: skip
AWS, GCLOUD = "/home/u/.aws/credentials", "/home/u/.config/gcloud/credentials.db"


def _readable(text: str, facts: HostFacts = FACTS) -> set[str]:
    policy = Policy.from_text(f"schema: 1\nmethod: bwrap\n{text}").resolve(facts)
    return {path for path in (AWS, GCLOUD, KEY) if policy.is_path_readable(path)}


@pytest.mark.parametrize(
    "extends", ["", "extends: []\nfilesystem: {read: [/]}\n"], ids=["default", "nothing"]
)
@pytest.mark.parametrize(
    ("cloud", "readable"),
    [
        ("", set()),
        ("credentials: {cloud: none}\n", set()),
        ("credentials: {cloud: readonly}\n", {AWS, GCLOUD, KEY}),
    ],
    ids=["absent", "none", "readonly"],
)
def test_what_is_open(extends: str, cloud: str, readable: set[str]) -> None:
    assert _readable(f"{extends}{cloud}") == readable


def test_what_a_policy_lists_by_its_path_is_its_own_choice() -> None:
    assert _readable(f"extends: []\nfilesystem: {{read: [/, ~/.aws, {KEY}]}}\n") == {AWS, KEY}


def test_nothing_is_written_in_either_way() -> None:
    for cloud in ("none", "readonly"):
        text = f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [/srv]}}\ncredentials: {{cloud: {cloud}}}\n"
        policy = Policy.from_text(text).resolve(FACTS)
        assert policy.is_path_writable("/srv/keys/other")
        assert not policy.is_path_writable(KEY)


@pytest.mark.parametrize(
    "key", ["/", "/srv", "relative.json", "", "/srv/../srv/keys/google.json", "/missing/key.json", "/srv/key"]
)
def test_odd_keys_close_nothing_else(key: str) -> None:
    facts = replace(FACTS, environment={"GOOGLE_APPLICATION_CREDENTIALS": key})
    policy = Policy.from_text("schema: 1\nmethod: bwrap\n").resolve(facts)
    assert policy.is_path_readable("/srv/other")
    assert policy.is_path_writable("/home/u/p/file")
    assert policy.is_path_readable(KEY) is (key != "/srv/key"), "by a link it is the same file"
