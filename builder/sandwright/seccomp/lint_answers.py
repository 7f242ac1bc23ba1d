"""Checks of a profile as engines resolve it: rules that undo each other, ways around a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sandwright.seccomp.abi import NATIVE, Abi, Architecture, numbers, targets
from sandwright.seccomp.action import ENOSYS, EPERM, Action, ActionKind
from sandwright.seccomp.catalogue import profile as shipped_profile
from sandwright.seccomp.decide import Arguments, SeccompCall, decide
from sandwright.seccomp.fault import SeccompFault, Severity, fault_at
from sandwright.seccomp.lint_rules import ordered_pairs
from sandwright.seccomp.model import SeccompFilter, SeccompRule

TIOCSTI = 0x5412
CLONE_NEWUSER = 0x10000000


def answer_faults(
    filter_: SeccompFilter, rules: Sequence[SeccompRule], arch: Architecture
) -> Iterator[SeccompFault]:
    """All faults, in no particular order. `rules` are those that `filter_` was resolved from."""
    yield from _undone(rules, filter_.default)
    yield from _lint_clashes(filter_)
    yield from _clone3(filter_, rules, arch)
    yield from _ways_around(filter_, rules, arch)
    yield from _foreign(filter_, rules)
    yield from _lint_grants(filter_, rules, arch)
    if filter_.default.lets_run:
        message = "allows by default, and so every call it does not name: those of newer kernels too"
        yield SeccompFault(0, 0, Severity.WARNING, "wide-open", message)


def _undone(rules: Sequence[SeccompRule], default: Action) -> Iterator[SeccompFault]:
    """Rules that another one for the same call makes ineffective."""
    for name, listed in _rules_by_name(rules, default).items():
        whole = next((rule for rule in listed if not rule.when), None)
        for rule in listed:
            if whole is not None and rule is not whole and rule.action != whole.action:
                line = whole.position[0]
                message = f"does nothing for {name}: the rule in line {line} holds whatever the arguments are"
                yield fault_at(rule, Severity.ERROR, "undone", message)
        if whole is None and ordered_pairs(listed):
            message = (
                f"{name} has several rules that compare by more than equality; libseccomp before 2.6.1"
                " merges some such pairs wrongly and lets calls through (GHSA-4q85-33p6-j5g6)"
            )
            yield fault_at(listed[-1], Severity.WARNING, "ordered-comparisons", message)


def _lint_clashes(filter_: SeccompFilter) -> Iterator[SeccompFault]:
    seen = set()
    for one, other in filter_.clashes:
        if (one.path, other.path) not in seen:
            seen.add((one.path, other.path))
            line = one.position[0]
            message = f"compares as the rule in line {line} does and answers differently: engines refuse that"
            yield fault_at(other, Severity.ERROR, "clash", message)


def _clone3(
    filter_: SeccompFilter, rules: Sequence[SeccompRule], arch: Architecture
) -> Iterator[SeccompFault]:
    answer = _evaluate_call(filter_, arch, "clone3")
    clone = _evaluate_call(filter_, arch, "clone", (CLONE_NEWUSER, 0, 0, 0, 0, 0))
    where = next((rule for rule in rules if "clone3" in rule.names), None)
    if answer.kind is ActionKind.ERRNO and answer != ENOSYS:
        message = (
            f"clone3 is answered with {answer}: glibc tries clone only after ENOSYS, so no thread can be made"
        )
        yield _make_fault(where, Severity.ERROR, "clone3", message)
    elif answer.lets_run and not clone.lets_run:
        message = "clone3 is allowed, so programs can pass the flags there that are refused with clone"
        yield _make_fault(where, Severity.ERROR, "clone3", message)


def _ways_around(
    filter_: SeccompFilter, rules: Sequence[SeccompRule], arch: Architecture
) -> Iterator[SeccompFault]:
    if _evaluate_call(filter_, arch, "ioctl", (0, TIOCSTI, 0, 0, 0, 0)).lets_run:
        where = next((rule for rule in rules if "ioctl" in rule.names), None)
        message = "TIOCSTI is allowed: what runs inside can type on the terminal it was started from"
        yield _make_fault(where, Severity.WARNING, "terminal-input", message)
    by_family = [rule for rule in rules if "socket" in rule.names and rule.when]
    if by_family and _evaluate_call(filter_, arch, "io_uring_setup").lets_run:
        message = (
            "socket is compared by its arguments, but io_uring is allowed, which makes sockets without it"
        )
        yield _make_fault(by_family[0], Severity.ERROR, "io-uring", message)


def _foreign(filter_: SeccompFilter, rules: Sequence[SeccompRule]) -> Iterator[SeccompFault]:
    """Calls of i386 that hide their arguments."""
    multiplexed = [number for number in (102, 117) if Abi.I386 in filter_.tables]
    for number in multiplexed:
        hidden = sorted(
            {
                name
                for rule in rules
                if rule.when
                for name in rule.names
                if any(target.number == number and target.selector for target in targets(Abi.I386, name))
            }
        )
        reached = [name for name in hidden if _selected(filter_, number, name).lets_run]
        if reached:
            call = "socketcall" if number == 102 else "ipc"
            message = (
                f"32-bit programs reach {', '.join(reached)} through {call}, where filters see no arguments;"
                " leave SCMP_ARCH_X86 out"
            )
            yield SeccompFault(0, 0, Severity.WARNING, "multiplexed", message)


def _selected(filter_: SeccompFilter, number: int, name: str) -> Action:
    selector = next(t.selector for t in targets(Abi.I386, name) if t.number == number)
    return decide(filter_, SeccompCall(Abi.I386, number, (selector or 0, 0, 0, 0, 0, 0))).action


def _lint_grants(
    filter_: SeccompFilter, rules: Sequence[SeccompRule], arch: Architecture
) -> Iterator[SeccompFault]:
    """Calls that are allowed outright although our default profile refuses them."""
    refused = {
        name: shipped
        for name, (shipped, *_) in shipped_profile("default").rules().items()
        if shipped.action == EPERM and not shipped.when
    }
    for rule in rules:
        if not rule.action.lets_run or rule.when:
            continue
        more = [
            name for name in rule.names if name in refused and _evaluate_call(filter_, arch, name).lets_run
        ]
        groups = dict.fromkeys(refused[name].group for name in more)
        for group in groups:
            names = ", ".join(name for name in more if refused[name].group == group)
            reason = next(refused[name].comment for name in more if refused[name].group == group)
            yield fault_at(rule, Severity.NOTE, "grants", f"allows {names}: {reason}")


def _evaluate_call(
    filter_: SeccompFilter, arch: Architecture, name: str, arguments: Arguments = (0, 0, 0, 0, 0, 0)
) -> Action:
    native = NATIVE[arch]
    number = numbers(native).get(name)
    if number is None:
        return filter_.default
    return decide(filter_, SeccompCall(native, number, arguments)).action


def _rules_by_name(rules: Sequence[SeccompRule], default: Action) -> dict[str, list[SeccompRule]]:
    found: dict[str, list[SeccompRule]] = {}
    for rule in rules:
        if rule.action != default:
            for name in rule.names:
                found.setdefault(name, []).append(rule)
    return found


def _make_fault(rule: SeccompRule | None, severity: Severity, code: str, message: str) -> SeccompFault:
    return (
        SeccompFault(0, 0, severity, code, message)
        if rule is None
        else fault_at(rule, severity, code, message)
    )
