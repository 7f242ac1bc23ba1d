"""The search for the smallest sufficient part of a set: its result, its messages, and its few attempts."""

from __future__ import annotations

import pytest
from benchmarks.least import least
from benchmarks.outer_capabilities import CALLS, with_calls
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import HostError
from sandwright.seccomp import oci_json, profile

LETTERS = tuple("abcdefghijklmnopqrst")


@pytest.mark.parametrize("needed", ["", "a", "t", "aj", "abc", "dkst", "abcdefghijklmnopqrst"])
def test_what_is_needed_is_left(needed: str) -> None:
    found = least(LETTERS, lambda held: "".join(each for each in needed if each not in held))
    assert found.members == tuple(needed)
    assert found.needed == {each: each for each in needed}
    assert found.trials[0].members == LETTERS


@given(st.sets(st.frozensets(st.sampled_from(LETTERS[:8]), max_size=4), min_size=1, max_size=4))
def test_nothing_more_can_go(ways: set[frozenset[str]]) -> None:
    """If there are several sufficient sets, one of them is returned, and no part of it is sufficient."""

    def works(held: tuple[str, ...]) -> bool:
        return any(way <= set(held) for way in ways)

    found = least(LETTERS[:8], lambda held: "" if works(held) else "no way")
    assert works(found.members)
    for each in found.members:
        assert not works(tuple(other for other in found.members if other != each))
        assert found.needed[each] == "no way"


def test_few_are_tried_and_none_twice() -> None:
    tried: list[tuple[str, ...]] = []

    def trial(held: tuple[str, ...]) -> str:
        tried.append(held)
        return "" if {"c", "r"} <= set(held) else "it needs c and r"

    assert least(LETTERS, trial).members == ("c", "r")
    assert len(tried) == len(set(tried)) < 25


def test_what_never_works_is_told() -> None:
    with pytest.raises(HostError, match=r"^it does not work with all of them either: broken$"):
        least(LETTERS, lambda _: "broken")


def test_a_trial_tells_why() -> None:
    found = least(("a", "b"), lambda held: "" if "b" in held else "b is away")
    assert [(each.members, each.fault) for each in found.trials] == [
        (("a", "b"), ""),
        (("b",), ""),
        ((), "b is away"),
    ]


def _allowed(names: tuple[str, ...]) -> set[str]:
    rules = oci_json(with_calls(names).expand())["syscalls"]
    return {
        name
        for rule in rules
        if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule
        for name in rule["names"]
    }


def test_candidates_for_calls_differ_from_default_by_those_alone() -> None:
    plain = {
        name
        for rule in oci_json(profile("default").expand())["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule
        for name in rule["names"]
    }
    assert _allowed(()) == plain
    for name in CALLS:
        assert _allowed((name,)) - plain == {name}, name
    assert not {"mount_setattr", "open_tree", "bpf", "kexec_load"} & _allowed(CALLS)
