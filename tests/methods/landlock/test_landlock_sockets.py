"""Sockets under landlock: the sandbox's own, listed ones, exact ports of the host's loopback, and no others.

Tests of launcher/source/socket_broker.c.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from session.conftest import SANDWRIGHT, WAIT, Project
from session.hostsockets import Host
from session.test_own_sockets import INSIDE
from support import interpreters
from support.waiting import until

LACKING = ("filesystem.protect", "filesystem.attributes", "process.kernel")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")


@pytest.fixture
def shown(project: Project) -> Path:
    """A readable directory; the project is writable."""
    made = project.home.parent / "shown"
    made.mkdir()
    _policy(project, made)
    return made


def _policy(project: Project, shown: Path, more: str = "") -> None:
    (project.root / "own_sockets.py").write_bytes(INSIDE.read_bytes())
    accepted = ", ".join(f"{{feature: {name}, method: landlock, reason: a test}}" for name in LACKING)
    project.policy.write_text(
        f"schema: 1\nmethod: landlock\nfilesystem: {{read: [..., {shown}], write: [$PROJECT]}}\n"
        f"accept_gaps: [{accepted}]\n{more}"
    )


def _inside(project: Project, script: str, *words: str) -> dict[str, object]:
    """The output of a script with the functions of INSIDE."""
    (project.root / "inside.py").write_text(f"import time\nfrom own_sockets import *\n{script}")
    ended = project.run(interpreters.INSIDE, "inside.py", *words, options=("--trust-policy",))
    assert ended.returncode == 0, ended.stderr.decode()
    told: dict[str, object] = json.loads(ended.stdout)
    return told


OWN = """
os.umask(0o027)
temporary, project = tempfile.gettempdir(), Path.cwd()
Path("below").mkdir()
found = {
    "temporary": own(f"{temporary}/a"), "project": own(f"{project}/a"), "relative": own("below/a"),
    "packets": own("packets", socket.SOCK_SEQPACKET), "abstract": own("@own"), "elsewhere": own("/etc/own"),
    "datagrams": outcome(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "long": own(f"{temporary}/{'l' * (107 - len(temporary) - 1)}"), "again": own("below/a"),
    "mode": oct(Path("below/a").stat().st_mode & 0o777), "absent": connect("absent"),
    "no socket": connect(__file__), "listener": listener(),
    "unbound": outcome(lambda: socket.socket().listen()),
    "any port": outcome(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "udp": outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    "open": sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1],
}
os.chdir("below")
found["up"] = own("../b")
os.chdir("..")
with socket.socket(socket.AF_UNIX) as gone:
    gone.bind("stale"); gone.listen()
for _ in range(200):  # the kernel lets the supervisor's reference go at that one's next turn
    if (refused := connect("stale")) != "ok":
        break
    time.sleep(0.02)
found["stale"] = refused
for each in sys.argv[1:]:
    found[f"host {Path(each).name}"] = connect(each)
Path("symlink").symlink_to(sys.argv[1])
Path("hardlink").hardlink_to(sys.argv[1])
found |= {name: connect(name) for name in ("symlink", "hardlink")}
Path(sys.argv[1]).rename("below/a")
found["renamed"] = connect("below/a")
found["parent"] = [
    outcome(lambda: os.kill(os.getppid(), 9)), outcome(lambda: os.readlink(f"/proc/{os.getppid()}/fd/0")),
    outcome(lambda: open(f"/proc/{os.getppid()}/mem")),
]
print(json.dumps(found))
"""


def test_own_ones_work_and_the_hosts_are_closed(project: Project, shown: Path, host: Host) -> None:
    hosts = [
        host.listen(f"{project.root}/later", known_as=f"{project.home}/unknown"),
        host.listen(f"{shown}/readable"),
        host.listen(f"@{shown}/none"),
    ]
    told = _inside(project, OWN, *hosts)
    own = ("temporary", "project", "relative", "packets", "long", "up")
    assert told == {
        **dict.fromkeys(own, "ok"),
        **dict.fromkeys(("abstract", "elsewhere", "unbound", "any port"), "EACCES"),
        **dict.fromkeys(("datagrams", "udp"), "EPERM"),
        **dict.fromkeys(("host later", "host readable", "host none"), "EACCES"),
        **dict.fromkeys(("symlink", "hardlink", "renamed"), "EACCES"),
        "again": "EADDRINUSE",
        "mode": "0o750",
        "absent": "ENOENT",
        "no socket": "ECONNREFUSED",
        "stale": "ECONNREFUSED",
        "listener": "EBUSY",
        "open": [0, 1, 2],
        "parent": ["EPERM", "EACCES", "EACCES"],
    }
    assert host.heard == set()
    with socket.socket(socket.AF_UNIX) as end:  # it would have
        end.connect(hosts[1])
        assert end.recv(1) == b""
    until(lambda: hosts[1] in host.heard, hosts[1])


MANAGER = """
import multiprocessing
def work():
    with multiprocessing.Manager() as manager:
        found = manager.list([1])
        found.append(2)
        return list(found)
if __name__ == "__main__":
    print(json.dumps({"found": work(), "port": socket.getaddrinfo("localhost", 80)[0][4][1]}))
"""


def test_programs_that_have_servers_of_their_own_work(project: Project, shown: Path) -> None:
    assert shown.exists()
    assert _inside(project, MANAGER) == {"found": [1, 2], "port": 80}


def test_no_race_leads_to_the_host(project: Project, shown: Path, host: Host) -> None:
    """Another thread changes the address during connect(2), and the file during bind(2)."""
    path = host.listen(f"{shown}/readable")
    counts = _inside(project, "print(json.dumps(race(sys.argv[1:])))", path)
    assert int(str(counts["own"])) > 0
    assert int(str(counts["refused"])) > 0
    assert host.heard == set()


RENAMING = """
listed, over = sys.argv[1], threading.Event()
def swap():
    while not over.is_set():
        try:
            os.link(listed, "other")
            os.rename("other", "mine")
            os.unlink("mine")
        except OSError:
            pass
swapping = threading.Thread(target=swap)
swapping.start()
counts = {"bound": 0, "connected": 0}
for _ in range(400):
    with socket.socket(socket.AF_UNIX) as made:
        counts["bound"] += outcome(lambda: made.bind("mine")) == "ok"
        counts["connected"] += connect("mine") == "ok"
over.set()
swapping.join()
print(json.dumps(counts))
"""


def test_what_takes_the_place_of_an_own_one_is_not_it(project: Project, shown: Path, host: Host) -> None:
    assert shown.exists()
    path = host.listen(f"{project.root}/later", known_as=f"{project.home}/unknown")
    counts = _inside(project, RENAMING, path)
    assert int(str(counts["bound"])) > 0
    assert counts["connected"] == 0
    assert host.heard == set()


def test_a_listed_one_is_reached_and_no_other(project: Project, shown: Path, host: Host) -> None:
    listed, other = host.listen(f"{shown}/listed"), host.listen(f"{shown}/other")
    _policy(project, shown, f"network: {{unix_sockets: [{listed}], own_sockets: false}}\n")
    script = (
        "print(json.dumps({'own': own('a'), **{Path(each).name: connect(each) for each in sys.argv[1:]}}))"
    )
    assert _inside(project, script, listed, other) == {"own": "EACCES", "listed": "ok", "other": "EACCES"}
    assert host.heard == {listed}


def test_another_sandbox_in_the_same_project_is_another(project: Project, shown: Path) -> None:
    """One of them cannot reach a socket that the other has bound."""
    assert shown.exists()
    (project.root / "serve.py").write_text(
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind('served')\ns.listen()\n"
        "print('up', flush=True)\nsys.stdin.readline()\n"
    )
    words = [*SANDWRIGHT, "run", "--trust-policy", "--", interpreters.INSIDE, "serve.py"]
    with subprocess.Popen(
        words, cwd=project.root, env=project.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        assert _inside(project, "print(json.dumps({'served': connect('served')}))") == {"served": "EACCES"}
        running.communicate(b"\n", timeout=WAIT)
        assert running.returncode == 0


LOCALHOST = """
import asyncio
port, other, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def tcp(host, port):
    def act():
        with socket.create_connection((host, port), 60) as end:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            assert end.recv(9) == b"word" and end.getpeername()[:2] == (host, port)
    return outcome(act)
async def later():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    word = await reader.read(9)
    writer.close()
    return word.decode()
print(json.dumps({
    "listed": tcp("127.0.0.1", port), "asyncio": asyncio.run(later()), "other port": tcp("127.0.0.1", other),
    "same net": tcp("127.0.0.2", port), "own address": tcp(address, port),
    "mapped": tcp("::ffff:127.0.0.1", port), "mapped net": tcp("::ffff:127.0.0.2", port),
    "mapped other": tcp("::ffff:127.0.0.1", other), "mapped outside": tcp("::ffff:192.0.2.1", port),
    "six": tcp("::1", port), "outside": tcp("192.0.2.1", port),
}))
"""


def _serve(stack: ExitStack) -> int:
    listener = stack.enter_context(socket.create_server(("0.0.0.0", 0)))

    def accept() -> None:
        while True:
            try:
                with listener.accept()[0] as end:
                    end.sendall(b"word")
            except OSError:
                return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    stack.callback(thread.join)
    stack.callback(listener.shutdown, socket.SHUT_RDWR)
    port: int = listener.getsockname()[1]
    return port


def test_listed_ports_are_those_of_the_loopback_alone(project: Project, shown: Path) -> None:
    with ExitStack() as stack:
        port, other = _serve(stack), _serve(stack)
        _policy(project, shown, f"network: {{localhost: [{port}]}}\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            address = "127.0.0.3" if way.connect_ex(("192.0.2.1", 9)) else way.getsockname()[0]
        told = _inside(project, LOCALHOST, str(port), str(other), address)
    refused = ("other port", "same net", "own address", "outside")
    assert told == {
        "listed": "ok",
        "asyncio": "word",
        "mapped": "ok",
        "six": "ECONNREFUSED",
        **dict.fromkeys((*refused, "mapped net", "mapped other", "mapped outside"), "EACCES"),
    }
