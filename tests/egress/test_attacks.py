"""Attempts to reach unlisted hosts through a real squid: by spelling, and by DNS rebinding."""

from __future__ import annotations

import pytest

from sandwright.egress import Proxy
from support.egressing import ask, connect, get
from support.netlab import OTHER, PRIVATE, WORLD, World
from support.waiting import until

pytestmark = pytest.mark.needs("squid", "ip", "setpriv")

HIDDEN = "hidden.example"
"""An unlisted host, at an address that no other name here has."""

END = b"Host: web.example\r\nConnection: close\r\n\r\n"

SPELLINGS = {
    # A listed host after the intended one, or before it
    "a name before it": get(f"web.example@{HIDDEN}"),
    "a name and a port before it": get(f"web.example:80@{HIDDEN}"),
    "a fragment before it": get(f"{HIDDEN}#@web.example"),
    "an encoded fragment before it": get(f"{HIDDEN}%23@web.example"),
    "a backslash before it": get(f"{HIDDEN}\\@web.example"),
    "an encoded dot": get(f"{HIDDEN}%2eweb.example"),
    "a semicolon": get(f"{HIDDEN};web.example"),
    "a comma": get(f"{HIDDEN},web.example"),
    "a question": get(f"{HIDDEN}?@web.example"),
    "a tunnel with a name before it": connect(f"web.example:443@{HIDDEN}:443"),
    "a tunnel with a path": connect(f"{HIDDEN}:443/web.example:443"),
    "a tunnel with two ports": connect(f"web.example:443:{HIDDEN}:443"),
    "a tunnel to a list": connect(f"web.example:443,{HIDDEN}:443"),
    "a tunnel to a URL": connect(f"http://web.example:443@{HIDDEN}:443"),
    "a tunnel with a fragment": connect(f"{HIDDEN}:443#web.example:443"),
    # Ports
    "a second port": connect("web.example:443:22"),
    "a port in octal": connect("web.example:00022"),
    "a port in hexadecimal": connect("web.example:0x16"),
    "a port that wraps around": connect("web.example:65979"),
    "a port behind a blank": connect("web.example: 22"),
    # Other kinds of line breaks, slashes, and repetitions of unique parts
    "a carriage return": f"CONNECT {HIDDEN}:443\rweb.example:443 HTTP/1.1\r\n".encode() + END,
    "a vertical tab": f"GET http://{HIDDEN}/\x0bhttp://web.example/ HTTP/1.1\r\n".encode() + END,
    "two addresses": f"GET http://web.example/ http://{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "two blanks": f"GET  http://{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "no scheme": f"GET //{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "one slash": f"GET http:/{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "three slashes": f"GET http:///{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "no slash": f"GET http:{HIDDEN}/ HTTP/1.1\r\n".encode() + END,
    "empty lines before it": b"\r\n\r\n" + get(HIDDEN),
    # Bytes before requests, and other protocols
    "a second greeting": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + get(HIDDEN),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "urn": get(HIDDEN, scheme="urn"),
    "a tunnel to a page": get(HIDDEN, method="CONNECT"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_spelling_leads_elsewhere(running: Proxy, world: World, name: str) -> None:
    """Every allowed spelling leads to the judged host, on a listed port."""
    world.names[HIDDEN] = [OTHER]
    before = len(world.reached)
    said = ask(running, SPELLINGS[name], whole=not SPELLINGS[name].startswith(b"CONNECT"))
    if said.status == 200:
        until(lambda: len(world.reached) > before, "the connection is written down")
        assert set(world.reached[before:]) == {WORLD}
        assert b"GET" not in said.raw or b"Host: web.example" in said.raw.splitlines()
    else:
        assert said.status in (400, 403)
        assert world.reached[before:] == []


def test_the_control_of_the_spellings(running: Proxy, world: World) -> None:
    """The host at that address answers where it is listed."""
    before = len(world.reached)
    assert ask(running, get(OTHER)).status == 200
    until(lambda: OTHER in world.reached[before:], "the connection is written down")


def test_a_name_that_moves_to_and_fro(running: Proxy, world: World) -> None:
    """The name server answers differently each time: each name keeps its first answer."""
    before = len(world.reached)
    names = [f"moves-{number}.wild.example" for number in range(40)]
    for number, name in enumerate(names):
        order = [WORLD, "|", PRIVATE, "|"] if number % 2 else [PRIVATE, "|", WORLD, "|"]
        world.names[name] = order * 50
    for _ in range(3):
        found = [ask(running, connect(f"{name}:443")).status for name in names]
        assert found == [403, 200] * 20
    assert PRIVATE not in world.reached[before:]
