"""Facts of a host: kept as JSON, and refused if the JSON has another form.

Tests of policy/facts.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.errors import DocumentError
from sandwright.policy.facts import HostEntry, HostFacts

FACTS = HostFacts(
    os="darwin",
    home="/Users/u",
    project="/Users/u/p",
    user="u",
    uid=501,
    gid=20,
    tmp="/private/var/folders/x/T/sandwright",
    cwd="/Users/u/p/sub",
    platform="darwin/arm64",
    kernel="24.1.0",
    case_sensitive=False,
    environment={"DATA": "/data"},
    entries={"/Users/u/p": HostEntry("directory"), "/Users/u/l": HostEntry("symlink", "p")},
    git_directories=("/Users/u/p/.git",),
    sockets=("/private/var/run/x.sock",),
)


def test_json_and_back() -> None:
    text = FACTS.to_json()
    assert HostFacts.from_json(text) == FACTS
    assert HostFacts.from_json(text).to_json() == text


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
PATHS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), max_size=4).map(
    lambda n: "/" + "/".join(n)
)
ENTRIES = st.sampled_from([HostEntry("file"), HostEntry("directory"), HostEntry("socket")]) | st.builds(
    HostEntry, st.just("symlink"), st.text(min_size=1, max_size=20)
)


@settings(deadline=None)
@given(
    PATHS,
    PATHS,
    st.dictionaries(PATHS, ENTRIES, max_size=5),
    st.dictionaries(NAMES, st.text(max_size=9), max_size=3),
)
def test_any_facts_and_back(
    home: str, project: str, entries: dict[str, HostEntry], environment: dict[str, str]
) -> None:
    facts = HostFacts(os="linux", home=home, project=project, entries=entries, environment=environment)
    assert HostFacts.from_json(facts.to_json()) == facts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 1}, "f: schema: must be 2, not 1: record the facts again"),
        ({"os": "windows"}, "f: os: must be one of linux, darwin, not 'windows'"),
        ({"home": "u"}, "f: home: must be an absolute path without '.', '..' or double slashes, not 'u'"),
        ({"project": "/a/../b"}, "f: project: must be an absolute path without '.', '..' or double slashes, not '/a/../b'"),
        ({"tmp": "/tmp/"}, "f: tmp: must be an absolute path without '.', '..' or double slashes, not '/tmp/'"),
        ({"cwd": "x"}, "f: cwd: must be an absolute path without '.', '..' or double slashes, not 'x'"),
        ({"uid": "0"}, "f: uid: must be a whole number, not '0'"),
        ({"uid": True}, "f: uid: must be a whole number, not true"),
        ({"uid": -1}, "f: uid: must be between 0 and 4294967294, not -1"),
        ({"user": "a:b"}, "f: user: cannot be the name of a user: 'a:b'"),
        ({"user": "a\nb"}, "f: user: cannot be the name of a user: 'a\\nb'"),
        ({"entries": {"x": "file"}}, "f: entries.x: must be an absolute path without '.', '..' or double slashes, not 'x'"),
        ({"entries": {"/x": "flie"}}, 'f: entries["/x"]: must be a kind, or ["symlink", target]'),
        ({"entries": {"/x": "symlink"}}, 'f: entries["/x"]: must be a kind, or ["symlink", target]'),
        ({"entries": {"/x": ["file", "y"]}}, 'f: entries["/x"]: must be a kind, or ["symlink", target]'),
        ({"entries": []}, "f: entries: must be a mapping, not a list"),
        ({"environment": {"A": 1}}, "f: environment.A: must be text, not 1; put it in quotes"),
        ({"sockets": ["x"]}, "f: sockets[0]: must be an absolute path without '.', '..' or double slashes, not 'x'"),
        ({"git_directories": [1]}, "f: git_directories[0]: must be text, not 1; put it in quotes"),
        ({"autoru": []}, "f: autoru: no such key; did you mean 'autorun'?"),
    ],
)  # fmt: skip
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        HostFacts.from_json(json.dumps({**json.loads(FACTS.to_json()), **changes}), file="f")
    assert str(refused.value) == message


def test_what_is_missing() -> None:
    with pytest.raises(DocumentError) as refused:
        HostFacts.from_json('{"schema": 2}', file="f")
    assert str(refused.value) == "f: home: is required\nf: os: is required\nf: project: is required"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_what_is_no_facts(text: str) -> None:
    with pytest.raises(DocumentError):
        HostFacts.from_json(text)


def test_variables() -> None:
    assert FACTS.variables == {
        "DATA": "/data",
        "PROJECT": "/Users/u/p",
        "HOME": "/Users/u",
        "TMP": "/private/var/folders/x/T/sandwright",
        "CWD": "/Users/u/p/sub",
        "UID": "501",
        "STATE": "/Users/u/.local/state/sandwright/state",
        "CACHE": "/Users/u/.local/state/sandwright/caches/p-0e4b67c83561",
    }


def test_the_environment_does_not_replace_the_hosts_own() -> None:
    facts = HostFacts(os="linux", home="/home/u", project="/p", environment={"PROJECT": "/etc"})
    assert facts.variables["PROJECT"] == "/p"
    assert facts.variables["CWD"] == "/p"
