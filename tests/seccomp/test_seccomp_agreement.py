"""The answers of a profile are the same in JSON, in BPF, and in libseccomp's filter, for every call.

Tests of seccomp/bpf.py.
Tests of seccomp/oci.py.
"""

from __future__ import annotations

import functools

import pytest

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
    profiles,
    resolve,
)
from sandwright.seccomp.abi import NATIVE, Architecture
from sandwright.seccomp.action import KILL_PROCESS, KILL_THREAD, Action
from sandwright.seccomp.decide import SeccompDecision
from sandwright.seccomp.model import SeccompFilter, SeccompProfile
from support.seccomp_calls import as_seen, calls
from support.seccomp_oracle import compile_with_libseccomp, known_to_libseccomp
from support.thorough import covering

ALL_CAPS = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_SYS_TIME", "CAP_SYSLOG")
PROFILES = ("default", "strict", "build", "bwrap-in-container", "runsc-in-container", "kernel-of-vm")
CASES = covering(covering(PROFILES, ("amd64", "arm64"), thorough=True), ((), ALL_CAPS))
"""Each profile for each architecture."""


def rendered(name: str, caps: tuple[str, ...]) -> SeccompProfile:
    return load_profile_json(json_text(oci_json(profile(name).expand(caps=caps))), name)


@functools.cache
def decided(
    name: str, arch: Architecture, caps: tuple[str, ...] = ()
) -> tuple[SeccompFilter, list[tuple[SeccompCall, SeccompDecision]]]:
    """The model's decision on each call of a rendered profile; computed once, because it takes a while."""
    filter_ = resolve(rendered(name, caps), arch=arch, caps=caps)
    return filter_, [(call, decide(filter_, call)) for call in calls(filter_, arch=arch)]


def test_the_cases_hold_every_profile() -> None:
    assert {str(case.values[0]) for case in CASES} == set(profiles())


@pytest.mark.parametrize(("name", "arch", "caps"), CASES)
def test_json_and_bpf_agree(name: str, arch: Architecture, caps: tuple[str, ...]) -> None:
    filter_, decisions = decided(name, arch, caps)
    ours = read_program(compile_profile(profile(name).expand(caps=caps), arch=arch))
    theirs = read_program(compile_filter(filter_, arch=arch))
    count = 0
    for call, decision in decisions:
        count += 1
        assert not decision.others, call
        assert run_program(theirs, as_seen(call)) == decision.action, call
        answer = run_program(ours, as_seen(call))
        # Engines stop the thread that calls through another ABI; bwrap gets a filter that stops the process.
        assert (KILL_THREAD if answer == KILL_PROCESS else answer) == decision.action, call
        if call.abi is NATIVE[arch]:
            said = decide_by_name(profile(name), call.name, call.arguments, caps=caps)
            assert said.action == decision.action, call
    assert count > 1500
    assert not filter_.clashes


@pytest.mark.usefixtures("libseccomp")
@pytest.mark.parametrize(("name", "arch", "caps"), CASES)
def test_libseccomp_makes_the_same_of_the_json(name: str, arch: Architecture, caps: tuple[str, ...]) -> None:
    document = rendered(name, caps)
    filter_, decisions = decided(name, arch, caps)
    program = compile_with_libseccomp(document, arch=arch, caps=caps)
    newer = set()
    for call, decision in decisions:
        if known_to_libseccomp(call.name, call.abi):
            assert run_program(program, as_seen(call)) == decision.action, call
        else:
            newer.add(call.name)
            assert run_program(program, as_seen(call)) == newer_answer(filter_, call), call
    assert "read" not in newer


def newer_answer(filter_: SeccompFilter, call: SeccompCall) -> Action:
    """The answer of a libseccomp that does not know a call."""
    return filter_.default if call.abi in filter_.tables else filter_.foreign


def test_a_filter_of_ours_is_not_the_same_as_another() -> None:
    """The control: the comparison can fail."""
    document = rendered("default", ())
    other = read_program(compile_profile(profile("strict").expand(), arch="amd64"))
    filter_ = resolve(document, arch="amd64")
    differing = {
        call.name
        for call in calls(filter_, arch="amd64")
        if run_program(other, as_seen(call)) != decide(filter_, call).action
    }
    assert {"setuid", "shmget", "io_setup", "personality", "socket"} <= differing


def test_the_stub_of_runc_answers_what_is_above_the_named() -> None:
    rule = '{"names": ["read", "clone3"], "action": "SCMP_ACT_ALLOW"}'
    text = f'{{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{rule}]}}'
    filter_ = resolve(load_profile_json(text, "p"), arch="amd64")
    assert decide(filter_, SeccompCall(NATIVE["amd64"], 434)).runc is None
    above = decide(filter_, SeccompCall(NATIVE["amd64"], 436))
    assert (above.action.data, above.runc and above.runc.data) == (1, 38)


@pytest.mark.parametrize(
    ("narrow", "wide", "arch"),
    covering(
        [
            pytest.param("strict", "default"),
            pytest.param("default", "build"),
            pytest.param("default", "bwrap-in-container"),
            pytest.param("default", "runsc-in-container"),
        ],
        ["amd64", "arm64"],
    ),
)
def test_one_profile_lets_through_no_more_than_another(narrow: str, wide: str, arch: Architecture) -> None:
    """An operator's floor compares profiles by this order."""
    less, more = (resolve(rendered(name, ()), arch=arch) for name in (narrow, wide))
    lets = [
        (call, decide(less, call).action.lets_run, decide(more, call).action.lets_run)
        for call in calls(less, more, arch=arch)
    ]
    assert not [call for call, narrow_lets, wide_lets in lets if narrow_lets and not wide_lets]
    assert any(wide_lets and not narrow_lets for _, narrow_lets, wide_lets in lets)
