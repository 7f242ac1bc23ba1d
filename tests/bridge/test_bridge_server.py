"""The bridge as a service: calls through a shim, and clients that are malicious or broken.

Tests of bridge/call.py: accepted callers and calls, and their environment.
Tests of bridge/children.py: the leftovers of a program.
Tests of bridge/pump.py.
Tests of bridge/secret.py: secrets are masked in a program's output.
Tests of bridge/server.py.
Tests of bridge/shim/source/shim.c: status, signals, streams, and 125 without a bridge.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge import frames
from sandwright.bridge.configuration import CallLimits
from sandwright.bridge.directory import Bridge, sweep_bridges
from sandwright.bridge.frames import CallRequest, FrameKind
from sandwright.bridge.start import serve
from sandwright.errors import HostError, RenderError, ToolMissing, UsageError
from support.bridges import World, encode_request, world
from support.processtrees import naming
from support.waiting import eventually

TOKEN = "canary-B-1f77ac"
POLICY = """
credentials:
  shims:
    cat: {allow: ["*"]}
    tool: {secrets: {TOOL_TOKEN: "${SANDBOX_TOKEN}"}, allow: ["*"]}
"""
ENVIRONMENT = {
    "SANDBOX_TOKEN": TOKEN, "TOOL_TOKEN": "host-A-9e21b4", "GH_TOKEN": "host-A-9e21b4",
    "GIT_DIR": "/x", "LD_LIBRARY_PATH": "/x", "PAGER": "x", "EDITOR": "x", "BROWSER": "x", "LANG": "C.UTF-8",
}  # fmt: skip
SCRIPT = r"""
case $1 in
    status) exit "$2" ;;
    kill) kill -"$2" $$ ;;
    both) printf out; printf err >&2 ;;
    environment) env | sort ;;
    where) pwd -P ;;
    all) ls -A ;;
    secret) printf '%s' "$TOOL_TOKEN" ;;
    pieces) printf %s "${TOOL_TOKEN%????}"; sleep 0.2; printf %s "${TOOL_TOKEN#???????????}"; printf ' end' ;;
    wait)
        trap 'echo got TERM; exit 9' TERM
        trap 'echo got INT; exit 8' INT
        echo ready
        while :; do sleep 0.05; done ;;
    hang) trap '' TERM HUP INT; echo ready; while :; do sleep 0.05; done ;;
    daemon) setsid sh -c 'while :; do sleep 0.1; done' canary-daemon >/dev/null 2>&1 </dev/null & ;;
    respawn)
        [ "$2" -lt 50000 ] && setsid sh "$0" respawn $(($2 + 1)) canary-respawn >/dev/null 2>&1 </dev/null &
        [ "$2" -gt 1 ] || sleep 0.3 ;;
    holding) setsid sh -c 'while :; do sleep 0.1; done' canary-holding & echo done ;;
    much) exec yes ;;
    count) wc -c ;;
    ignore) exec <&-; exit 3 ;;
    arguments) shift; for each in "$@"; do printf '<%s>' "$each"; done ;;
esac
"""


@pytest.fixture(scope="module")
def place() -> Iterator[World]:
    with world() as made:
        made.tool("tool", SCRIPT)
        yield made


@pytest.fixture(scope="module")
def bridge(place: World) -> Iterator[Bridge]:
    limits = CallLimits(greeting_seconds=1.0, grace_seconds=0.3)
    with place.bridge(POLICY, environment=ENVIRONMENT, limits=limits) as running:
        yield running


@contextlib.contextmanager
def _shim(bridge: Bridge, cwd: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with process.start(bridge.bin / argv[0], *argv[1:], cwd=cwd, stdin=b"", env={}) as started:
        yield started


@contextlib.contextmanager
def _connected(bridge: Bridge) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(bridge.socket))
        connection.settimeout(60)
        yield connection


def _call(place: World, *words: str, directory: str = "") -> bytes:
    program, *arguments = (os.fsencode(word) for word in words)
    where = os.fsencode(directory or str(place.project))
    return encode_request(CallRequest(program, where, tuple(arguments)))


def _rest(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65536):
            data += more
    return data


def _gone(name: str, *, within: float = 40.0) -> bool:
    """Whether no process has a word in its arguments, soon."""
    return eventually(lambda: not naming(name), within=within)


@pytest.mark.parametrize("status", [0, 1, 42, 127, 255])
def test_the_status(place: World, bridge: Bridge, status: int) -> None:
    assert place.call(bridge, "tool", "status", str(status)).status == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_ending_by_a_signal(place: World, bridge: Bridge, number: signal.Signals) -> None:
    assert place.call(bridge, "tool", "kill", str(int(number))).status == -number


def test_the_two_outputs_stay_apart(place: World, bridge: Bridge) -> None:
    result = place.call(bridge, "tool", "both")
    assert (result.stdout, result.stderr) == (b"out", "err")


def test_binary_data_passes_both_ways(place: World, bridge: Bridge) -> None:
    data = random.Random(1).randbytes(5_000_003)
    assert place.call(bridge, "cat", stdin=data).stdout == data


def test_a_program_that_reads_nothing(place: World, bridge: Bridge) -> None:
    assert place.call(bridge, "tool", "ignore", stdin=b"x" * 3_000_000).status == 3


@pytest.mark.parametrize(("number", "said", "status"), [(15, b"got TERM\n", 9), (2, b"got INT\n", 8)])
def test_signals_pass(place: World, bridge: Bridge, number: int, said: bytes, status: int) -> None:
    with _shim(bridge, place.project, "tool", "wait") as shim:
        assert shim.stdout is not None
        assert shim.stdout.readline() == b"ready\n"
        os.kill(shim.pid, number)
        assert shim.stdout.readline() == said
        assert shim.wait(60) == status


def test_a_signal_passes_though_input_waits(place: World, bridge: Bridge) -> None:
    """The program doesn't read: input stops at the granted amount, and the signal does not wait behind it."""
    with process.start(bridge.bin / "tool", "wait", cwd=place.project, stdin=subprocess.PIPE, env={}) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        os.set_blocking(shim.stdin.fileno(), False)
        assert shim.stdout.readline() == b"ready\n"
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                os.write(shim.stdin.fileno(), b"x" * 65536)
            time.sleep(0.01)
        os.kill(shim.pid, signal.SIGTERM)
        assert shim.stdout.readline() == b"got TERM\n"
        assert shim.wait(60) == 9


def test_the_environment_is_made_from_nothing(place: World, bridge: Bridge) -> None:
    lines = place.call(bridge, "tool", "environment").stdout.decode().splitlines()
    given = dict(line.partition("=")[::2] for line in lines)
    assert given["TOOL_TOKEN"] == "[secret]", "the sandbox's token, taken out of what comes back"
    assert given["LANG"] == "C.UTF-8"
    assert given["PAGER"] == "cat"
    assert given["EDITOR"] == given["BROWSER"] == "false"
    assert given["HOME"].startswith(str(place.root / "b"))
    unknown = given.keys() - {
        *("TOOL_TOKEN", "LANG", "PAGER", "EDITOR", "VISUAL", "BROWSER", "HOME", "PATH", "TMPDIR", "TERM"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "SANDWRIGHT_BRIDGE"),
        *("PWD", "OLDPWD", "SHLVL", "_"),
    }
    assert not unknown


def test_the_sandbox_token_and_not_the_hosts(place: World, bridge: Bridge) -> None:
    """The two-token proof: A is the host's, B the sandbox's; the command sees B, and neither is returned."""
    place.tool(
        "tool2", "case $TOOL_TOKEN in canary-B-1f77ac) echo B ;; host-A-9e21b4) echo A ;; *) echo none; esac"
    )
    with place.bridge(POLICY.replace("tool:", "tool2:"), environment=ENVIRONMENT) as running:
        assert place.call(running, "tool2").stdout == b"B\n"


def test_secrets_are_taken_out_of_output(place: World, bridge: Bridge) -> None:
    assert place.call(bridge, "tool", "secret").stdout == b"[secret]"
    assert place.call(bridge, "tool", "pieces").stdout == b"[secret] end"
    assert place.audit("call")[-1]["redacted"] == 1


def test_where_it_runs(place: World, bridge: Bridge) -> None:
    """A call runs in a new, empty directory, wherever the sandbox was: no file of it controls a program."""
    below = place.project / "a b" / "c"
    below.mkdir(parents=True, exist_ok=True)
    (below / "planted").write_text("planted")
    first, second = (place.call(bridge, "tool", "where", cwd=below).text for _ in range(2))
    assert not Path(first).is_relative_to(place.project)
    assert first != second
    assert not Path(first).exists()
    assert place.call(bridge, "tool", "all", cwd=below).stdout == b""
    assert place.call(bridge, "cat", "planted", cwd=below).status == 1


@pytest.mark.needs("make")
@pytest.mark.parametrize("name", ["make", "gmake", "builder"])
def test_a_program_that_does_what_its_directory_says(place: World, name: str) -> None:
    """The name does not matter: a list of such names would never be complete."""
    (place.project / "Makefile").write_text("all:\n\t@echo planted\n")
    place.tool(name, f'exec {process.find("make")} "$@"')
    with place.bridge(f"\ncredentials:\n  shims:\n    {name}: {{allow: ['*']}}\n") as running:
        result = place.call(running, name, "all")
    assert result.status == 2
    assert b"planted" not in result.stdout
    assert "No rule to make target" in result.stderr


def test_arguments_arrive_as_they_are(place: World, bridge: Bridge) -> None:
    policy = "\ncredentials:\n  shims:\n    tool: {allow: ['arguments $(id) * x']}\n".replace(" * x", " *")
    with place.bridge(policy) as running:
        result = place.call(running, "tool", "arguments", "$(id)", "a-b", "c.d")
    assert result.stdout == b"<$(id)><a-b><c.d>"


def test_a_hundred_at_once(place: World, bridge: Bridge) -> None:
    with contextlib.ExitStack() as stack:
        shims = [
            stack.enter_context(
                process.start(bridge.bin / "cat", cwd=place.project, stdin=subprocess.PIPE, env={})
            )
            for _ in range(100)
        ]
        sent = [f"{number}\n".encode() * 1000 for number in range(100)]
        got = [shim.communicate(data, timeout=60)[0] for shim, data in zip(shims, sent, strict=True)]
        assert got == sent
        assert {shim.returncode for shim in shims} == {0}


# Refused calls.


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("cat", "/etc/passwd"), "plain words only"),
        (("cat", "../x"), "plain words only"),
        (("tool", "--help"), "plain words only"),
        (("tool", "a\nb"), r"'a\\nb'"),
    ],
)
def test_what_the_policy_does_not_list(
    place: World, bridge: Bridge, argv: tuple[str, ...], said: str
) -> None:
    result = place.call(bridge, *argv)
    assert result.status == 126
    assert said in result.stderr
    assert result.stdout == b""
    assert place.audit("refused")[-1]["program"] == argv[0]


def test_a_program_that_the_policy_does_not_name(place: World, bridge: Bridge) -> None:
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "id"))
        assert b"the policy names no such shim" in _rest(connection)


@pytest.mark.parametrize("where", ["/", "/etc", "..", "link", "rel"])
def test_directories_outside(place: World, bridge: Bridge, where: str) -> None:
    (place.project / "link").unlink(missing_ok=True)
    (place.project / "link").symlink_to("/etc")
    directory = where if where.startswith("/") or where == "rel" else f"{place.project}/{where}"
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "cat", "passwd", directory=directory))
        answer = _rest(connection)
    assert answer[4] == FrameKind.REFUSED
    assert b"root:" not in answer


def test_a_directory_that_is_swapped_for_a_link_all_the_time(place: World, bridge: Bridge) -> None:
    """The sandbox may win this race: the call runs inside or is refused, and never runs outside."""
    spot = place.project / "spot"
    spot.mkdir(exist_ok=True)
    (place.root / "outside").mkdir(exist_ok=True)
    (place.root / "outside" / "motd").write_text("outside")
    swapper = textwrap.dedent(f"""
        import os
        os.chdir({str(place.project)!r})
        while True:
            os.rename("spot", "aside"); os.symlink({str(place.root / "outside")!r}, "spot")
            os.unlink("spot"); os.rename("aside", "spot")
    """)
    with process.start(sys.executable, "-c", swapper):
        answers: list[bytes] = []
        until = time.monotonic() + 60
        while len(answers) < 60 or all(answer[4] == FrameKind.REFUSED for answer in answers):
            with _connected(bridge) as connection:
                connection.sendall(_call(place, "cat", "motd", directory=str(spot)))
                answers.append(_rest(connection))
            assert time.monotonic() < until, "the control: no call ran"
    assert not [answer for answer in answers if b"outside" in answer and answer[4] == FrameKind.STDOUT]


def test_another_user(place: World, bridge: Bridge) -> None:
    """The directory is closed to other users; in addition, the bridge checks the user of each connection."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    assert bridge.public.parent.stat().st_mode & 0o777 == 0o700
    assert bridge.socket.stat().st_mode & 0o777 == 0o600
    script = textwrap.dedent(f"""
        import os, socket, sys
        connection = socket.socket(socket.AF_UNIX)
        os.chdir({str(bridge.public)!r})
        os.chmod("socket", 0o777)
        os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
        connection.connect("socket")
        connection.sendall({_call(place, "cat")!r})
        sys.stdout.buffer.write(connection.recv(100))
    """)
    try:
        result = process.run(sys.executable, "-c", script, check=False)
    finally:
        bridge.socket.chmod(0o600)
    assert result.stdout == b""
    assert place.audit("peer")[-1]["why"] == "uid 65534"


# Clients that violate the protocol.


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff\x01",
        b"\0\0\0\x01\x01\x02",
        b"\0\0\0\x00\x02",
        b"\0\0\0\x01\x03\x0f",
        b"\0\0\0\x05\x01\x01\xff\xff\xff\xff",
    ],
)
def test_what_is_no_call(place: World, bridge: Bridge, sent: bytes) -> None:
    before = len(place.audit("protocol", 0))
    with _connected(bridge) as connection:
        connection.sendall(sent)
        assert _rest(connection)[4] == FrameKind.REFUSED
    assert len(place.audit("protocol", before + 1)) == before + 1
    assert place.call(bridge, "tool", "status", "7").status == 7, "it goes on"


def test_more_input_than_was_granted(place: World, bridge: Bridge) -> None:
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "tool", "hang"))
        with contextlib.suppress(BrokenPipeError):  # it doesn't read on
            connection.sendall(frames.encode_frame(FrameKind.STDIN, b"x" * 1_000_000))
        answer = _rest(connection)
    assert b"don't speak the same protocol" in answer or b"before any was granted" in answer


def test_a_second_call_on_a_connection(place: World, bridge: Bridge) -> None:
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "tool", "hang"))
        got = b""
        while b"ready" not in got:
            got += connection.recv(100)
        connection.sendall(_call(place, "cat"))
        assert b"don't speak the same protocol" in _rest(connection)


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0", b"\0\0\0\x40\x01\x01\0"], ids=["nothing", "half a head", "half a call"]
)
def test_a_slow_client(place: World, bridge: Bridge, sent: bytes) -> None:
    started = time.monotonic()
    with _connected(bridge) as connection:
        connection.sendall(sent)
        assert b"no call came in time" in _rest(connection)
    assert 0.5 < time.monotonic() - started < 40


def test_a_client_that_trickles(place: World, bridge: Bridge) -> None:
    """The time limit applies to the whole call, not to each byte."""
    started = time.monotonic()
    call = _call(place, "tool", "arguments", "x" * 200)
    with _connected(bridge) as connection, contextlib.suppress(ConnectionError):
        for byte in call:
            connection.send(bytes([byte]))
            if select.select([connection], [], [], 0.02)[0]:
                break
        assert b"no call came in time" in _rest(connection)
    assert time.monotonic() - started < 40


def test_a_half_closed_client(place: World, bridge: Bridge) -> None:
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "tool", "hang"))
        connection.shutdown(socket.SHUT_WR)
        _rest(connection)
    assert place.audit("call")[-1]["end"] == "gone"


def test_a_client_that_goes_away(place: World, bridge: Bridge) -> None:
    with _shim(bridge, place.project, "tool", "hang", "canary-gone") as shim:
        assert shim.stdout is not None
        assert shim.stdout.readline() == b"ready\n"
        shim.kill()
    assert _gone("canary-gone")


def test_a_client_that_does_not_read(place: World, bridge: Bridge) -> None:
    """Other clients are served meanwhile, and unread output does not pile up."""
    with _connected(bridge) as connection:
        connection.sendall(_call(place, "tool", "much"))
        time.sleep(0.5)
        assert place.call(bridge, "tool", "status", "5").status == 5
        status = Path(f"/proc/{bridge.pid}/status").read_text()
        assert int(status.split("VmRSS:")[1].split()[0]) < 100_000


def test_random_bytes(place: World, bridge: Bridge) -> None:
    source = random.Random(2)
    for _ in range(60):
        with _connected(bridge) as connection, contextlib.suppress(ConnectionError):
            prefix = source.choice([b"", b"\0\0\0", _call(place, "cat"), _call(place, "cat")[:20]])
            connection.sendall(prefix + source.randbytes(source.randrange(400)))
            connection.shutdown(socket.SHUT_WR)
            _rest(connection)
    assert place.call(bridge, "tool", "status", "6").status == 6


def test_what_is_no_listener_of_a_sandbox(place: World) -> None:
    """A listener on another network's loopback passes through the channel; others are refused and audited."""
    with place.bridge(POLICY, environment=ENVIRONMENT) as running:
        for what in ("nothing", "a pipe", "datagrams", "not listening", "the host's network", "many"):
            _send_no_listener(place, running, what)
        assert not (running.public / "port").exists()
        assert place.call(running, "tool", "status", "4").status == 4, "it goes on"


def _send_no_listener(place: World, running: Bridge, what: str) -> None:
    with contextlib.ExitStack() as stack:
        channel = stack.enter_context(socket.socket(fileno=os.dup(running.channel)))
        answer, reply = os.pipe()
        stack.callback(os.close, answer)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        plain = stack.enter_context(socket.socket())
        datagrams = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        given = {
            "nothing": [], "a pipe": [answer, reply], "datagrams": [datagrams.fileno(), reply],
            "not listening": [plain.fileno(), reply], "the host's network": [listener.fileno(), reply],
            "many": [listener.fileno(), reply, reply, reply],
        }[what]  # fmt: skip
        before = len(place.audit("peer", 0))
        socket.send_fds(channel, [b"\1"], given)
        os.close(reply)
        assert os.read(answer, 1) == b"", f"{what}: the end, and no word"
        assert "a listener that is none" in place.audit("peer", before + 1)[-1]["why"], what


# Programs that don't end.


def test_what_a_program_leaves_behind(place: World, bridge: Bridge) -> None:
    """Processes in other sessions end with the call, including those that hold its output."""
    assert place.call(bridge, "tool", "daemon").status == 0
    assert _gone("canary-daemon")
    assert place.call(bridge, "tool", "holding").stdout == b"done\n"
    assert _gone("canary-holding")


def test_a_program_that_forks_on_and_on(place: World, bridge: Bridge) -> None:
    """Each child starts the next one in a new session, and ends: 50,000 of them if nothing stops them."""
    assert place.call(bridge, "tool", "respawn", "1").status == 0
    assert _gone("canary-respawn")
    assert place.call(bridge, "tool", "status", "3").status == 3


@pytest.mark.parametrize(
    ("limits", "word", "status", "end"),
    [
        (CallLimits(call_seconds=0.5, grace_seconds=0.2), "hang", 124, "time"),
        (CallLimits(output_bytes=100_000, grace_seconds=0.2), "much", 125, "output"),
        (CallLimits(input_bytes=100_000, grace_seconds=0.2), "count", 125, "input"),
    ],
)
def test_limits(place: World, limits: CallLimits, word: str, status: int, end: str) -> None:
    with place.bridge(POLICY, environment=ENVIRONMENT, limits=limits) as running:
        result = place.call(running, "tool", word, stdin=b"x" * 400_000 if word == "count" else b"")
        assert result.status == status
        assert place.audit("call")[-1]["end"] == end
        assert len(result.stdout) < 1_000_000


def test_too_many_connections(place: World) -> None:
    with place.bridge(POLICY, environment=ENVIRONMENT, limits=CallLimits(connections=3)) as running:
        with contextlib.ExitStack() as stack:
            for _ in range(3):  # later clients are accepted later
                stack.enter_context(_connected(running))
            result = place.call(running, "tool", "status", "0")
            assert (result.status, "too many calls at once" in result.stderr) == (125, True)
        assert eventually(lambda: place.call(running, "tool", "status", "4").status == 4)


# The end of the bridge.


def test_it_is_gone_with_its_session(place: World) -> None:
    with place.bridge(POLICY, environment=ENVIRONMENT) as running:
        stay = running.public.parent
        with _shim(running, place.project, "tool", "hang", "canary-session") as shim:
            assert shim.stdout is not None
            assert shim.stdout.readline() == b"ready\n"
            running_pid = running.pid
            os.kill(running_pid, signal.SIGTERM)
            assert shim.wait(60) == 125
    assert not stay.exists()
    assert _gone("canary-session")
    assert place.audit("stop")


def _session(place: World) -> str:
    """A session in a separate process: prints its bridge's directory and pid, and waits."""
    return textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = {[str(Path(__file__).parents[1]), *sys.path]!r}
        from pathlib import Path
        from support.bridges import World
        with World(Path({str(place.root)!r})).bridge({POLICY!r}, environment={ENVIRONMENT!r}) as bridge:
            print(bridge.public, bridge.pid, flush=True)
            time.sleep(60)
    """)


@pytest.mark.parametrize("killed", ["session", "bridge", "both"])
def test_killed(place: World, killed: str) -> None:
    """After SIGKILL, the remaining processes clean up; if none remains, the next session does."""
    with process.start(sys.executable, "-c", _session(place)) as session:
        assert session.stdout is not None
        public, pid = session.stdout.readline().decode().split()
        started = Bridge("", Path(public), place.log, int(pid), -1)
        with _shim(started, place.project, "tool", "hang", f"canary-{killed}") as shim:
            assert shim.stdout is not None
            assert shim.stdout.readline() == b"ready\n"
            if killed != "bridge":
                os.kill(session.pid, signal.SIGKILL)
            if killed != "session":
                os.kill(int(pid), signal.SIGKILL)
            assert shim.wait(60) == 125
            said = shim.stderr.read() if shim.stderr else b""
            assert b"the bridge exited" in said
        if killed == "bridge":
            session.send_signal(signal.SIGINT)
            session.wait(60)
        until = time.monotonic() + 40
        while Path(public).parent.exists() and time.monotonic() < until:
            time.sleep(0.05)
            if killed == "both":
                sweep_bridges(place.root / "b")
        assert not Path(public).parent.exists(), list(Path(public).parent.rglob("*"))
        assert _gone(f"canary-{killed}")


def test_without_a_bridge(place: World) -> None:
    """The shim reports an error and exits with 125, although its program is on PATH."""
    kept = place.root / "kept"
    with place.bridge(POLICY, environment=ENVIRONMENT) as running:
        process.run("cp", "-a", running.public, kept)
    (kept / "socket").unlink(missing_ok=True)
    result = process.run(kept / "bin" / "cat", cwd=place.project, stdin=b"x", check=False)
    assert result.status == 125
    assert "cat: there is no bridge to the host" in result.stderr
    assert result.stdout == b""


@pytest.mark.parametrize(
    ("shims", "environment", "error", "said"),
    [
        ("tool: {secrets: {TOOL_TOKEN: '${NOT_THERE}'}, allow: []}", {}, UsageError, "none of NOT_THERE,"),
        ("tool: {secrets: {TOOL_TOKEN: '${T}'}, allow: []}", {"T": "a b c d e"}, UsageError, "no secret"),
        ("tool: {secrets: {TOOL_TOKEN: '${T}'}, allow: []}", {"T": "ab"}, UsageError, "at least 6"),
        ("tool: {secrets: {TOOL_TOKEN: '${T}'}, allow: []}", {"T": "secret-\udcff"}, UsageError, "no secret"),
        ("tool: {secrets: {LD_PRELOAD: '${T}'}, allow: []}", {"T": "secret-x"}, RenderError, "steers"),
        ("tool: {secrets: {GIT_SSH: '${T}'}, allow: []}", {"T": "secret-x"}, RenderError, "steers"),
        ("gh: {secrets: {GH_HOST: '${T}'}, allow: []}", {"T": "secret-x"}, RenderError, "secrets of gh"),
        ("nowhere-to-be-found: {allow: []}", {}, ToolMissing, "found is not installed"),
        ("gh: {allow: ['api *']}", {}, RenderError, "is nothing that the bridge runs"),
        ("tool: {secrets: {TOOL_TOKEN: '${T}'}, allow: []}", {"T_FILE": "/none"}, HostError, "No such file"),
        ("tool: {secrets: {TOOL_TOKEN: '${T}'}, allow: []}", {"T_COMMAND": "false x"}, HostError, "failed"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("bridge")
def test_what_does_not_start(
    place: World, shims: str, environment: dict[str, str], error: type[Exception], said: str
) -> None:
    with (
        pytest.raises(error, match=said),
        place.bridge(f"\ncredentials:\n  shims:\n    {shims}\n", environment=environment),
    ):
        pytest.fail("it has started")
    left = [path for path in (place.root / "b").iterdir() if path.is_dir()]
    assert len(left) == 1, "only the module's own bridge"


def test_secrets_of_files_and_commands(place: World) -> None:
    place.tool("say", 'case $TOOL_TOKEN in from-a-*) echo "${#TOOL_TOKEN}" ;; *) echo none ;; esac')
    (place.root / "secret").write_text("from-a-file\n")
    policy = "\ncredentials:\n  shims:\n    say: {secrets: {TOOL_TOKEN: '${T}'}, allow: ['*']}\n"
    for environment, said in (
        ({"T_FILE": str(place.root / "secret")}, b"11\n"),
        ({"T_COMMAND": "echo 'from-a-command'", "T_FILE": "/none", "T": "other-one"}, b"14\n"),
        ({"T": "from-a-variable"}, b"15\n"),
    ):
        with place.bridge(policy, environment=environment) as running:
            assert place.call(running, "say").stdout == said


def test_a_directory_that_the_sandbox_may_write(place: World) -> None:
    policy = place.policy(f"filesystem: {{write: [$PROJECT, {place.root}/b]}}\n{POLICY}")
    with (
        pytest.raises(UsageError, match="cannot start a bridge in "),
        serve(policy, directory=place.root / "b", audit=place.log, environment={**os.environ, **ENVIRONMENT}),
    ):
        pytest.fail("it has started")


def test_a_program_that_the_sandbox_may_write(place: World) -> None:
    """A program in the workspace, or in another writable directory, is neither found nor run."""
    for folder in (place.project / "bin", place.root / "home" / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "planted").write_text("#!/bin/sh\n")
        (folder / "planted").chmod(0o755)
        text = f"filesystem: {{write: [$PROJECT, {place.root}/home/bin]}}\n"
        text += "credentials: {shims: {planted: {allow: ['*']}}}\n"
        with (
            pytest.raises(ToolMissing),
            serve(
                place.policy(text), directory=place.root / "b", audit=place.log,
                environment={"PATH": f"{folder}:/usr/bin"},
            ),
        ):  # fmt: skip
            pytest.fail("it has started")


def test_the_peer_check_reads_what_the_kernel_says() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        raw = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        assert struct.unpack("3i", raw)[1] == os.geteuid()
