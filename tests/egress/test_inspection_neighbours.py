"""Attacks on a session by other users of this machine, and by an inspecting proxy that was taken over.

Tests of egress/inspection.py.
Tests of egress/opening.py.
Tests of sockets.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.egress import opening, start
from sandwright.egress.inspection import control
from sandwright.egress.opening import OpenedHosts
from sandwright.egress.plan import plan_proxy
from sandwright.egress.proxy_plan import OUT
from sandwright.egress.relay import Relay
from sandwright.landlock import landlock_version
from sandwright.launcher.restrict import PORTS
from sandwright.render.proxyfacts import DIRECTORY
from support.inspecting import (
    API,
    HOSTS,
    POLICY,
    PORT,
    SECRET,
    TARGET,
    Inspected,
    head,
    inspected,
    policy_with,
    request,
    rest,
)
from support.netlab import lab

ROOT = os.geteuid() == 0

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

CONNECT = f"CONNECT {API}:{PORT} HTTP/1.1\r\n\r\n".encode()

KNOCK = """
import ast, socket, sys
port, sent, seconds = int(sys.argv[1]), ast.literal_eval(sys.argv[2]), float(sys.argv[3])
with socket.create_connection(("127.0.0.1", port), timeout=seconds) as each:
    each.sendall(sent)
    try:
        print(repr(each.recv(100)))
    except ConnectionError:
        print(repr(b""))
    except TimeoutError:
        print("silent")
"""

REACH = """
import errno, socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as each:
        print(errno.errorcode.get(each.connect_ex(path), "reached"))
"""

READ = """
import sys
for path in sys.argv[1:]:
    try:
        open(path, "rb").read(1)
    except PermissionError:
        print("refused")
    else:
        print("read")
"""


def as_neighbour(code: str, *words: str) -> list[str]:
    """The output of a program of another user of this machine; without root, of a program of this user."""
    drop = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--") if ROOT else ()
    return process.run(*drop, "/usr/bin/python3", "-ISc", code, *words).text.splitlines()


def knock(port: int, sent: bytes, seconds: float = 0.3) -> str:
    return as_neighbour(KNOCK, str(port), repr(sent), str(seconds))[0]


def other(greeting: bytes, digit: int) -> bytes:
    """A greeting in which one digit of the secret is wrong."""
    at = [found.start() for found in re.finditer(rb"[0-9a-f]", greeting[11:])][digit] + 11
    return greeting[:at] + (b"0" if greeting[at : at + 1] != b"0" else b"1") + greeting[at + 1 :]


def ports(opened: Inspected) -> dict[str, int]:
    """The ports on which a session's proxy can be reached from this machine."""
    words = haproxy(opened)[1]
    return {"launchers": opened.entrance[0], "squid": opened.proxy.port, "haproxy": int(words["SW_OUT"])}


def arguments(directory: Path) -> list[bytes]:
    """The arguments of a process by its directory in /proc; none for one that has ended."""
    try:
        return (directory / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def haproxy(opened: Inspected) -> tuple[int, dict[str, str]]:
    """The process of the inspecting proxy, and its environment."""
    named = f"{opened.folder}/haproxy.cfg".encode()
    found = next(
        each
        for each in Path("/proc").glob("[0-9]*")
        if named in (words := arguments(each)) and b"haproxy" in words[0]
    )
    environment = (found / "environ").read_text().split("\0")
    return int(found.name), {name: value for name, _, value in (each.partition("=") for each in environment)}


@pytest.mark.parametrize("name", ["launchers", "squid", "haproxy"])
def test_a_neighbour_gets_no_answer_without_the_greeting(opened: Inspected, name: str) -> None:
    port = ports(opened)[name]
    _, greeting = opened.entrance
    with opened.arriving() as arrived:
        for sent in (
            CONNECT * 4,
            request(f"http://{API}:{PORT}{TARGET}") * 2,
            other(greeting, 0) + CONNECT,
            other(greeting, 20) + CONNECT,
            greeting.replace(b"TCP6", b"TCP4") + CONNECT,
            b"PROXY UNKNOWN\r\n" + CONNECT * 4,
            b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c\x7f\0\0\1\x7f\0\0\1\0\1\0\2" + CONNECT * 4,
        ):
            said = knock(port, sent)
            assert said in ("b''", "silent") or (name == "squid" and said.startswith("b'HTTP/1.1 403 ")), sent
    assert not arrived


def test_the_greeting_can_not_be_guessed_byte_by_byte(opened: Inspected) -> None:
    """A correct beginning gets the same answer as a wrong one."""
    port, greeting = opened.entrance
    for length in (1, 6, 12, 20, 40):
        right, wrong = greeting[:length], bytes([greeting[0] ^ 1]) + greeting[1:length]
        assert knock(port, right) == knock(port, wrong) == "silent"
    assert knock(port, b"x" + greeting[1:]) == "b''"


def test_the_control_of_the_greeting(opened: Inspected) -> None:
    port, greeting = opened.entrance
    assert knock(port, greeting + CONNECT, 5).startswith("b'HTTP/1.1 200 ")


@pytest.mark.skipif(not ROOT, reason="becoming another user takes root")
def test_a_neighbour_reaches_no_socket_and_no_file(opened: Inspected) -> None:
    sockets = [str(each) for each in opened.folder.glob("*.sock")]
    assert len(sockets) == len(HOSTS) + 2
    assert as_neighbour(REACH, *sockets) == ["EACCES"] * len(sockets)
    files = [str(each) for each in opened.proxy.directory.rglob("*") if each.is_file()]
    assert as_neighbour(READ, *files) == ["refused"] * len(files)
    assert SECRET in control(opened.folder, f"show map {opened.folder}/secrets.map\n")


def test_no_file_holds_the_secret(opened: Inspected) -> None:
    assert opened.ask(request()).status == 200
    pid, environment = haproxy(opened)
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert SECRET not in " ".join(environment.values()) + words.decode()
    files = [each for each in opened.proxy.directory.rglob("*") if each.is_file()]
    assert not [each for each in files if SECRET.encode() in each.read_bytes()]


# --- A proxy that was taken over --------------------------------------------------------------------------

TAKEN_OVER = """
import ctypes, errno, os, socket, sys
folder, relay, other, squid = sys.argv[1], *map(int, sys.argv[2:])
libc = ctypes.CDLL(None, use_errno=True)
def number(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), name)
def connect(port, *kind):
    with socket.socket(socket.AF_INET, *kind) as each:
        each.connect(("127.0.0.1", port))
for name, what in {
    "the relay": lambda: connect(relay),
    "another port": lambda: connect(other),
    "multipath TCP": lambda: connect(other, socket.SOCK_STREAM, 262),
    "fast open": lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", other)),
    "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", other)),
    "a port of its own": lambda: socket.socket().bind(("127.0.0.1", 45113)),
    "any port": lambda: socket.socket().listen(),
    "a Unix socket": lambda: socket.socket(socket.AF_UNIX),
    "its configuration": lambda: open(f"{folder}/http/haproxy.cfg"),
    "the greeting": lambda: open(f"{folder}/greeting"),
    "squid's configuration": lambda: open(f"{folder}/squid.conf"),
    "writing": lambda: open(f"{folder}/http/new", "w"),
    "another's environment": lambda: open(f"/proc/{squid}/environ"),
    "another's memory": lambda: number("process_vm_readv", squid, 0, 0, 0, 0, 0),
    "tracing": lambda: number("ptrace", 16, squid, 0, 0),
    "a signal": lambda: os.kill(squid, 0),
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a name space": lambda: number("unshare", 0x10000000),
    "the machine's files": lambda: os.listdir("/root"),
}.items():
    try:
        what()
    except OSError as fault:
        print(f"{name}:", "connected" if fault.errno == errno.ECONNREFUSED else "refused")
    else:
        print(f"{name}:", "done")
"""

ALLOWED = {"the relay": "connected", "its configuration": "done"}
BEYOND_LANDLOCK = ("any port",)
"""The attempts that neither Landlock nor the second filter restricts."""


@pytest.fixture(scope="module")
def taken_over(opened: Inspected) -> dict[str, str]:
    """The results of attempts under the restrictions of the inspecting proxy, by name."""
    if landlock_version() < PORTS:
        pytest.skip("this kernel's Landlock restricts no ports")
    plan = plan_proxy(policy_with(POLICY, opened.trust)).inspection
    assert plan is not None
    python = os.path.realpath("/usr/bin/python3")
    words = plan.command[: plan.command.index("--") + 1]
    folder = str(opened.proxy.directory)
    program = plan.command[len(words)]
    replaced = [word.replace(f"execute={program}", f"execute={python}") for word in words]
    replaced = [word.replace(DIRECTORY, folder).replace(OUT, "45111") for word in replaced]
    as_squid = ("setpriv", "--reuid=13", "--regid=13", "--clear-groups") if ROOT else ()
    with process.start(*as_squid, "sleep", "60") as same:
        said = process.run(*replaced, python, "-ISc", TAKEN_OVER, folder, "45111", "45112", str(same.pid))
    return dict(line.split(": ") for line in said.text.splitlines())


def test_a_proxy_that_was_taken_over_has_its_way_and_no_other(taken_over: dict[str, str]) -> None:
    did = {name: how for name, how in taken_over.items() if how != "refused"}
    assert {name: how for name, how in did.items() if name not in BEYOND_LANDLOCK} == ALLOWED


# --- A sandbox that was taken over -------------------------------------------------------------------------


@contextlib.contextmanager
def all_descriptors() -> Iterator[None]:
    """Open as many files as this process may: a normal user starts with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_that_say_nothing_hold_up_nobody(opened: Inspected) -> None:
    """A thousand connections are half open, some with half a request, while others go on."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(all_descriptors())
        for number in range(1000):
            first = CONNECT[: number % len(CONNECT)]
            stack.enter_context(opened.connection(first))
        slow = time.monotonic()
        for _ in range(20):
            assert opened.ask(request()).status == 200
        assert time.monotonic() - slow < 10
    assert time.monotonic() - began < 25
    assert opened.ask(request()).status == 200


def test_a_long_answer_goes_on_beside_them(opened: Inspected) -> None:
    with opened.tunnel() as connection, contextlib.ExitStack() as stack:
        connection.sendall(request("/bytes/20000000"))
        assert head(connection)
        for _ in range(200):
            stack.enter_context(opened.connection(CONNECT[:9]))
        assert len(rest(connection, 5)) == 20_000_000


def test_a_connection_without_a_request_ends(opened: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent connections are closed after 30 seconds: `until` of an opening is in the past then."""
    monkeypatch.setattr(opening, "PATIENCE", -1.0)
    relay = Relay("127.0.0.1", 9, opened=OpenedHosts((), "::1"))
    with contextlib.closing(relay), socket.create_server(("127.0.0.1", 0)) as server:
        relay.listen(server)
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            client.sendall(b"CONN")
            for _ in range(3):
                relay.turn()
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""


def test_its_directory_may_have_a_long_path(network_lab: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's directory is below `~/.cache` without XDG_RUNTIME_DIR; a socket's address has 107 bytes."""
    monkeypatch.setattr(start, "PREFIX", f"{start.PREFIX}{'x' * 60}")
    with lab() as apart, inspected(apart) as opened:
        assert len(str(opened.folder)) > 107
        assert opened.ask(request()).status == 200
