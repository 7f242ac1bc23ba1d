"""The paths, hosts and system calls at which a policy's answer can change: those of rules, and neighbours."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from sandwright.evaluate.explain.calls import Arguments
from sandwright.mcp.methods import CALL
from sandwright.policy.http_rules import HttpHost
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.baseline import load_baseline
from sandwright.render.filters import filter_from_file
from sandwright.render.placeholders import first_missing
from sandwright.seccomp import SeccompCall, decide, decide_by_name, profile
from sandwright.seccomp.abi import NATIVE, Architecture, numbers
from sandwright.seccomp.model import U32, SeccompRule

CHILD = "sandwright-child"
"""A name that no real file has."""

KERNEL_CALLS = ("kexec_load", "init_module", "bpf", "keyctl", "add_key", "perf_event_open", "userfaultfd")
"""Calls that our profiles refuse, be it to a program inside or to a kernel that we start."""


def boundary_paths(policy: ResolvedPolicy) -> Iterator[str]:
    """The paths of all rules and protected names, as they are spelled.

    Where one doesn't exist also the first missing one on the way, where something empty may lie while a
    sandbox runs.
    """
    for path in _ruled(policy):
        yield path
        if policy.facts.kind(path) is None:
            yield first_missing(policy.facts, path)


def _ruled(policy: ResolvedPolicy) -> Iterator[str]:
    files = policy.filesystem
    yield "/"
    yield from files.ruled_paths()
    yield from (each.path for each in files.unprotected)


def boundary_hosts(policy: ResolvedPolicy) -> Iterator[tuple[str, int]]:
    """A cloud's metadata, an address, a name that doesn't resolve, and neighbours of listed hosts."""
    yield from (("169.254.169.254", 80), ("192.0.2.1", 443), ("host.invalid", 443))
    for pattern in policy.network.allow:
        host = pattern.host.removeprefix("*.")
        if host == "*":
            continue
        yield host, max(pattern.ports or {443}) % 65535 + 1
        if not host[-1].isdigit() and ":" not in host:
            yield f"x{host}", 443
            yield f"{host}.invalid", 443


def boundary_requests(host: HttpHost) -> Iterator[tuple[str, str]]:
    """Methods and targets at the rules for a host and around them: other methods, paths and spellings."""
    methods = {method for rule in host.rules for method in rule.methods or ()} | {"DELETE", "GET", "POST"}
    for target in dict.fromkeys(_boundary_targets(host)):
        yield from ((method, target) for method in sorted(methods))


def boundary_calls(host: HttpHost) -> Iterator[tuple[str, str, str]]:
    """Requests to MCP servers with messages: listed tools, others, and methods that are no tool's."""
    tools = dict.fromkeys(tool for rule in host.rules for tool in rule.tools or ())
    names = [name for each in tools for name in (each.replace("*", "x"), f"{each.replace('*', 'x')}-{CHILD}")]
    calls = [f"{CALL} {each}" for each in (*dict.fromkeys(names), CHILD)]
    for pattern in sorted(host.tool_paths):
        target = pattern.replace("**", f"{CHILD}/{CHILD}").replace("*", CHILD)
        yield from (("POST", target, call) for call in (*calls, "tools/list", "resources/read", CHILD))


def _boundary_targets(host: HttpHost) -> Iterator[str]:
    yield from ("/", f"/{CHILD}", f"/{CHILD}/{CHILD}")
    for pattern in (path for rule in host.rules for path in rule.paths or ()):
        path = pattern.replace("**", f"{CHILD}/{CHILD}").replace("*", CHILD)
        parent = path.rpartition("/")[0]
        yield from (path, parent or "/", f"{path}{CHILD}", f"{path}/{CHILD}", f"/{CHILD}{path}")
        yield from (
            f"{path}/../{CHILD}",
            f"{path}/.",
            f"{path}//{CHILD}",
            f"{path}%2e%2e",
            f"{path}%2f{CHILD}",
        )
        yield from (f"{path};{CHILD}", f"{path}%00", f"{path}%25", f"{path}\\{CHILD}", f"{path}%c0%ae")
        yield from (f"{path}?service=git-receive-pack", f"{path}?service=git-upload-pack", f"{path}?a=b")


def refused_calls(policy: ResolvedPolicy, arch: Architecture) -> Iterator[tuple[str, Arguments]]:
    """The system calls that the policy's filter refuses: all names, and the arguments at which it changes.

    The arguments of a file's rules are not looked at.
    """
    caps = load_baseline().capabilities["init" if policy.process.sandbox_root else "none"]
    if policy.process.seccomp not in SECCOMP_PROFILES:
        of_file = filter_from_file(policy, caps)
        for name, number in numbers(NATIVE[arch]).items():
            if not decide(of_file, SeccompCall(NATIVE[arch], number)).action.lets_run:
                yield name, _NO_ARGUMENTS
        return
    yield from _refused_by_shipped(policy.process.seccomp, frozenset(caps), arch)


@functools.cache
def _refused_by_shipped(
    name: str, caps: frozenset[str], arch: Architecture
) -> tuple[tuple[str, Arguments], ...]:
    """The same of a shipped profile, which every policy has alike."""
    chosen = profile(name)
    return tuple(
        (call, arguments)
        for call in numbers(NATIVE[arch])
        for arguments in dict.fromkeys(_boundary_arguments(chosen.rules(caps).get(call, ())))
        if not decide_by_name(chosen, call, arguments, caps=caps).action.lets_run
    )


def _boundary_arguments(rules: Iterable[SeccompRule]) -> Iterator[Arguments]:
    """No arguments; those for which each rule holds; and each of its values with one bit of its mask changed.

    Of an argument that is compared as a whole only the lowest bits are changed.
    """
    yield _NO_ARGUMENTS
    for rule in rules:
        holding = {each.argument: each.value for each in rule.when}
        for compared in rule.when:
            bits = compared.mask if compared.mask != U32 else 7
            for value in compared.values:
                for bit in (0, *(1 << at for at in range(32) if bits >> at & 1)):
                    changed = {**holding, compared.argument: value ^ bit}
                    first, second, third, fourth, fifth, sixth = (changed.get(at, 0) for at in range(6))
                    yield first, second, third, fourth, fifth, sixth


_NO_ARGUMENTS = (0, 0, 0, 0, 0, 0)
