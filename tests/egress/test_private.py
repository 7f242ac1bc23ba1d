"""Private names of a policy, with a real squid: their private addresses are reached, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.egress import Proxy, proxy
from support.egressing import ALLOWED, ask, connect, get, policy
from support.netlab import (
    IDENTITY6,
    MACHINE_PRIVATE,
    METADATA,
    OTHER,
    PRIVATE,
    PRIVATE6,
    WIRE,
    WORLD,
    World,
)
from support.waiting import until

pytestmark = pytest.mark.needs("squid", "ip", "setpriv")

REFUSED = (403, "address")
LISTED = ("mirror.example", "*.corp.example", "port.example:8080", "moves.example")


@pytest.fixture(scope="module")
def running(world: World, names: Path) -> Iterator[Proxy]:
    """The hosts file knows `private.example` and `web.example`, which are not private here."""
    del world
    allowed = policy("web.example", "private.example", "*.wild.example", private=LISTED)
    with proxy(allowed, hosts_file=names, nameservers=("45.33.32.53",)) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "addresses", "verdict"),
    [
        ("mirror.example", [PRIVATE], ALLOWED),
        ("six.corp.example", [PRIVATE6], ALLOWED),
        ("public.corp.example", [WORLD], ALLOWED),
        ("both.corp.example", [PRIVATE, OTHER], ALLOWED),
        # Destinations that are never reached: a cloud's metadata, this machine by every address, alone and
        # among others
        ("meta.corp.example", [METADATA], REFUSED),
        ("meta-too.corp.example", [PRIVATE, METADATA], REFUSED),
        ("meta-six.corp.example", ["fd00:ec2::254"], REFUSED),
        ("identity.corp.example", [IDENTITY6], REFUSED),
        ("wire.corp.example", [WIRE], REFUSED),
        ("wire.wild.example", [WIRE], REFUSED),
        ("loop.corp.example", ["127.0.0.1"], REFUSED),
        ("loop-six.corp.example", ["::1"], REFUSED),
        ("mapped.corp.example", ["::ffff:127.0.0.1"], REFUSED),
        ("zero.corp.example", ["0.0.0.0"], REFUSED),
        ("machine.corp.example", [MACHINE_PRIVATE], REFUSED),
        ("machine-six.corp.example", ["fd00:99::1"], REFUSED),
        ("machine-nat.corp.example", ["64:ff9b::a63:1"], REFUSED),
        ("loop-nat.corp.example", ["64:ff9b::7f00:1"], REFUSED),
        ("six-to-four.corp.example", ["2002:a63:2::1"], REFUSED),
        ("link.corp.example", ["fe80::2"], REFUSED),
        # The base of a wildcard, a name that is not listed as private, another port, an address itself
        ("corp.example", [PRIVATE], (403, "host")),
        ("inside.wild.example", [PRIVATE], REFUSED),
        ("port.example", [PRIVATE], (403, "host")),
        (PRIVATE, [], (403, "host")),
    ],
)
def test_what_a_name_leads_to_decides(
    running: Proxy, world: World, name: str, addresses: list[str], verdict: tuple[int, str]
) -> None:
    world.names[name] = addresses
    before = len(world.reached)
    assert ask(running, get(name)).verdict == verdict
    assert ask(running, connect(f"{name}:443")).verdict == verdict
    if verdict != ALLOWED:
        assert world.reached[before:] == []
    else:  # or the next case would count lines that are written late
        until(lambda: len(world.reached) >= before + 2, "both connections are written down")


def test_with_its_port_alone(running: Proxy, world: World) -> None:
    world.names["port.example"] = [PRIVATE]
    assert ask(running, get("port.example:8080")).verdict == ALLOWED
    assert ask(running, connect("port.example:443")).verdict == (403, "host")


def test_a_private_name_that_moves_to_the_machine(running: Proxy, world: World) -> None:
    """The name server chooses among private addresses, but not this machine or the metadata service."""
    before = len(world.reached)
    world.names["moves.example"] = [PRIVATE, "|", METADATA]
    found = {ask(running, connect("moves.example:443")).verdict for _ in range(20)}
    assert found <= {ALLOWED, REFUSED}
    assert METADATA not in world.reached[before:]
