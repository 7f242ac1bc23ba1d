"""Improbable profiles: JSON, BPF and libseccomp still agree."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sandwright.errors import DocumentError
from sandwright.evaluate.bpf import read_program, run_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import (
    SeccompCall,
    compile_filter,
    compile_profile,
    decide,
    decide_by_name,
    load_profile_json,
    oci_json,
    profile,
    resolve,
)
from sandwright.seccomp.abi import Abi, numbers
from sandwright.seccomp.action import ALLOW, EPERM, Action, ActionKind
from sandwright.seccomp.groups import CatalogueProfile, SyscallGroup, argument_rule, comparison
from sandwright.seccomp.model import ArgumentComparison, SeccompProfile
from support.seccomp_calls import as_seen, calls
from support.seccomp_oracle import compile_with_libseccomp
from support.thorough import examples

VALUES = [0, 1, 2, 3, 8, 0x10000000, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, 1 << 63, (1 << 64) - 1]
MASKS = [0, 1, 3, 8, 0x10000000, 0x7E020000, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, (1 << 64) - 1]
EQUALITY = ["SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"]
OPERATORS = [*EQUALITY, "SCMP_CMP_NE", "SCMP_CMP_LT", "SCMP_CMP_LE", "SCMP_CMP_GE", "SCMP_CMP_GT"]
ACTIONS: list[dict[str, Any]] = [
    {"action": "SCMP_ACT_ALLOW"},
    {"action": "SCMP_ACT_LOG"},
    {"action": "SCMP_ACT_ERRNO", "errnoRet": 13},
    {"action": "SCMP_ACT_KILL_PROCESS"},
    {"action": "SCMP_ACT_TRAP"},
]
NAMES = ["socket", "shmget", "read", "openat", "clone3"]


@st.composite
def arguments(draw: st.DrawFn, operators: list[str], *, twice: bool) -> list[dict[str, Any]]:
    indices = draw(st.lists(st.integers(0, 2), max_size=3, unique=not twice))
    found = []
    for index in indices:
        operator = draw(st.sampled_from(operators))
        if operator == "SCMP_CMP_MASKED_EQ":
            mask = draw(st.sampled_from(MASKS))
            found.append(
                {"index": index, "op": operator, "value": mask, "valueTwo": draw(st.sampled_from(VALUES))}
            )
        else:
            found.append({"index": index, "op": operator, "value": draw(st.sampled_from(VALUES))})
    return found


@st.composite
def documents(
    draw: st.DrawFn, operators: list[str] = OPERATORS, *, twice: bool = True, rules: int = 5
) -> dict[str, Any]:
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": draw(st.sampled_from([1, 38])),
        "architectures": draw(
            st.sampled_from([[], ["SCMP_ARCH_X86_64"], ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]])
        ),
        "syscalls": [
            {
                **draw(st.sampled_from(ACTIONS)),
                "names": draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)),
                "args": draw(arguments(operators, twice=twice)),
            }
            for _ in range(draw(st.integers(0, rules)))
        ],
    }


def loaded(data: dict[str, Any]) -> SeccompProfile:
    return load_profile_json(json.dumps(data), "random")


def probes() -> list[SeccompCall]:
    """Calls of all kinds, with arguments near the values in the rules."""
    numbers_of = {abi: [numbers(abi)[name] for name in NAMES if name in numbers(abi)] for abi in Abi}
    some = [0, 1, 3, 0x10000001, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, 1 << 63]
    few = [0, 2, 8, (1 << 64) - 1]
    found = []
    for abi in (Abi.AMD64, Abi.I386, Abi.X32):
        for number in (*numbers_of[abi], 102, 117, 999):
            for first, second, third in itertools.product(some, few, few[:3]):
                found.append(SeccompCall(abi, number, (first, second, third, 0, 0, 0)))
    return found


PROBES = probes()
PROBES_64 = [call for call in PROBES if call.abi is Abi.AMD64]


@given(documents())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_json_and_bpf_agree(data: dict[str, Any]) -> None:
    filter_ = resolve(loaded(data), arch="amd64")
    program = read_program(compile_filter(filter_, arch="amd64"))
    for call in PROBES[::7]:
        assert run_program(program, as_seen(call)) == decide(filter_, call).action, call


@pytest.mark.usefixtures("libseccomp")
@given(documents(EQUALITY))
@settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_libseccomp_agrees_about_equality(data: dict[str, Any]) -> None:
    """This includes conflicts: the winner of two overlapping rules, and profiles that are refused.

    On 64 bits: in its filters for 32 bits libseccomp 2.5.4 sometimes loses a rule.
    """
    document = loaded(data)
    filter_ = resolve(document, arch="amd64")
    try:
        program = compile_with_libseccomp(document, arch="amd64", optimize=1)
    except OSError:
        assert filter_.clashes
        return
    assert not filter_.clashes
    for call in PROBES_64[::3]:
        assert run_program(program, as_seen(call)) == decide(filter_, call).action, call


@pytest.mark.usefixtures("libseccomp")
@given(documents(twice=False, rules=1))
@settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_libseccomp_agrees_about_every_operator(data: dict[str, Any]) -> None:
    """Profiles have one rule only: libseccomp 2.5.4 merges some rules with order comparisons wrongly."""
    document = loaded(data)
    program = compile_with_libseccomp(document, arch="amd64", optimize=1)
    filter_ = resolve(document, arch="amd64")
    for call in PROBES[::5]:
        assert run_program(program, as_seen(call)) == decide(filter_, call).action, call


@st.composite
def comparisons(draw: st.DrawFn) -> ArgumentComparison:
    mask = draw(st.sampled_from([1, 3, 0xF, 0x3F, 0xF000, 0x7E020000, 0xFFFFFFFF]))
    values = draw(
        st.lists(st.sampled_from([0, 1, 2, 10, 16, 0x1000, 0x8000, 0x20000]), min_size=1, max_size=3)
    )
    masked = tuple(dict.fromkeys(value & mask for value in values))
    negated = draw(st.booleans())
    return comparison(draw(st.integers(0, 2)), masked if negated else masked[:1], mask, negated=negated)


@st.composite
def own_profiles(draw: st.DrawFn) -> CatalogueProfile:
    """Valid profiles of our own model."""
    groups = {}
    for name in ("socket", "openat"):
        rules = []
        for _ in range(draw(st.integers(1, 4))):
            chosen = draw(st.lists(comparisons(), min_size=1, max_size=2, unique_by=lambda one: one.argument))
            action = draw(st.sampled_from([ALLOW, EPERM, Action(ActionKind.ERRNO, 93)]))
            rules.append(argument_rule((name,), chosen, action, "R."))
        try:
            groups[name] = SyscallGroup(name, "R.", rules=tuple(rules))
        except ValueError:
            assume(False)
    groups["plain"] = SyscallGroup("plain", "R.", ("read", "write"))
    groups["never"] = SyscallGroup(
        "never", "R.", ("bpf", "clone3"), refusal=draw(st.sampled_from([EPERM, Action(ActionKind.ERRNO, 38)]))
    )
    granted = draw(st.lists(st.sampled_from(["socket", "openat", "plain"]), unique=True))
    return CatalogueProfile("random", "R.", groups, tuple(granted))


@given(own_profiles())
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_what_the_model_can_say_comes_out_the_same_everywhere(own: CatalogueProfile) -> None:
    document = load_profile_json(json_text(oci_json(own.expand())), "random")
    filter_ = resolve(document, arch="amd64")
    assert not filter_.clashes
    program = read_program(compile_profile(own.expand(), arch="amd64"))
    for call in itertools.islice(calls(filter_, arch="amd64"), 0, None, 3):
        decision = decide(filter_, call)
        assert not decision.others
        if call.abi is Abi.AMD64:
            assert decision.action == run_program(program, as_seen(call)), call
            assert decision.action == decide_by_name(own, call.name, call.arguments).action, call


@given(st.text(max_size=30), st.sampled_from(["default", "strict"]))
@settings(max_examples=examples(25), deadline=None)
def test_no_text_can_add_a_rule(reason: str, name: str) -> None:
    """A reason reaches the artifact as a comment, and as nothing else."""
    base = profile(name)
    groups = {
        key: SyscallGroup(key, reason, one.syscalls, one.rules, one.refusal)
        for key, one in base.groups.items()
    }
    own = CatalogueProfile(reason, reason, groups, base.grants)
    with_comments = json.loads(json_text(oci_json(own.expand(), comments=True)))
    plain = {json.dumps(_without_comment(rule)) for rule in with_comments["syscalls"]}
    expected = json.loads(json_text(oci_json(base.expand(), comments=True)))
    assert plain == {json.dumps(_without_comment(rule)) for rule in expected["syscalls"]}


def _without_comment(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != "comment"}


@functools.cache
def _moby_like() -> str:
    return json_text(oci_json(profile("default").expand(), comments=True))


@given(st.integers(0, 60_000), st.binary(max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_damaged_profiles_raise_nothing_else_than_that(at: int, bytes_: bytes) -> None:
    raw = _moby_like().encode()
    at %= len(raw)
    damaged = raw[:at] + bytes_ + raw[at + len(bytes_) :]
    with contextlib.suppress(DocumentError):
        resolve(load_profile_json(damaged, "damaged"), arch="amd64")
