"""Renders a profile that somebody else wrote (`process.seccomp: FILE`) for one machine.

The file says what is let through; nothing is added to it, and nothing taken away but what the host's own
sockets ask for. What only an engine's file has (`archMap`, `includes`, `excludes`) is decided here, as the
runtime specification has no such fields. `flags` and the listener of SCMP_ACT_NOTIFY are not taken over.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sandwright.document import field_name
from sandwright.errors import DocumentError, Problem
from sandwright.seccomp.abi import NATIVE, Abi, Architecture, targets
from sandwright.seccomp.action import ALLOW, EPERM, Action, Kind
from sandwright.seccomp.bpf import compile_filter
from sandwright.seccomp.catalogue import profile
from sandwright.seccomp.document import (
    Argument,
    Operator,
    ProfileDocument,
    ProfileRule,
    load_profile_json,
)
from sandwright.seccomp.model import INT, MAX_ARGUMENTS
from sandwright.seccomp.resolve import (
    U32,
    Check,
    Filter,
    FilterRule,
    Relation,
    RuleTable,
    applies,
    resolve,
)

AF_UNIX = 1
"""The address family of Unix sockets on every architecture (linux/socket.h)."""

TYPE_MASK = 0xF
"""The type of a socket; above it lie SOCK_CLOEXEC and SOCK_NONBLOCK (linux/net.h)."""

DATAGRAMS = (2, 3)
"""SOCK_DGRAM, and SOCK_RAW, which Unix sockets take for the same: types of pairs whose ends can still be
connected to, or send to, any other address (unix(7); net/unix/af_unix.c, unix_create, unix_dgram_sendmsg)."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Adopted:
    """A profile from a file, as it holds on a machine of one architecture."""

    document: ProfileDocument
    arch: Architecture
    kernel: tuple[int, int] | None

    def filter(self, caps: Collection[str]) -> Filter:
        """What an engine makes of it. Raise DocumentError where every engine would refuse it."""
        found = resolve(self.document, arch=self.arch, caps=caps, kernel=self.kernel)
        problems = [
            _problem(one.source, f"answers differently than {field_name(other.source.path)} for equal calls")
            for one, other in found.clashes
        ]
        if problems:
            raise DocumentError(self.document.file, problems)
        return found

    def oci(self, caps: Collection[str]) -> Json:
        """It as `linux.seccomp` of the runtime specification."""
        found = self.filter(caps)
        rules = [
            rule
            for rule in self.document.rules
            if applies(rule, self.arch, caps, self.kernel) and rule.action != self.document.default
        ]
        return {
            "architectures": [abi.oci for abi in found.tables],
            **_default(self.document.default),
            "syscalls": [_rule(rule.names, rule.action, [*map(_argument, rule.arguments)]) for rule in rules],
        }

    def gvisor(self, caps: Collection[str]) -> Json:
        """It as runsc takes it, which answers EPERM wherever the file refuses, however it does.

        Calls whose callers would be lost with EPERM are left to gVisor's kernel where the file refuses them
        with another error, as in the shipped profiles.
        """
        found = self.filter(caps)
        spared = _left_to_sentry()
        rules: list[Json] = []
        plain: dict[Action, dict[str, None]] = {}
        for number_rules in found.tables[NATIVE[self.arch]].values():
            made = [(rule, _of_gvisor(rule, spared)) for rule in number_rules]
            if len(made) == 1 and not made[0][0].checks:
                plain.setdefault(made[0][1], {})[made[0][0].name] = None
            else:
                rules += [_rule((rule.name,), action, [*map(_check, rule.checks)]) for rule, action in made]
        whole = [_rule(tuple(sorted(names)), action, []) for action, names in plain.items()]
        default = ALLOW if found.default.lets_run else EPERM
        listed = [rule for rule in [*whole, *rules] if rule["names"]]
        return {
            "architectures": [NATIVE[self.arch].oci],
            "defaultAction": default.kind.oci,
            "syscalls": [{key: value for key, value in rule.items() if key != "errnoRet"} for rule in listed],
        }

    def bpf(self, caps: Collection[str], *, unix_sockets: bool) -> bytes:
        """It as BPF; without `unix_sockets` none can be made, whatever the file says."""
        found = self.filter(caps)
        return compile_filter(found if unix_sockets else without_unix(found), arch=self.arch)


def adopt(text: str, file: str, *, arch: Architecture, kernel: tuple[int, int] | None) -> Adopted:
    """The profile that a file holds. Raise DocumentError with all that is wrong in it, and where.

    A profile whose calls are answered by somebody who listens is refused: no sandbox has such a listener.
    """
    return Adopted(_document(text, file), arch, kernel)


@functools.lru_cache(maxsize=8)
def _document(text: str, file: str) -> ProfileDocument:
    document = load_profile_json(text.encode("utf-8", "surrogateescape"), file)
    problems = [
        _problem(rule, "SCMP_ACT_NOTIFY asks a supervisor, which a sandbox does not have")
        for rule in document.rules
        if rule.action.kind is Kind.NOTIFY
    ]
    if document.default.kind is Kind.NOTIFY:
        problems.append(Problem(1, 1, "defaultAction", "asks a supervisor, which a sandbox does not have"))
    if problems:
        raise DocumentError(file, problems)
    return document


def makes_unix_sockets(found: Filter) -> bool:
    """Whether a filter may let a socket of AF_UNIX be made, or one whose making it can't see.

    A pair counts when it is one of datagrams. An argument whose upper half is not 0 counts: socket(2) takes
    an int. io_uring makes sockets without a system call of its own (IORING_OP_SOCKET, Linux 5.19).
    """
    for abi, table in found.tables.items():
        for target in targets(abi, "socket"):
            values = _WIDE if target.selector is None else (target.selector,)
            rules = table.get(target.number, ())
            if any(_may_run(rules, {0: value}, found.default) for value in values):
                return True
        for target in targets(abi, "socketpair"):
            seen = _FREE_PAIRS if target.selector is None else ({0: target.selector},)
            if any(_may_run(table.get(target.number, ()), known, found.default) for known in seen):
                return True
        for target in targets(abi, "io_uring_setup"):
            if _may_run(table.get(target.number, ()), {0: 0}, found.default):
                return True
    return False


_WIDE = tuple(AF_UNIX | high << 32 for high in (0, 1, U32))
_FREE_PAIRS = tuple({0: family, 1: kind} for family in _WIDE for kind in DATAGRAMS)


def _may_run(rules: tuple[FilterRule, ...], known: Mapping[int, int], default: Action) -> bool:
    """Whether a call with these arguments may be let run, whatever its others are."""
    arguments = tuple(known.get(index, 0) for index in range(MAX_ARGUMENTS))
    for rule in rules:
        own = [check for check in rule.checks if check.argument in known]
        if all(check.holds(arguments) for check in own):
            if rule.action.lets_run:
                return True
            if len(own) == len(rule.checks):
                return False
    return default.lets_run


def without_unix(found: Filter) -> Filter:
    """A filter that refuses sockets of AF_UNIX before anything else is asked; pairs stay, but of datagrams.

    i386 makes both through socketcall(2) too, whose arguments no filter sees; they are refused for all
    families there, and io_uring, which makes sockets unseen, altogether.
    """
    tables = {abi: _guarded(abi, table) for abi, table in found.tables.items()}
    return replace(found, tables=MappingProxyType(tables))


_GUARD = ProfileRule(("socket",), EPERM, comment="AF_UNIX, by which sockets of the host would be reached.")


def _guarded(abi: Abi, table: RuleTable) -> RuleTable:
    made = dict(table)
    for target in targets(abi, "socket"):
        check = Check(0, Relation.EQUAL, AF_UNIX, INT, masked=True)
        if target.selector is not None:
            check = Check(0, Relation.EQUAL, target.selector, INT, masked=True)
        guard = FilterRule("socket", EPERM, (check,), _GUARD)
        made[target.number] = (guard, *made.get(target.number, ()))
    for target in targets(abi, "socketpair"):
        made[target.number] = (*_guarded_pairs(target.selector), *made.get(target.number, ()))
    for target in targets(abi, "io_uring_setup"):
        made[target.number] = (FilterRule("io_uring_setup", EPERM, (), _GUARD),)
    return MappingProxyType(made)


def _guarded_pairs(selector: int | None) -> Iterator[FilterRule]:
    """Rules that refuse pairs of datagrams; through socketcall(2), which has a `selector`, all pairs."""
    if selector is not None:
        check = Check(0, Relation.EQUAL, selector, INT, masked=True)
        yield FilterRule("socketpair", EPERM, (check,), _GUARD)
        return
    family = Check(0, Relation.EQUAL, AF_UNIX, INT, masked=True)
    for kind in DATAGRAMS:
        of_kind = Check(1, Relation.EQUAL, kind, TYPE_MASK, masked=True)
        yield FilterRule("socketpair", EPERM, (family, of_kind), _GUARD)


def _of_gvisor(rule: FilterRule, spared: frozenset[str]) -> Action:
    if rule.action.lets_run:
        return ALLOW
    other = rule.action.kind is Kind.ERRNO and rule.action != EPERM
    return ALLOW if other and not rule.checks and rule.name in spared else EPERM


@functools.cache
def _left_to_sentry() -> frozenset[str]:
    groups = profile("default").groups.values()
    return frozenset(name for group in groups if group.left_to_sentry for name in group.syscalls)


def _default(action: Action) -> Json:
    found: Json = {"defaultAction": action.kind.oci}
    if action.kind in (Kind.ERRNO, Kind.TRACE):
        found["defaultErrnoRet"] = action.data
    return found


def _rule(names: Collection[str], action: Action, arguments: list[Json]) -> Json:
    rule: Json = {"action": action.kind.oci, "names": list(names)}
    if action.kind in (Kind.ERRNO, Kind.TRACE):
        rule["errnoRet"] = action.data
    if arguments:
        rule["args"] = arguments
    return rule


def _argument(argument: Argument) -> Json:
    found: Json = {"index": argument.index, "op": argument.operator.value, "value": argument.value}
    if argument.operator is Operator.MASKED_EQ:
        found["valueTwo"] = argument.value_two
    return found


def _check(check: Check) -> Json:
    if check.masked:
        operator = Operator.MASKED_EQ
        return {"index": check.argument, "op": operator.value, "value": check.mask, "valueTwo": check.value}
    operator = _OPERATORS[check.relation, check.negated]
    return {"index": check.argument, "op": operator.value, "value": check.value}


_OPERATORS: Mapping[tuple[Relation, bool], Operator] = {
    (Relation.EQUAL, False): Operator.EQ,
    (Relation.EQUAL, True): Operator.NE,
    (Relation.GREATER, False): Operator.GT,
    (Relation.GREATER, True): Operator.LE,
    (Relation.AT_LEAST, False): Operator.GE,
    (Relation.AT_LEAST, True): Operator.LT,
}


def _problem(rule: ProfileRule, message: str) -> Problem:
    return Problem(*rule.position, field_name(rule.path), message)
