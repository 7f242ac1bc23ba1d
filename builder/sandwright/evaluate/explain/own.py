"""The policy's own answer, before any method: the one that every artifact is compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sandwright.errors import UsageError
from sandwright.evaluate.explain.calls import Arguments, architecture_named, number, padded
from sandwright.evaluate.explain.verdict import Asked
from sandwright.policy import explain as own
from sandwright.policy.explain import QUESTIONS, Explanation, Question, RuleReason
from sandwright.policy.paths import follow
from sandwright.policy.phrasing import one_of
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.filters import filter_from_file, from_file
from sandwright.seccomp import SeccompCall, decide, decide_by_name, profile
from sandwright.seccomp.abi import NATIVE, guess, known_names

_KINDS: Mapping[str, Question] = {each: each for each in QUESTIONS}
_ENDPOINT = re.compile(r"(\[[^\]]*\]|[^:]*):([0-9]+)")


def make_question(
    policy: ResolvedPolicy, question: str, subject: str, arguments: tuple[int, ...] | None
) -> Asked:
    """A question as it is put to artifacts. Raise UsageError for one that makes no sense."""
    try:
        kind = _KINDS[one_of(question, QUESTIONS, what="question")]
    except ValueError as error:
        raise UsageError(str(error)) from None
    match kind:
        case "read" | "write" | "exec":
            return _path_question(policy, Asked(kind, policy.canonical(subject)), subject)
        case "connect":
            subject = own.explain(policy, kind, subject).subject
            if subject.startswith("/"):
                return _path_question(policy, Asked(kind, subject), subject)
            found = _ENDPOINT.fullmatch(subject)
            assert found is not None, subject
            return Asked(kind, subject, host=found[1].strip("[]"), port=int(found[2]))
        case "request":
            host, port, method, target, call = _parsed_request(subject)
            subject = own.explain(policy, kind, subject).subject
            return Asked(kind, subject, host=host, port=port, name=method, target=target, call=call)
        case "listen":
            subject = own.explain(policy, kind, subject).subject
            return Asked(kind, subject, port=int(subject))
        case "env" | "tool":
            return Asked(kind, subject, name=subject)
        case "syscall":
            return _call_question(subject, arguments)


def _parsed_request(text: str) -> tuple[str, int, str, str, str]:
    try:
        return own.parse_request(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def own_answer(policy: ResolvedPolicy, question: Asked, arch: str) -> Explanation:
    """The policy's own answer to a question."""
    if question.kind != "syscall":
        return own.explain(policy, question.kind, question.path or question.subject)
    source = policy.source("process.seccomp")
    name = policy.process.seccomp
    arguments = padded(question)
    on_machine = replace(policy, facts=replace(policy.facts, platform=f"linux/{arch}"))
    if from_file(on_machine) is not None:
        abi = NATIVE[architecture_named(arch)]
        call_number = number(question, abi)
        if call_number is None:
            ground = RuleReason(f"seccomp {name}: {arch} has no such call", source)
            return Explanation("syscall", question.subject, allowed=False, ground=ground)
        decision = decide(filter_from_file(on_machine), SeccompCall(abi, call_number, arguments))
        line, column = decision.rule.position if decision.rule else (1, 1)
        ground = RuleReason(f"seccomp {name}:{line}:{column}: {decision.action}", source)
        return Explanation("syscall", question.subject, decision.action.lets_run, ground)
    return _of_shipped(question, arguments, name, policy)


def _of_shipped(question: Asked, arguments: Arguments, name: str, policy: ResolvedPolicy) -> Explanation:
    found = decide_by_name(profile(name), question.name, arguments)
    group = f"group {found.group}" if found.group else "no group"
    text = f"seccomp {name}, {group}: {found.reason} ({found.action})"
    if question.arguments is None and found.rule is not None:
        text += " [it depends on the arguments, taken as 0]"
    ground = RuleReason(text, policy.source("process.seccomp"))
    return Explanation("syscall", question.subject, found.action.lets_run, ground)


def _path_question(policy: ResolvedPolicy, question: Asked, subject: str) -> Asked:
    """The question with its path, and the links that were followed to it."""
    links = follow(policy.spelled(subject), policy.facts)[1]
    path = policy.canonical(subject)
    of_image = policy.denies_image(path)
    return question._replace(path=path, links=tuple(where for where, _ in links), image=of_image)


def _call_question(subject: str, arguments: tuple[int, ...] | None) -> Asked:
    if subject not in known_names():
        best = guess(subject)
        raise UsageError(f"{subject} is not a system call" + (f"; did you mean {best}?" if best else ""))
    if arguments is not None and len(arguments) > 6:
        raise UsageError(f"a call has at most 6 arguments, not {len(arguments)}")
    words = "".join(f" {value:#x}" for value in arguments or ())
    return Asked("syscall", subject + words, name=subject, arguments=arguments)
