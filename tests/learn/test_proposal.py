"""The proposal of `learn` edits the policy's text and leaves the rest unchanged, with any names."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from sandwright.documents.yaml import parse_yaml
from sandwright.learn.proposal import Item, Proposal, difference
from sandwright.policy.load import layer

SOME = Proposal(
    (Item("/opt/go", "a toolchain, 12 of it used"),), (Item("$PROJECT", "changed"),), seccomp="strict"
)

_READ = "  read:\n    - /opt/go  # learned: a toolchain, 12 of it used\n"
_WRITE = "  write:\n    - $PROJECT  # learned: changed\n"
_CALLS = "process:\n  seccomp: strict  # learned: the narrowest filter of system calls\n"
_WIDE = """filesystem:
    # what is read
    read:
    - /

    # kept
    deny: [~/x]   # too
network: {mode: none}
process: {seccomp: build}  # old
"""
_EDITED = """filesystem:
    # what is read
    read:
      - /opt/go  # learned: a toolchain, 12 of it used

    # kept
    deny: [~/x]   # too
    write:
      - $PROJECT  # learned: changed
network: {mode: none}
"""
EDITS = {
    "schema: 1\nmethod: bwrap\n": f"schema: 1\nmethod: bwrap\nfilesystem:\n{_READ}{_WRITE}{_CALLS}",
    _WIDE: f"{_EDITED}{_CALLS}",
    "filesystem: {write: [/srv], tmp: shared}\nprocess:\n": (
        f"filesystem:\n{_WRITE}  tmp: shared\n{_READ}{_CALLS}"
    ),
}


@pytest.mark.parametrize("text", EDITS)
def test_edits_leave_the_rest_alone(text: str) -> None:
    assert SOME.edit(text) == EDITS[text]
    assert SOME.edit(EDITS[text]) == EDITS[text]


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 1, "filesystem": {"read": ["/"], "deny": ["~/x"]}}\n',
        "schema: 1\nprocess: &p\n  sandbox_root: false\nenvironment: {set: {A: '100:50', B: 'no'}}\n",
        "---\nschema: 1\n...\n",
        "",
    ],
)
def test_any_text_says_what_was_proposed(text: str) -> None:
    before, after = _data(text), _data(SOME.edit(text))
    learnt = ("filesystem", "process")
    assert {name: after[name] for name in after if name not in learnt} == {
        name: before[name] for name in before if name not in learnt
    }
    kept = {**before.get("filesystem", {}), **before.get("process", {})}
    changed = {"read": ["/opt/go"], "write": ["$PROJECT"], "seccomp": "strict"}
    assert {**after["filesystem"], **after["process"]} == {**kept, **changed}


def _data(text: str) -> dict[str, Any]:
    found: Any = parse_yaml(text, file="sandbox.yaml").data
    return found or {}


NAMES = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.isprintable).map(lambda name: f"/{name}")


_QUOTES = ('/a", "/', "/a\\", '/a"  # b')
HOSTILE = [*_QUOTES, "/a]", "/: b", "/- c", "/#d", "/$$HOME", "/{e: f}", "/*g", "/&h", "/!i"]


@given(st.lists(NAMES, max_size=4), st.sampled_from(list(EDITS)))
@example(HOSTILE, _WIDE)
def test_no_name_says_anything_but_itself(names: list[str], text: str) -> None:
    made = Proposal(tuple(Item(each, "read") for each in names), ()).edit(text)
    before, after = yaml.safe_load(text), yaml.safe_load(made)
    filesystem = {**(before.get("filesystem") or {}), "read": names, "write": []}
    assert after == {**before, "filesystem": filesystem}
    shown = difference(text, made, "sandbox.yaml")
    assert all(each in "\n\t" or each.isprintable() for each in shown)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_says_anything_but_itself_in_settings_of_a_run(name: str) -> None:
    read, _ = Proposal((Item(name, "read"),), ()).settings()
    assert yaml.safe_load(read.partition("=")[2]) == [name]


def test_what_a_policy_says_already_obeys_no_terminal() -> None:
    text = "schema: 1  # \u202egnp.exe\n"
    assert "\\u202e" in difference(text, SOME.edit(text), "sandbox.yaml")


def test_settings_say_the_same_as_the_text() -> None:
    made = Proposal(
        (Item("/a, b]", "read"),), (), (Item("example.org:8443", "reached"),), "proxy", (), (), "build"
    )
    said = _data(made.edit("schema: 1\n"))
    layer(made.edit("schema: 1\n"), file="sandbox.yaml")
    fields = dict(each.split("=", 1) for each in made.settings())
    assert {name: yaml.safe_load(value) for name, value in fields.items()} == {
        f"{section}.{key}": value
        for section in said
        if section != "schema"
        for key, value in said[section].items()
    }


def test_a_host_with_a_private_address_stays_one() -> None:
    item = Item("mirror.example", "reached", private=True)
    made = Proposal((), (), (item,), "proxy")
    data = _data(made.edit("schema: 1\n"))
    assert data["network"] == {"mode": "proxy", "allow": [{"host": "mirror.example", "private": True}]}
    assert "network.allow=[{host: mirror.example, private: true}]" in made.settings()


def test_a_grant_is_left_out_alone() -> None:
    item = SOME.read[0]
    assert SOME.without(item) == Proposal((), SOME.write, seccomp="strict")
    assert SOME.items() == (*SOME.read, *SOME.write)
