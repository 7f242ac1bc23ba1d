"""The paths and hosts at which a policy's answer can change: those of its rules, and their neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy.paths import below
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.placeholders import first_missing

CHILD = "sandwright-child"
"""A name that no real file has."""


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
    yield from (rule.path for rule in (*files.rules, *files.startup))
    yield from (each.path for each in files.unprotected)
    for protection in files.protections:
        yield from (below(root, name.value) for root in protection.roots for name in protection.names)


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
