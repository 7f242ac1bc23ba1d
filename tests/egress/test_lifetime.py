"""A proxy's life: it answers once it has started, and leaves nothing behind, whichever process is killed.

Tests of egress/log.py.
Tests of egress/start.py.
Tests of egress/supervisor.py: the proxy ends with its session, and the supervisor with squid.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.egress import Proxy, decisions, proxy, start
from sandwright.egress.squid_settings import free_port
from sandwright.egress.supervisor import clean_up
from sandwright.errors import HostError, ToolMissing, UsageError
from sandwright.methods import METHODS
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from support.processtrees import held_up
from support.waiting import eventually

pytestmark = pytest.mark.needs("squid", "setpriv")

PATIENCE = 30.0


def policy(mode: str = "proxy") -> ResolvedPolicy:
    allow = ", allow: [web.example]" if mode == "proxy" else ""
    text = f"schema: 1\nmethod: bwrap\nnetwork: {{mode: {mode}{allow}}}\n"
    return Policy.from_text(text).resolve(HostFacts(os="linux", home="/home/ada", project="/home/ada/p"))


def processes(directory: Path) -> dict[str, int]:
    """The processes of a proxy, by role."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(os.fsencode(directory)) for word in words):
                found["squid" if b"squid" in words[0] else "supervisor"] = int(entry.name)
    return found


def memory(own: Path) -> set[str]:
    """The names of squids' shared memory, except for squids of tests that run beside this one.

    `own` is the directory of this test's proxy.
    """
    names = [path.name for path in Path("/dev/shm").iterdir()]
    others = set()
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = each.read_text(errors="replace")
            if f"{own}/squid.conf" not in words:
                others.update(re.findall(r"-n\0(sandwright[0-9a-f]{12})\0", words))
    return {name for name in names if name.startswith("sandwright") and name.partition("-")[0] not in others}


def refused(running: Proxy) -> bool:
    """Whether it answers according to its rules."""
    with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
        connection.sendall(
            running.greeting + b"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n"
        )
        return connection.recv(12) == b"HTTP/1.1 403"


def test_requests_of_a_sandbox_that_ended_are_in_the_log(tmp_path: Path) -> None:
    """The log is complete, even if squid writes it slowly."""
    with proxy(policy()) as running, held_up(processes(running.directory)["squid"]):
        asks = running.greeting + b"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n"
        with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
            connection.sendall(asks)
        assert not list(running.decisions()), "the control: it is not there yet"
        running.settle()
        assert [decision.host for decision in running.decisions()] == ["other.example"]


def gone(directory: Path) -> bool:
    return not directory.exists() and not processes(directory)


def test_its_logs_do_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are in a file system of the host, often in memory. Unlogged requests do not pass."""
    monkeypatch.setattr(start, "MAX_LOGS", 100_000)
    name = f"{'a' * 60}.{'b' * 60}.{'c' * 60}.example"
    request = f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n".encode() * 50
    with proxy(policy()) as running:
        assert refused(running)
        assert not running.has_full_logs

        def stopped() -> bool:
            with contextlib.suppress(OSError):
                with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
                    connection.sendall(running.greeting + request)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                return False
            return set(processes(running.directory)) == {"supervisor"}

        assert eventually(stopped), "it goes on"
        written = running.log.stat().st_size
        assert len(list(running.decisions())) > 100, "the session can read them"
        assert written < 100_000_000
        assert running.has_full_logs
        assert running.alive
    assert eventually(lambda: gone(running.directory))


def test_it_is_there_and_then_it_is_not(tmp_path: Path) -> None:
    before, log = memory(tmp_path), tmp_path / "egress.jsonl"
    with proxy(policy(), log=log) as running:
        assert running.url == f"http://127.0.0.1:{running.port}"
        assert running.environment == {"SANDWRIGHT_PROXY_PORT": str(running.port)}
        assert set(processes(running.directory)) == {"squid", "supervisor"}
        assert memory(running.directory) <= before, "what squid shares has no name that could be left"
        assert refused(running)
        assert running.alive
        until = time.monotonic() + PATIENCE
        while not (decided := [decision.host for decision in running.decisions()]):
            assert time.monotonic() < until, "it writes down what it decided after it has answered, but soon"
            time.sleep(0.02)
        assert decided == ["other.example"]
    assert gone(running.directory)
    assert not running.alive
    assert [(d.host, d.reason) for d in decisions(log)] == [("other.example", "host")]
    with pytest.raises(ConnectionRefusedError):
        refused(running)


def test_no_link_leads_where_the_log_is_kept(tmp_path: Path) -> None:
    """A sandbox may write at the path of `log=`; and squid may write its log."""
    other, kept, made = tmp_path / "other", tmp_path / "kept", tmp_path / "made"
    other.write_text("of somebody else")
    (tmp_path / "kept.part").symlink_to(other)
    made.mkdir()
    (made / "log").write_text("decided")
    clean_up(made, str(made / "log"), str(kept))
    assert (kept.read_text(), kept.is_symlink(), other.read_text()) == ("decided", False, "of somebody else")
    assert not made.exists()
    made.mkdir()
    (made / "log").symlink_to(other)
    clean_up(made, str(made / "log"), str(kept))
    assert kept.read_text() == "decided"


def test_nobody_else_reads_its_files() -> None:
    with proxy(policy()) as running:
        assert not str(running.directory).startswith("/tmp/sandwright")
        for path in (running.directory, *running.directory.rglob("*")):
            assert path.lstat().st_mode & 0o007 == 0, path
        assert (running.directory / "squid").stat().st_mode & 0o777 == 0o700
        assert (running.directory / "ask").stat().st_mode & 0o777 == 0o600


def test_it_serves_nobody_else() -> None:
    """Every user reaches the port: a client without the secret gets no answer, or a refusal."""
    asked = b"CONNECT web.example:443 HTTP/1.1\r\nHost: web.example:443\r\n\r\n"
    guess = b"PROXY TCP6 fd00::1 ::1 1 3128\r\n"
    with proxy(policy()) as running:
        for said in (asked, guess + asked, b"PROXY UNKNOWN\r\n" + asked):
            with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
                connection.sendall(said)
                answer = _all(connection)
            assert answer == b"" or b"ERR_SANDWRIGHT_CLIENT" in answer, answer
        assert refused(running), "and its own is answered"
        words = Path(f"/proc/{processes(running.directory)['squid']}/cmdline").read_bytes()
        assert running.greeting.split()[2] not in words


def _all(connection: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while b"\r\n\r\n" not in said and (block := connection.recv(65536)):
            said += block
    return said


NEIGHBOUR = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    connection = listener.accept()[0]
print(connection.recv(4096), flush=True)
connection.sendall(b"HTTP/1.1 403 Forbidden\\r\\nX: ERR_SANDWRIGHT_METHOD\\r\\n\\r\\n")
"""
"""Another user's program that has squid's port first, receives the secret, and makes room for squid."""


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts another user's program")
def test_no_neighbour_at_its_port_is_told_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-I")
    with process.start(*words, "-c", NEIGHBOUR) as neighbour:
        assert neighbour.stdout is not None
        port = int(neighbour.stdout.readline())
        ports = iter([port])
        monkeypatch.setattr(start, "free_port", lambda host: next(ports, None) or free_port(host))
        with proxy(policy()) as running:
            assert running.port != port
            assert refused(running)
        neighbour.terminate()
        assert neighbour.stdout.read() == b""


def test_squid_has_no_rights() -> None:
    with proxy(policy()) as running:
        status = Path(f"/proc/{processes(running.directory)['squid']}/status").read_text()
    found = dict(line.split(":\t", 1) for line in status.splitlines())
    assert found["NoNewPrivs"] == "1"
    assert found["CapEff"] == found["CapPrm"] == "0000000000000000"
    if os.geteuid() == 0:
        assert "0" not in found["Uid"].split()
        assert found["CapBnd"] == "0000000000000000"


def test_several_at_once() -> None:
    with proxy(policy()) as one, proxy(policy()) as other:
        assert one.port != other.port
        assert refused(one)
        assert refused(other)
    assert gone(one.directory)
    assert gone(other.directory)


SESSION = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from sandwright.egress import proxy
    from sandwright.policy.facts import HostFacts
    from sandwright.api import Policy
    text = "schema: 1\\nmethod: bwrap\\nnetwork: {mode: proxy, allow: [web.example]}\\n"
    facts = HostFacts(os="linux", home="/home/ada", project="/home/ada/p")
    with proxy(Policy.from_text(text).resolve(facts), log=Path(sys.argv[1])) as running:
        print(running.directory, flush=True)
        time.sleep(60)
""")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_session_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    """Only the supervisor remains: it cleans up, and moves the log to its place."""
    before, log = memory(tmp_path), tmp_path / "egress.jsonl"
    with process.start(sys.executable, "-c", SESSION, log) as session:
        assert session.stdout is not None
        directory = Path(session.stdout.readline().decode().strip())
        assert set(processes(directory)) == {"squid", "supervisor"}
        os.kill(session.pid, number)
        session.wait(PATIENCE)
        assert eventually(lambda: gone(directory)), processes(directory)
    assert eventually(lambda: memory(directory) <= before)  # one that ends meanwhile is seen for a moment
    assert log.read_bytes() == b""


def test_the_supervisor_is_killed() -> None:
    with proxy(policy()) as running:
        os.kill(processes(running.directory)["supervisor"], signal.SIGKILL)
        assert eventually(lambda: not processes(running.directory)), "squid outlives its supervisor"
        assert not running.alive
    assert gone(running.directory)


def test_squid_is_killed() -> None:
    with proxy(policy()) as running:
        os.kill(processes(running.directory)["squid"], signal.SIGKILL)
        assert eventually(lambda: not running.alive)
    assert gone(running.directory)


@pytest.mark.parametrize(
    ("said", "script", "message"),
    [
        ("Squid Cache: Version 4.13", "", "Squid Cache: Version 4.13; squid 5 or newer is needed"),
        ("no squid", "", "no squid; squid 5 or newer is needed"),
        ("Version 6.1", "echo FATAL: no", "cannot start the proxy: squid ended .*: FATAL: no"),
        (
            "Version 6.1",
            "while :; do :; done",
            r"cannot start the proxy: squid did not answer within 0\.5 s: it said nothing",
        ),
    ],
)
def test_squids_that_will_not_do(
    said: str, script: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `squid` that reports its version, but does something else when it has to run."""
    with tempfile.TemporaryDirectory(prefix="sandwright-squid-") as folder:
        Path(folder).chmod(0o755)
        program = Path(folder, "squid")
        program.write_text(f'#!/bin/sh\n[ "$1" = -v ] && {{ echo "{said}"; exit; }}\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with pytest.raises(HostError, match=message), proxy(policy(), timeout=0.5):
            pytest.fail("it was started")
        assert list(Path(folder).iterdir()) == [program]


def test_without_squid(monkeypatch: pytest.MonkeyPatch) -> None:
    found = process.find
    monkeypatch.setattr(process, "find", lambda name: None if name == "squid" else found(name))
    with (
        pytest.raises(ToolMissing, match=r"squid is not installed; .* get it with: .* squid$"),
        proxy(policy()),
    ):
        pytest.fail("it was started")


@pytest.mark.parametrize("mode", ["none", "host"])
def test_other_networks_have_no_proxy(mode: str) -> None:
    with pytest.raises(UsageError, match=f"network.mode is {mode}"), proxy(policy(mode)):
        pytest.fail("it was started")


def test_methods_that_need_one() -> None:
    needing = [name for name, each in METHODS.items() if each.properties.proxy == "launcher"]
    assert needing == ["docker", "podman", "kubernetes"], "all others take the session's"


def test_half_a_line_is_no_decision(tmp_path: Path) -> None:
    fields = {
        "time": 1.5, "milliseconds": 20, "method": "GET", "host": "a%20b", "port": "80", "status": 200,
        "reason": "-", "result": "TCP_MISS", "error": "-", "address": "192.0.2.1", "sent": 1, "received": 2,
    }  # fmt: skip
    line = json.dumps(fields)
    log = tmp_path / "log"
    log.write_text(f"{line}\n{line[:40]}")
    assert [(d.host, d.seconds, d.allowed) for d in decisions(log)] == [("a b", 0.02, True)]
    assert list(decisions(tmp_path / "none")) == []
