"""The managed policy's limits of `network.http` and `credentials.http`."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy.hosts import HostIndex, ListedHost, listed_pattern
from sandwright.policy.http_rules import HttpHost
from sandwright.policy.layers import MergedSettings
from sandwright.policy.provenance import Faults, PolicySource, Sourced
from sandwright.policy.resolve_http import resolve_credentials, resolve_http


def http_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    """Settings beyond the floor's rules for HTTP: in rules, in tunnels past them, and in secrets."""
    limits = {(each.host, each.port): each for each in resolve_http(floor, Faults())}
    tunnels = HostIndex(listed_pattern(item.value) for item in floor.items("network.allow"))
    limited = "network.allow" in floor.lists or "network.http" in floor.lists
    opened = resolve_http(settings, Faults())
    # A host with rules is no tunnel at any port, for every pattern of the floor that covers its name.
    ruled = {host for host, _ in limits}
    for host in opened if limited else ():
        if host.host in ruled or not tunnels.covers(host.pattern):
            yield from _rule_faults(host, limits.get((host.host, host.port)))
    named = {host.host for host in opened}
    for item in settings.items("network.allow") if settings.value("network.mode") == "proxy" else ():
        for limit in limits.values():
            if listed_pattern(item.value).covers_host(limit.host) and limit.host not in named:
                yield _tunnel_fault(settings, item, limit)
    yield from _secret_faults(floor, settings, opened)


def _tunnel_fault(
    settings: MergedSettings, item: Sourced[str | ListedHost], limit: HttpHost
) -> tuple[PolicySource, str]:
    """A tunnel past a limit: by a pattern, or, where that is the floor's own, by rules taken away."""
    last = max(item.source, settings.given.get("network.http", item.source), key=lambda each: each.rank)
    return last, f"{item.value} leads past the floor's network.http for {limit.name}"


def _rule_faults(host: HttpHost, limit: HttpHost | None) -> Iterator[tuple[PolicySource, str]]:
    if limit is None:
        yield (
            host.rules[0].source,
            f"{host.name} is in neither list of the floor: network.http, allow",
        )
        return
    if host.private and not limit.private:
        yield host.rules[0].source, f"{host.name} may not be private: the floor's network.http doesn't say so"
    for rule in host.uncovered(limit):
        yield (
            rule.source,
            f"{host.name}: {rule}: more than the floor allows ({limit.rules[0].source})",
        )


def _secret_faults(
    floor: MergedSettings, settings: MergedSettings, opened: tuple[HttpHost, ...]
) -> Iterator[tuple[PolicySource, str]]:
    if "credentials.http" not in floor.lists:
        return
    allowed = resolve_credentials(floor, opened, Faults())
    for secret in resolve_credentials(settings, opened, Faults()):
        if not any(secret.same_use(each) for each in allowed):
            yield secret.source, f"{secret.use}: not in the floor's credentials.http"
