"""The questions that find every difference between two policies: the cases that one of them mentions.

Between two paths at which either policy has a rule nothing changes, so asking at these, above, below and
beside them asks everywhere. The same holds of hosts, ports, sockets, variables and arguments of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandwright.evaluate.boundary import CHILD, boundary_calls, boundary_paths, boundary_requests
from sandwright.policy.explain import Question
from sandwright.policy.hosts import HostIndex
from sandwright.policy.paths import below, parent
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import LOADERS
from sandwright.render.filters import from_file
from sandwright.seccomp import SeccompProfile, profile
from sandwright.seccomp.abi import known_names
from sandwright.seccomp.model import MAX_ARGUMENTS, U64, ArgumentComparison, ComparisonOperator

NEIGHBOUR = "sandwright-neighbour"
"""Like CHILD, a name that no real file has."""

_STRANGER = "stranger.invalid"
"""A host on no list (RFC 6761, 6.4)."""


@dataclass(frozen=True)
class Case:
    """One question, as `explain` takes it."""

    question: Question
    subject: str
    arguments: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """`write /home/u/.ssh`, `syscall socket(0x1)`."""
        if self.arguments is None:
            return f"{self.question} {self.subject}"
        return f"{self.question} {self.subject}({', '.join(map(hex, self.arguments))})"


def both_policies_cases(policies: Sequence[ResolvedPolicy]) -> tuple[Case, ...]:
    """Every case, each once. The facts of the policies need not hold the paths (see `paths`)."""
    found = [Case(question, path) for path in paths(policies) for question in _PATH_QUESTIONS]
    found += [
        Case("connect", each)
        for each in (*_host_cases(policies), *_port_cases(policies), *_socket_cases(policies))
    ]
    found += [Case("request", each) for each in _request_cases(policies)]
    found += [Case("env", name) for name in _variable_cases(policies)]
    found += _calls(policies)
    return tuple(dict.fromkeys(found))


_PATH_QUESTIONS: tuple[Question, ...] = ("read", "write")
"""The question about reading stands for executing too: a readable file can be executed."""


def paths(policies: Sequence[ResolvedPolicy]) -> tuple[str, ...]:
    """Every path at which a policy has a rule, with its parent, a child and a neighbour."""
    named = dict.fromkeys(path for policy in policies for path in boundary_paths(policy))
    near = (each for path in named for each in (path, parent(path), below(path, CHILD), _neighbour(path)))
    return tuple(dict.fromkeys(near))


def _neighbour(path: str) -> str:
    return below(parent(path), f"{path.rpartition('/')[2]}-{NEIGHBOUR}")


def _host_cases(policies: Sequence[ResolvedPolicy]) -> Iterator[str]:
    """Each host of a list, for a wildcard one below it and its base, with the ports that its patterns name.

    A port that no pattern about a host names is answered like any other such port of that host.
    """
    patterns = [pattern for policy in policies for pattern in policy.network.allow]
    patterns += [host.pattern for policy in policies for host in policy.network.http]
    index = HostIndex(patterns)
    hosts = [_STRANGER, "192.0.2.1", "2001:db8::1"]
    for pattern in patterns:
        base = pattern.host.removeprefix("*.")
        if base != "*":
            hosts += (
                [base] if ":" in base or base[-1].isdigit() else [base, f"child.{base}", f"beside-{base}"]
            )
    for host in dict.fromkeys(hosts):
        named = {port for _, pattern in index.about(host) for port in pattern.ports or ()} | {80, 443, 22}
        for port in sorted(named | {port + 1 for port in named if port < 65535}):
            yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _request_cases(policies: Sequence[ResolvedPolicy]) -> Iterator[str]:
    """Requests at the rules of either policy and around them."""
    for host in (host for policy in policies for host in policy.network.http):
        for method, target in boundary_requests(host):
            if "\\" not in target:
                yield f"{method} https://{host.name}{target}"
        for method, target, call in boundary_calls(host):
            yield f"{method} https://{host.name}{target} {call}"


def _port_cases(policies: Sequence[ResolvedPolicy]) -> Iterator[str]:
    ports = {port for policy in policies for port in policy.network.localhost} | {1}
    for port in sorted({*ports, *(port + 1 for port in ports if port < 65535)}):
        yield f"localhost:{port}"


def _socket_cases(policies: Sequence[ResolvedPolicy]) -> Iterator[str]:
    for path in {path: None for policy in policies for path in policy.network.unix_sockets}:
        yield from (path, below(path, CHILD), _neighbour(path))
    yield from (path for policy in policies for path in policy.facts.sockets)


def _variable_cases(policies: Sequence[ResolvedPolicy]) -> Iterator[str]:
    """Each name, one that begins with it, and for patterns one that they cover."""
    yield "SANDWRIGHT_STRANGER"
    for policy in policies:
        environment = policy.environment
        shims = [name for shim in policy.credentials.shims.values() for name in shim.secrets]
        patterns = (*environment.passed, *environment.set, *environment.secret, *LOADERS, *shims)
        for pattern in patterns:
            name = pattern.removesuffix("*") or "X"
            yield from (name, f"{name}SANDWRIGHT") if not name.endswith("_") else (f"{name}SANDWRIGHT",)


def _calls(policies: Sequence[ResolvedPolicy]) -> Iterator[Case]:
    """Every call, and with the arguments at which a rule of either profile changes its answer."""
    profiles = [_profile(policy) for policy in policies]
    yield from (Case("syscall", name) for name in sorted(known_names()))
    yield from (Case("syscall", "socket", (family,)) for family in range(1, 46))
    for rule in (rule for each in profiles for rule in (*each.guards, *each.rules) if rule.when):
        exact = [_satisfying_argument(comparison) for comparison in rule.when]
        for name in (name for name in rule.names if name in known_names()):
            yield Case("syscall", name, _argument_words(exact))
            for index, comparison in enumerate(rule.when):
                for value in _near(comparison):
                    changed = [*exact[:index], (comparison.argument, value), *exact[index + 1 :]]
                    yield Case("syscall", name, _argument_words(changed))


def _profile(policy: ResolvedPolicy) -> SeccompProfile:
    return from_file(policy) or profile(policy.process.seccomp).expand()


def _satisfying_argument(comparison: ArgumentComparison) -> tuple[int, int]:
    """An argument for which a comparison holds, as far as one value says it."""
    return comparison.argument, _add_wrapping(comparison.value, _HOLDS.get(comparison.operator, 0))


_HOLDS = {
    ComparisonOperator.NE: 1,
    ComparisonOperator.NONE_OF: 1,
    ComparisonOperator.LT: -1,
    ComparisonOperator.GT: 1,
}


def _near(comparison: ArgumentComparison) -> Iterator[int]:
    for value in comparison.values:
        yield from (value, _add_wrapping(value, 1), _add_wrapping(value, -1))
        yield value | (comparison.mask & ~value & U64)


def _add_wrapping(value: int, by: int) -> int:
    return (value + by) & U64


def _argument_words(values: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    words = [0] * MAX_ARGUMENTS
    for index, value in values:
        words[index] = value
    return tuple(words)
