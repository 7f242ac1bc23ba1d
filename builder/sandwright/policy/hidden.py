"""The paths of /proc and /sys that every sandbox on Linux hides, as `oci/paths.json` lists them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import canonical_with_links
from sandwright.resources import data_json

NETWORK = ("/sys/class/net", "/sys/devices/virtual/net")
"""The directories that describe the network that /sys was mounted in: the host's own, if the sandbox uses
that."""


@functools.cache
def hidden_paths() -> Mapping[str, str]:
    """The paths, each with the reason for which it is hidden."""
    return _reasons_by_path("masked")


@functools.cache
def hidden_of_host() -> Mapping[str, str]:
    """The paths that are hidden in addition if the host's /sys is visible, each with the reason."""
    return _reasons_by_path("masked_of_host")


def network_devices(facts: HostFacts) -> list[str]:
    """The directories that describe physical network devices: links in /sys/class/net lead into them."""
    links = (path for path in facts.entries if path.startswith(f"{NETWORK[0]}/"))
    found = {canonical_with_links(path, facts)[0].rpartition("/")[0] for path in links}
    return sorted(path for path in found if path.endswith("/net") and path not in NETWORK)


def hidden_in_hosts_sys(facts: HostFacts, *, own_network: bool) -> list[str]:
    """The paths that are hidden where the host's /sys is shown. `own_network`: it is not the host's."""
    paths = [*hidden_of_host(), *network_devices(facts)]
    return paths if own_network else [path for path in hidden_of_host() if path not in NETWORK]


def _reasons_by_path(name: str) -> Mapping[str, str]:
    rows = data_json("oci", "paths.json")[name]
    return {row["path"]: row["reason"] for row in rows}
