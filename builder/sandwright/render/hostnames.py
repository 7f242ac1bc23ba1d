"""Files by which programs look up host names, /etc/hosts and /etc/resolv.conf, in a separate network.

The host's files may name hosts that no policy lists, and an image's files are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sandwright.launcher.plan import NamePlan
from sandwright.policy.hosts import WEB_PORTS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.baseline import load_baseline

_RIGHTS = 1024
"""Ports below are not usable inside, where no program has CAP_NET_BIND_SERVICE (ip(7))."""

_DNS = 53


def name_files(hostname: str, *, proxied: bool, resolver: bool = False) -> dict[str, bytes]:
    """hosts(5) and resolv.conf(5), by name below /etc. `resolver`: the launcher's answers inside."""
    names = f"127.0.0.1\tlocalhost {hostname}\n::1\tlocalhost\n"
    none = b"# Names do not resolve here.\n" if proxied else b"# There is no network.\n"
    return {"hosts": names.encode(), "resolv.conf": b"nameserver 127.0.0.1\n" if resolver else none}


def name_places(policy: ResolvedPolicy) -> dict[str, str]:
    """The host's resolv.conf(5) and hosts(5) that the sandbox sees, and that its own files cover.

    Nothing without listed names, or a resolv.conf: then names stay as the host has them. A listed name that
    stood in the host's hosts(5) would lead past the launcher's resolver to an address without a route.
    """
    if not name_plan(policy).patterns:
        return {}
    found = {name: _visible_file(policy, f"/etc/{name}") for name in ("resolv.conf", "hosts")}
    return {name: path for name, path in found.items() if path and found["resolv.conf"]}


def _visible_file(policy: ResolvedPolicy, path: str) -> str | None:
    canonical = policy.canonical(path)
    seen = policy.facts.kind(canonical) == "file" and policy.is_path_readable(canonical)
    return canonical if seen and not policy.is_path_writable(canonical) else None


def name_artifacts(places: Mapping[str, str]) -> list[Artifact]:
    """Over the host's, behind all other mounts: the launcher's answers inside, and no names but our own."""
    content = name_files(load_baseline().hostname, proxied=True, resolver=True)
    return [Artifact(name, content[name], f"over the host's /etc/{name}") for name in places]


def name_plan(policy: ResolvedPolicy) -> NamePlan:
    """The section of a launcher's plan; empty where no names lead through the proxy.

    The launcher listens on ports that no program inside can take: those of the web, and listed ones below
    1024. Where programs may have rights it listens on none.
    """
    network = policy.network
    reached = (*network.allow, *(each.pattern for each in network.http))
    hosts = [each.host for each in reached if ":" not in each.host and not each.host[-1].isdigit()]
    if network.mode != "proxy" or policy.process.sandbox_root or not hosts:
        return NamePlan()
    listed = {port for each in reached for port in each.ports or ()}
    ports = {port for port in listed | WEB_PORTS if port < _RIGHTS}
    ports -= {_DNS, *network.expose, *network.localhost}
    return NamePlan(patterns=tuple(dict.fromkeys(hosts)), ports=tuple(map(str, sorted(ports))))


def placed_name_plan(policy: ResolvedPolicy) -> NamePlan:
    """The same, with the places of both files."""
    places = name_places(policy)
    resolver, hosts = places.get("resolv.conf"), places.get("hosts")
    return replace(name_plan(policy), resolver_place=resolver, hosts_place=hosts)
