"""Connections of a separate kernel, carried over its line: large, many, half-closed, and no leftovers.

Tests of launcher/guest/source/guestnet.c.
Tests of launcher/source/line.c.
Tests of launcher/source/tunnels.c.
Tests of launcher/source/vm_ports.c.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from egress.test_sandboxes import Sandbox, resolved
from sandwright.egress import proxy
from sandwright.methods.registry import render
from support.goldens import write_artifacts
from support.netlab import World
from support.processtrees import below, is_there, shown
from support.proving import resolver
from support.rundocuments import launching, proxied
from support.thorough import THOROUGH, covering, representative
from support.waiting import eventually

pytestmark = pytest.mark.needs("linux.uml")

EVERY = [pytest.param("vm", marks=pytest.mark.needs("bwrap")), pytest.param("vm-landlock")]
BWRAP = pytest.mark.parametrize("form", representative(EVERY, "vm"))
LANDLOCK = pytest.mark.parametrize("form", representative(EVERY, "vm-landlock"))
"""One program carries the connections of both variants, in one sandbox or the other."""
TAKEOVER = Path(__file__).parents[2] / "support" / "takeover_ports.c"
WAIT = 1200 if THOROUGH else 200


@contextmanager
def _proxied(form: str, names: Path, project: Path) -> Iterator[Sandbox]:
    project.mkdir()
    policy = resolved(form, project)
    folder = write_artifacts(project.parent / "out", render(policy, form).artifacts)
    with proxy(policy, hosts_file=names) as running:
        launch = launching(folder / "launch", proxied(running))
        yield Sandbox(form, launch, {"PATH": os.environ["PATH"], "HOME": str(folder)}, running)


def _launch(form: str, project: Path, network: str) -> list[str]:
    text = f"schema: 1\nmethod: vm\nnetwork: {network}\nresources: {{memory: 128MiB}}\n"
    policy = resolver(text, project)(())
    return [f"{write_artifacts(project.parent / 'out', render(policy, form).artifacts)}/launch"]


def _python(argv: list[str], script: str, environment: dict[str, str] | None = None) -> str:
    ended = subprocess.run(
        [*argv, "python3", "-c", script], env=environment, timeout=WAIT, check=False,
        capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


FETCH = """
import hashlib, urllib.request
whole = hashlib.sha256()
with urllib.request.urlopen("http://web.example/bytes/{size}") as answer:
    while block := answer.read(1 << 16):
        whole.update(block)
print(whole.hexdigest())
"""


@pytest.mark.needs("squid", "ip", "setpriv")
@BWRAP
def test_much_comes_whole(form: str, world: World, names: Path, tmp_path: Path) -> None:
    del world
    size = 100_000_000 if THOROUGH else 2_000_000
    with _proxied(form, names, tmp_path / "project") as sandbox:
        digest = _python([sandbox.launch], FETCH.format(size=size), sandbox.environment)
    assert digest.strip() == hashlib.sha256(bytes(size)).hexdigest()


MANY = """
import http.client, threading
def one(number, found):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=200)
    together.wait()
    connection.request("GET", f"http://web.example/bytes/{20000 + number}")
    found.append(len(connection.getresponse().read()) - number)
together, found = threading.Barrier(50), []
threads = [threading.Thread(target=one, args=(number, found)) for number in range(50)]
[each.start() for each in threads], [each.join() for each in threads]
print(set(found), len(found))
"""


@pytest.mark.needs("squid", "ip", "setpriv")
@LANDLOCK
def test_many_at_once(form: str, world: World, names: Path, tmp_path: Path) -> None:
    del world
    with _proxied(form, names, tmp_path / "project") as sandbox:
        assert _python([sandbox.launch], MANY, sandbox.environment) == "{20000} 50\n"


@contextmanager
def _server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    end, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(end,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _whole(end: socket.socket) -> bytes:
    said = b""
    while block := end.recv(1 << 16):
        said += block
    return said


BOTH_ENDS = """
import hashlib, socket
def whole(end):
    said = b""
    while block := end.recv(1 << 16):
        said += block
    return said
with socket.create_connection(("127.0.0.1", {port})) as first:
    first.sendall(b"first" + bytes(300_000))
    first.shutdown(socket.SHUT_WR)
    print(whole(first)[:100].decode())
with socket.create_connection(("127.0.0.1", {port})) as last:
    last.sendall(b"last-")
    said = whole(last)
    last.sendall(said)
    print(len(said))
for port in ({closed}, 9):
    try:
        with socket.create_connection(("127.0.0.1", port)) as nobody:
            print(nobody.recv(1))
    except OSError as error:
        print(type(error).__name__)
"""


@LANDLOCK
def test_each_direction_ends_for_itself(form: str, tmp_path: Path) -> None:
    """A side that has sent everything still receives, and vice versa. Without a server, there is an error."""
    heard: list[bytes] = []

    def serve(end: socket.socket) -> None:
        with end:
            if end.recv(5, socket.MSG_WAITALL) == b"first":
                end.sendall(hashlib.sha256(_whole(end)).hexdigest().encode())
                return
            end.sendall(bytes(100_000))
            end.shutdown(socket.SHUT_WR)
            heard.append(_whole(end))

    with _server(serve) as port, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = taken.getsockname()[1]
        argv = _launch(form, tmp_path / "project", f"{{localhost: [{port}, {closed}]}}")
        said = _python(argv, BOTH_ENDS.format(port=port, closed=closed)).split()
    assert said == [
        *(hashlib.sha256(bytes(300_000)).hexdigest(), "100000"),
        *("ConnectionResetError", "ConnectionRefusedError"),
    ]
    assert eventually(lambda: heard == [bytes(100_000)])


@pytest.mark.parametrize("form", EVERY)
def test_a_kernel_that_is_taken_over_gets_the_listed_port_alone(form: str, tmp_path: Path) -> None:
    came: list[int] = []

    def serve(end: socket.socket) -> None:
        with end:
            came.append(end.getsockname()[1])
            end.sendall(b"hello")

    with _server(serve) as listed, _server(serve) as other:
        argv = _launch(form, tmp_path / "project", f"{{localhost: [{listed}]}}")
        cc = ("cc", "-static", f"-DPORTS={other}, {listed}, 3128, 22", "-o", tmp_path / "linux.uml", TAKEOVER)
        subprocess.run(cc, check=True, timeout=60)
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        ended = subprocess.run(
            [*argv, "true"], env=path, timeout=WAIT, check=False, capture_output=True, text=True, cwd="/"
        )
    told = dict(re.findall(r"(\d+)=(\w+)", ended.stderr))
    closed = dict.fromkeys((str(other), "3128", "22"), "closed")
    assert told == {str(listed): "reached", **closed}, ended.stderr
    assert came == [listed]


@BWRAP
def test_what_was_said_before_the_end_arrives(form: str, tmp_path: Path) -> None:
    heard: list[int] = []

    def serve(end: socket.socket) -> None:
        with end:
            heard.append(len(_whole(end)))

    script = "import os, socket; end = socket.create_connection(('127.0.0.1', {}))"
    script += "; end.sendall(bytes(500_000)); os._exit(0)"
    with _server(serve) as port:
        _python(_launch(form, tmp_path / "project", f"{{localhost: [{port}]}}"), script.format(port))
        assert eventually(lambda: heard == [500_000]), heard


SERVES = """
import socket, sys
with socket.create_server(("127.0.0.1", {port})) as listener:
    print("listens", flush=True)
    for _ in range(3):
        end, _ = listener.accept()
        with end:
            said = b""
            while block := end.recv(65536):
                said += block
            end.sendall(str(len(said)).encode())
"""


@LANDLOCK
def test_a_server_inside_is_reached_from_this_machine(form: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = _launch(form, tmp_path / "project", f"{{expose: [{port}]}}")
    argv += ["python3", "-c", SERVES.format(port=port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd="/") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"listens\n"
        for size in (0, 5, 200_000):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as end:
                end.sendall(bytes(size))
                end.shutdown(socket.SHUT_WR)
                assert _whole(end) == str(size).encode()
        assert running.wait(WAIT) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize(("form", "how"), covering(EVERY, ["launcher", "both"]))
def test_nothing_is_left(form: str, how: str, tmp_path: Path) -> None:
    """The run ends during a connection each way: no process and no listener remains."""
    met = threading.Event()

    def serve(end: socket.socket) -> None:
        met.set()
        with end, suppress(OSError):
            end.sendall(bytes(100_000_000))

    with _server(serve) as port, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        exposed = free.getsockname()[1]
        free.close()
        argv = _launch(form, tmp_path / "project", f"{{localhost: [{port}], expose: [{exposed}]}}")
        script = f"import socket, time; end = socket.create_connection(('127.0.0.1', {port}))"
        script += "; time.sleep(600)"
        with subprocess.Popen([*argv, "python3", "-c", script], cwd="/") as running:
            assert met.wait(WAIT)
            started = list(below(running.pid))
            monitor = next(each for each in started if list(below(each)))
            for pid in [running.pid] if how == "launcher" else [monitor, running.pid]:
                os.kill(pid, signal.SIGKILL)
            running.wait(WAIT)
        try:
            assert eventually(lambda: not any(map(is_there, started))), shown(filter(is_there, started))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", exposed), timeout=5)
        finally:
            for each in Path("/tmp").glob("sandwright-*/init"):  # as `cleanup` does after both were killed
                if each.readlink() == Path(argv[0]).with_name("guest"):
                    shutil.rmtree(each.parent)
