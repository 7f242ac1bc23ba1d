"""Fixtures for tests of the proxy: a lab of network namespaces, policies, and a running proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.egress import Proxy, proxy
from support.egressing import policy
from support.inspecting import Inspected, inspected
from support.netlab import MACHINE, METADATA, OTHER, PRIVATE, WORLD, WORLD6, World, lab, placed_hosts_file

ALLOW = (
    "web.example", "*.wild.example", "private.example", "meta.example", "self.example",
    "machine.example", "nat.example", "gone.example", "six.example:8080", OTHER, f"[{WORLD6}]:80",
    "moves.example", "xn--bcher-kva.wild.example",
)  # fmt: skip

HOSTS = {
    WORLD: "web.example other.example sub.wild.example wild.example a.b.wild.example"
    " web.example.evil.example",
    PRIVATE: "private.example inside.wild.example",
    OTHER: "xn--bcher-kva.wild.example",
    WORLD6: "six.example",
    METADATA: "meta.example",
    "127.0.0.1": "self.example",
    MACHINE: "machine.example",
    "64:ff9b::a63:2": "nat.example",
}


@pytest.fixture(scope="module")
def world(network_lab: None) -> Iterator[World]:
    """The test runs on a separate machine, with a world beside it."""
    with lab() as found:
        yield found


@pytest.fixture(scope="module")
def names() -> Iterator[Path]:
    """A hosts file with the names of the world, where squid can read it as another user."""
    with placed_hosts_file(HOSTS) as path:
        yield path


@pytest.fixture(scope="module")
def running(world: World, names: Path) -> Iterator[Proxy]:
    """A proxy for all tests of a module."""
    del world
    with proxy(policy(*ALLOW), hosts_file=names, nameservers=("45.33.32.53",)) as found:
        yield found


@pytest.fixture(scope="module")
def opened(world: World) -> Iterator[Inspected]:
    """A proxy that reads requests, and its upstream, for all tests of a module."""
    with inspected(world) as found:
        yield found
