"""The managed policy's limits of `network.http` and `credentials.http`."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy.hosts import HostIndex, listed_pattern
from sandwright.policy.http_rules import HttpHost
from sandwright.policy.layers import MergedSettings
from sandwright.policy.provenance import Faults, PolicySource
from sandwright.policy.resolve_http import resolve_credentials, resolve_http


def http_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    """What the settings open beyond the floor's rules: by rules, by tunnels past them, and secrets."""
    limits = {(each.host, each.port): each for each in resolve_http(floor, Faults())}
    tunnels = HostIndex(listed_pattern(item.value) for item in floor.items("network.allow"))
    limited = "network.allow" in floor.lists or "network.http" in floor.lists
    opened = resolve_http(settings, Faults())
    for host in opened if limited else ():
        if not tunnels.covers(host.pattern):
            yield from _rule_faults(host, limits.get((host.host, host.port)))
    for item in settings.items("network.allow"):
        pattern = listed_pattern(item.value)
        for limit in limits.values():
            by_rules = any((each.host, each.port) == (limit.host, limit.port) for each in opened)
            past = pattern.matches(limit.host, limit.port) and not by_rules
            if past and not tunnels.covers(limit.pattern):
                yield (
                    item.source,
                    f"{item.value} leads past the floor's network.http for {limit.name}",
                )
    yield from _secret_faults(floor, settings, opened)


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
