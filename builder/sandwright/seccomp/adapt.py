"""Adapts profiles to the programs that run under them: profile in, profile out, from any source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sandwright.seccomp.abi import NATIVE, Architecture
from sandwright.seccomp.action import ALLOW, ENOSYS, EPERM, NOTIFY, Action, ActionKind
from sandwright.seccomp.model import (
    ArgumentComparison,
    ComparisonOperator,
    SeccompProfile,
    SeccompRule,
    masked_comparison,
)
from sandwright.seccomp.resolve import resolve

AF_UNIX = 1
"""The address family of Unix sockets on every architecture (linux/socket.h)."""

IP = (2, 10)
"""AF_INET and AF_INET6 on Linux of every architecture (linux/socket.h)."""

TYPE_MASK = 0xF
"""The type of a socket; above it lie SOCK_CLOEXEC and SOCK_NONBLOCK (linux/net.h)."""

DATAGRAMS = (2, 3)
"""SOCK_DGRAM, and SOCK_RAW, which Unix sockets treat alike: the ends of such pairs can still be connected
to, or send to, any other address (unix(7); net/unix/af_unix.c, unix_create, unix_dgram_sendmsg)."""

HIDDEN = ("socketcall", "io_uring_setup")
"""Calls that make sockets of a family that no filter sees: i386's, and io_uring's IORING_OP_SOCKET (Linux
5.19)."""

_UNIX = masked_comparison(0, AF_UNIX)


def _no_datagrams(name: str) -> tuple[SeccompRule, ...]:
    """Refusals of socketpair(2) or socket(2)."""
    comment = "Datagrams, by which sockets of the host would be reached."
    conditions = ((_UNIX, masked_comparison(1, kind, TYPE_MASK)) for kind in DATAGRAMS)
    return tuple(SeccompRule((name,), EPERM, when, comment=comment) for when in conditions)


_UNIX_GUARDS = (
    *_no_datagrams("socketpair"),
    SeccompRule(("socket",), EPERM, (_UNIX,)),
    SeccompRule(("io_uring_setup",), EPERM),
)
_OWN_GUARDS = (
    *_no_datagrams("socketpair"),
    *_no_datagrams("socket"),
    SeccompRule(("io_uring_setup",), EPERM),
)


def without_unix(profile: SeccompProfile) -> SeccompProfile:
    """The profile with AF_UNIX sockets denied; socket pairs stay allowed, except those of datagrams.

    The rules of the catalogue are rewritten, as JSON needs them without overlap. A file's are guarded: i386
    makes both through socketcall(2) too, whose arguments no filter sees; they are refused for all families
    there, and io_uring, which makes sockets unseen, altogether.
    """
    if not profile.first_wins:
        return replace(profile, guards=(*profile.guards, *_UNIX_GUARDS))
    reason = "AF_UNIX, by which sockets of the host would be reached."
    closed = without_families(profile, (AF_UNIX,), reason)
    return replace(closed, rules=tuple(made for rule in closed.rules for made in _restrict_socketpair(rule)))


def own_unix(profile: SeccompProfile) -> SeccompProfile:
    """The profile for a sandbox whose connections the launcher makes: Unix sockets, except datagram sockets.

    Datagrams bring addresses of their own, and io_uring connects unseen. In a profile of the catalogue
    connect(2) asks a listener: without one, which the launcher brings, it is ENOSYS. Calls that a file
    refuses stay refused.
    """
    if not profile.first_wins:
        return replace(profile, guards=(*profile.guards, *_OWN_GUARDS))
    rules = (made for rule in profile.rules for made in _streams(rule))
    return replace(profile, rules=tuple(made for rule in rules for made in _split_connect(rule)))


def _split_connect(rule: SeccompRule) -> Iterator[SeccompRule]:
    """A rule that allows connect(2) and others."""
    if "connect" not in rule.names or rule.action != ALLOW:
        yield rule
        return
    others = tuple(name for name in rule.names if name != "connect")
    if others:
        yield replace(rule, names=others)
    yield replace(rule, names=("connect",), action=NOTIFY)


NEW_LISTENER = 1 << 3
"""SECCOMP_FILTER_FLAG_NEW_LISTENER (linux/seccomp.h)."""


def with_notifications(profile: SeccompProfile) -> SeccompProfile:
    """A profile of the catalogue whose refusals ask a listener, but for ENOSYS, by which programs go on.

    No program gets a listener of a newer filter: that fails with EBUSY, the kernel's error for a second one.
    """
    flag = masked_comparison(1, 0, NEW_LISTENER), masked_comparison(1, NEW_LISTENER, NEW_LISTENER)
    busy = Action(ActionKind.ERRNO, 16)
    rules: list[SeccompRule] = []
    for rule in profile.rules:
        refuses = rule.action.kind is ActionKind.ERRNO and rule.action != ENOSYS
        others = tuple(name for name in rule.names if name != "seccomp" or refuses)
        if others:
            rules.append(replace(rule, names=others, action=NOTIFY if refuses else rule.action))
        if others != rule.names:
            rules.append(replace(rule, names=("seccomp",), when=(*rule.when, flag[0])))
            rules.append(replace(rule, names=("seccomp",), when=(*rule.when, flag[1]), action=busy))
    return replace(profile, rules=tuple(rules))


def without_ip(profile: SeccompProfile) -> SeccompProfile:
    """A profile of the catalogue that refuses sockets of IPv4 and IPv6."""
    return without_families(profile, IP, "IP, which a policy without a network closes in the kernel.")


def without_families(profile: SeccompProfile, families: Iterable[int], reason: str) -> SeccompProfile:
    """A profile of the catalogue; all its rules about a granted family of socket(2) become one refusal."""
    granted = {_socket_family(rule) for rule in profile.rules if rule.action == ALLOW} & {*families}
    refused: set[int] = set()
    rules: list[SeccompRule] = []
    for rule in profile.rules:
        family = _socket_family(rule)
        if family is None or family not in granted:
            rules.append(rule)
        elif family not in refused:
            refused.add(family)
            rules.append(replace(rule, action=EPERM, when=(masked_comparison(0, family),), comment=reason))
    return replace(profile, rules=tuple(rules))


def _socket_family(rule: SeccompRule) -> int | None:
    """The family that a rule of socket(2) is about."""
    if "socket" not in rule.names:
        return None
    comparisons = (one for one in rule.when if one.argument == 0)
    return next((one.value for one in comparisons if one.operator is ComparisonOperator.MASKED_EQ), None)


def _restrict_socketpair(rule: SeccompRule) -> Iterator[SeccompRule]:
    """A rule of socketpair(2) by types: an end of a pair of datagrams can send to any other address."""
    yield from _restrict_types(rule, "socketpair")


def _streams(rule: SeccompRule) -> Iterator[SeccompRule]:
    """The same for socket(2), too."""
    for made in _restrict_socketpair(rule):
        yield from _restrict_types(made, "socket")


def _restrict_types(rule: SeccompRule, name: str) -> Iterator[SeccompRule]:
    if name not in rule.names or rule.action != ALLOW or rule.when != (_UNIX,):
        yield rule
        return
    for refusal in _no_datagrams(name):
        yield replace(refusal, group=rule.group)
    others = ArgumentComparison(1, ComparisonOperator.NONE_OF, DATAGRAMS, TYPE_MASK)
    yield replace(rule, when=(*rule.when, others))


def in_order(profile: SeccompProfile, *, arch: Architecture) -> SeccompProfile:
    """The profile with an engine's rules for the machine's own ABI, in the order in which it tries them."""
    found = resolve(profile, arch=arch)
    native = NATIVE[arch]
    rules = tuple(rule for rules in found.tables[native].values() for rule in rules)
    return replace(profile, rules=rules, architectures=(native.oci,), first_wins=True)


def for_gvisor(profile: SeccompProfile) -> SeccompProfile:
    """A profile whose first rule wins, with runsc's possible answers: ENOSYS, and EPERM for other refusals.

    It does not start with LOG, KILL_PROCESS, KILL_THREAD or NOTIFY (runsc/specutils/seccomp).
    """
    default = _of_gvisor(profile.default)
    rules = (replace(rule, action=_of_gvisor(rule.action)) for rule in profile.rules)
    # Rules of the catalogue don't overlap, so that those with the default action add nothing.
    needed = [rule for rule in rules if rule.action != default or not rule.group]
    return replace(profile, default=default, rules=merged(needed))


def _of_gvisor(action: Action) -> Action:
    return ALLOW if action.lets_run else action if action == ENOSYS else EPERM


def merged(rules: Iterable[SeccompRule]) -> tuple[SeccompRule, ...]:
    """Merge unconditional rules that are the only ones of their names, into one for each action."""
    rules = tuple(rules)
    times = Counter(name for rule in rules for name in rule.names)
    outright: dict[Action, list[SeccompRule]] = {}
    others: list[SeccompRule] = []
    for rule in rules:
        alone = not rule.when and all(times[name] == 1 for name in rule.names)
        (outright.setdefault(rule.action, []) if alone else others).append(rule)
    whole = (
        replace(same[0], names=tuple(sorted(name for rule in same for name in rule.names)))
        for same in outright.values()
    )
    return (*whole, *others)
