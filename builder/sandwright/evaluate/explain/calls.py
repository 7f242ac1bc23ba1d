"""Answers of a rendered filter to a system call: of a BPF program, or of the JSON that engines read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from sandwright.documents.document import Document, field_name
from sandwright.errors import UsageError
from sandwright.evaluate.bpf import SystemCall, read_program, run_program
from sandwright.evaluate.explain.enclosure import Calls
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.seccomp import SeccompCall, SeccompDecision, decide
from sandwright.seccomp.abi import NATIVE, Abi, Architecture, numbers
from sandwright.seccomp.action import Action, ActionKind
from sandwright.seccomp.document import load_profile_json, read_profile
from sandwright.seccomp.model import SeccompFilter
from sandwright.seccomp.resolve import resolve

Arguments = tuple[int, int, int, int, int, int]


def architecture_named(name: str) -> Architecture:
    """The architecture of a name. Raise UsageError for one without tables of system calls."""
    match name:
        case "amd64":
            return "amd64"
        case "arm64":
            return "arm64"
        case _:
            raise UsageError(f"there is no table of system calls for {name}; there is amd64, arm64")


UNLISTED = "a call that no rule names"
"""In place of a call's name: a filter answers with its default action."""

_BEHIND_ALL = 0x7FFF
"""A number that no kernel has a call for."""


def number(question: Asked, abi: Abi) -> int | None:
    """The number of a call on an ABI, None where that has no such call."""
    return _BEHIND_ALL if question.name == UNLISTED else numbers(abi).get(question.name)


def padded(question: Asked) -> Arguments:
    """The six arguments of a call, those not given 0."""
    first, second, third, fourth, fifth, sixth = [*(question.arguments or ()), *[0] * 6][:6]
    return first, second, third, fourth, fifth, sixth


def of_bpf(content: bytes, file: str) -> Calls:
    """The answers of a program, for the architecture it was made for."""

    def answer(question: Asked, arch: str) -> MethodVerdict:
        abi = NATIVE[architecture_named(arch)]
        call_number = number(question, abi)
        if call_number is None:
            return _unknown_call(question, arch)
        action = _bpf_answers(content, file)(SystemCall(call_number, abi.audit, padded(question)))
        at = ArtifactPosition(file, f"{question.name} ({call_number}): {action}")
        return MethodVerdict(action.lets_run, f"the filter answers {action}", at)

    return answer


@functools.lru_cache(maxsize=8)
def _bpf_answers(content: bytes, file: str) -> Callable[[SystemCall], Action]:
    """The answers of a program. They are cached, because all renderings of a profile share it."""
    program = read_program(content, file=file)
    return functools.lru_cache(maxsize=4096)(lambda call: run_program(program, call))


def of_json(content: bytes, file: str, *, caps: Collection[str] = (), listener: Calls | None = None) -> Calls:
    """The answers of a profile; it is parsed at the first question.

    `listener` answers the calls that it reports to one.
    """
    filter_of = functools.partial(_filter_of_json, content, file, frozenset(caps))
    return _profile_calls(filter_of, file, listener)


@functools.lru_cache(maxsize=8)
def _filter_of_json(content: bytes, file: str, caps: frozenset[str], machine: Architecture) -> SeccompFilter:
    """The filter that an engine makes of a profile: several artifacts and all renderings name the same."""
    return resolve(load_profile_json(content, file), arch=machine, caps=caps)


def of_document(document: Document, *, caps: Collection[str] = ()) -> Calls:
    """The answers of the profile in a bundle's configuration."""
    profile = functools.cache(lambda: read_profile(document))
    filter_of = functools.cache(lambda machine: resolve(profile(), arch=machine, caps=caps))
    return _profile_calls(filter_of, document.file)


def widest(one: Calls, other: Calls) -> Calls:
    """The answers of one filter, except where another one allows a call that the first denies."""

    def answer(question: Asked, arch: str) -> MethodVerdict:
        verdict = one(question, arch)
        wider = other(question, arch) if verdict.allowed is False else verdict
        return wider if wider.allowed else verdict

    return answer


def only(names: Collection[str], found: Calls, reason: str) -> Calls:
    """The answers about some calls; none, for a reason, about others."""

    def answer(question: Asked, arch: str) -> MethodVerdict:
        if question.name in names:
            return found(question, arch)
        return MethodVerdict(allowed=None, because=reason)

    return answer


def _profile_calls(
    filter_of: Callable[[Architecture], SeccompFilter], file: str, listener: Calls | None = None
) -> Calls:
    def answer(question: Asked, arch: str) -> MethodVerdict:
        machine = architecture_named(arch)
        call_number = number(question, NATIVE[machine])
        if call_number is None:
            return _unknown_call(question, arch)
        decision = decide(filter_of(machine), SeccompCall(NATIVE[machine], call_number, padded(question)))
        if listener is not None and decision.action.kind is ActionKind.NOTIFY:
            return listener(question, arch)
        runs = decision.action.lets_run and decision.action.kind is not ActionKind.TRACE  # there is no tracer
        return MethodVerdict(
            runs, f"the filter answers {decision.action}", _decision_position(decision, file)
        )

    return answer


def unfiltered(file: str) -> Calls:
    """The answers where an artifact leaves the filter out that it should name: an engine's own holds then."""

    def answer(_asked: Asked, _arch: str) -> MethodVerdict:
        at = ArtifactPosition(file, "no filter of the policy")
        return MethodVerdict(allowed=True, because="the policy's filter is not used", position=at)

    return answer


def no_filter(reason: str) -> Calls:
    """The answers where there is no filter."""

    def answer(_asked: Asked, _arch: str) -> MethodVerdict:
        return MethodVerdict(allowed=None, because=reason)

    return answer


def _decision_position(decision: SeccompDecision, file: str) -> ArtifactPosition:
    rule = decision.rule
    if rule is None:
        return ArtifactPosition(file, f"defaultAction: {decision.action}")
    line, column = rule.position
    return ArtifactPosition(file, f"{field_name(rule.path)}: {rule.action}", line, column)


def _unknown_call(question: Asked, arch: str) -> MethodVerdict:
    return MethodVerdict(allowed=None, because=f"{arch} has no system call {question.name}")
