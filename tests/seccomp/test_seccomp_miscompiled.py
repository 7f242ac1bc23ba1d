"""If libseccomp's filter differs from the profile, `seccomp-eval` reports an unsure answer.

Tests of seccomp/order.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandwright.evaluate.bpf import run_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import SeccompCall, decide, load_profile_json, oci_json, profile, resolve
from sandwright.seccomp.abi import Abi, numbers
from sandwright.seccomp.command import evaluate_command
from support.seccomp_calls import as_seen, calls
from support.seccomp_oracle import compile_with_libseccomp
from support.thorough import examples

U64 = (1 << 64) - 1
VALUES = [0, 1, 2, 5, 6, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, (1 << 32) + 5, U64]
NEAR = sorted({value for each in VALUES for value in (each - 1, each, each + 1) if 0 <= value <= U64})
OPERATORS = ["EQ", "NE", "LT", "LE", "GE", "GT", "MASKED_EQ"]

Rule = dict[str, Any]


def _rule(*arguments: tuple[int, str, int], action: str = "ALLOW") -> Rule:
    args = [{"index": index, "op": f"SCMP_CMP_{op}", "value": value} for index, op, value in arguments]
    return {"names": ["read"], "action": f"SCMP_ACT_{action}", "args": args}


def _profile(*rules: Rule) -> str:
    return json.dumps({
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": list(rules),
    })  # fmt: skip


def _differences(text: str, second: tuple[int, ...] = (0,)) -> dict[tuple[int, int], bool]:
    """The first two arguments for which libseccomp's filter differs, and whether we report doubt."""
    document = load_profile_json(text, "p.json")
    filter_ = resolve(document, arch="amd64")
    program = compile_with_libseccomp(document, arch="amd64", optimize=1)
    found = {}
    for first in NEAR:
        for other in second:
            call = SeccompCall(Abi.AMD64, numbers(Abi.AMD64)["read"], (first, other, 0, 0, 0, 0))
            decision = decide(filter_, call)
            if run_program(program, as_seen(call)) != decision.action:
                found[first, other] = decision.unsure
    return found


MISCOMPILED = {
    "two orders on one argument": _profile(_rule((0, "GT", 1 << 32)), _rule((0, "LE", 5))),
    "below and from a value": _profile(_rule((0, "GE", (1 << 32) + 1)), _rule((0, "LT", 6))),
    "actions that overlap": _profile(_rule((0, "NE", 0), action="LOG"), _rule((0, "EQ", 1))),
    "several arguments": _profile(_rule((1, "EQ", 1 << 32)), _rule((0, "LT", 6), (1, "NE", 1 << 32))),
}


@pytest.mark.usefixtures("libseccomp")
@pytest.mark.parametrize("text", MISCOMPILED.values(), ids=MISCOMPILED)
def test_what_libseccomp_answers_otherwise_is_unsure(text: str) -> None:
    """Even with a libseccomp that has fixed it, our answer is unsure."""
    assert all(_differences(text, (0, 5, (1 << 32) + 1)).values())


@pytest.mark.parametrize("text", MISCOMPILED.values(), ids=MISCOMPILED)
def test_it_is_said(text: str) -> None:
    answer = evaluate_command(text, "p.json", "read", ["1", "5"])
    assert "unsure: libseccomp before 2.6.1 merges rules such as this call's wrongly" in answer.text()
    assert answer.as_json()["unsure"] is True


SURE = {
    "one rule": _profile(_rule((0, "GT", 1 << 32), (1, "LE", 5))),
    "equality": _profile(_rule((0, "EQ", 1)), _rule((0, "EQ", 2), (1, "EQ", 3), action="LOG")),
    "one order beside equality": _profile(_rule((0, "EQ", 1 << 32)), _rule((0, "LE", 5))),
    "another call": _profile(_rule((0, "GT", 1 << 32)), {**_rule((0, "LE", 5)), "names": ["write"]}),
}


@pytest.mark.usefixtures("libseccomp")
@pytest.mark.parametrize("text", SURE.values(), ids=SURE)
def test_what_is_sure_is_what_libseccomp_answers(text: str) -> None:
    assert _differences(text, (0, 3, 5)) == {}
    assert "unsure" not in evaluate_command(text, "p.json", "read", ["1"]).text()


@st.composite
def _rules(draw: st.DrawFn) -> list[Rule]:
    """Rules with one argument each: with several, libseccomp 2.5.4 may never finish."""
    found = []
    for _ in range(draw(st.integers(2, 3))):
        operator = draw(st.sampled_from(OPERATORS))
        rule = _rule(
            (0, operator, draw(st.sampled_from(VALUES))), action=draw(st.sampled_from(["ALLOW", "LOG"]))
        )
        if operator == "MASKED_EQ":
            rule["args"][0] |= {"value": draw(st.sampled_from([1, 3, 0xFFFFFFFF, U64])), "valueTwo": 1}
        found.append(rule)
    return found


@pytest.mark.usefixtures("libseccomp")
@given(_rules())
@settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_nothing_else_is_answered_otherwise(rules: list[Rule]) -> None:
    try:
        found = _differences(_profile(*rules))
    except OSError:
        return  # libseccomp refuses rules that compare the same and answer differently
    assert all(found.values()), rules


@pytest.mark.parametrize("name", ["default", "strict", "build"])
def test_our_own_profiles_are_sure(name: str) -> None:
    filter_ = resolve(load_profile_json(json_text(oci_json(profile(name).expand())), name), arch="amd64")
    assert not [call for call in calls(filter_, arch="amd64") if decide(filter_, call).unsure]
