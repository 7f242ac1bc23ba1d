"""A detached run's terminal, and the clients that join it: `run --detach --tty`, `attach`.

Tests of session/attaching.py.
Tests of session/held_terminal.py.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.session import held_terminal
from sandwright.session.attaching import DETACH_KEYS, KeyFilter, ModeTracker, parse_keys
from sandwright.sockets import socket_name
from session.conftest import WAIT, Project
from session.jobs import NOBODY
from session.terminals import Terminal, terminal
from support import interpreters
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")
LEAVE = b"\x10\x11"


@pytest.fixture
def detached(project: Project) -> Iterator[Project]:
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n")
    yield project
    project.sandwright("stop", "--time", "1s", "web")


def _start(project: Project, script: str, *options: str) -> None:
    words = ("run", "--detach", "--tty", *options, "--name", "web", "--", "sh", "-c", script)
    ended = project.sandwright(*words)
    assert (ended.returncode, ended.stdout) == (0, b"web\n"), ended.stderr


@contextmanager
def _attached(project: Project, *options: str, size: tuple[int, int] = (31, 117)) -> Iterator[Terminal]:
    with terminal(
        [*project.command, "attach", *options, "web"], project.root, project.environ, size=size
    ) as shown:
        yield shown


def _joined(shown: Terminal) -> None:
    """Wait until keys arrive, by the echo of `cat`."""
    shown.type(b"joined\r")
    shown.read_until(b"joined\r\njoined\r\n")


def _socket(project: Project) -> Path:
    (found,) = (project.runtime / "sandwright/sessions").glob("*.attach")
    return found


def _log(project: Project) -> bytes:
    return project.sandwright("logs", "web").stdout


def test_keys_output_size_and_status(detached: Project) -> None:
    _start(detached, "echo up; while read word; do echo got $word; stty size; done; exit 5")
    with _attached(detached) as shown:
        shown.type(b"one\r")
        shown.read_until(b"got one\r\n31 117\r\n")
        shown.resize(20, 50)
        shown.type(b"two\r")
        assert b"got two" in shown.read_until(b"20 50\r\n")
        shown.type(b"\x04")
        assert shown.end() == 5
        assert shown.settings == shown.before
    assert re.search(rb"up\r\n(?s:.*)got two(?s:.*)ended with status 5\n$", _log(detached))
    until(lambda: detached.records() == [], "something is left")


def test_a_program_draws_its_window_again_for_each_who_joins(detached: Project) -> None:
    """This includes a client of the same size, of which the kernel informs no program."""
    _start(detached, "trap 'echo drawn' WINCH; echo up; while :; do sleep 0.1; done")
    for _ in range(2):
        with _attached(detached) as shown:
            shown.read_until(b"drawn\r\n")
            shown.type(LEAVE)
            assert shown.end() == 0


def test_its_first_terminal_is_not_needed(detached: Project) -> None:
    """The run goes on after that terminal is closed, and is joined from others, again and again."""
    words = [*detached.command, "run", "--detach", "--tty", "--name", "web", "--", "sh", "-c", "echo up; cat"]
    with terminal(words, detached.root, detached.environ, size=(22, 44)) as first:
        assert first.end() == 0
    for number in range(3):
        with _attached(detached) as shown:
            shown.type(b"line %d\r" % number)
            shown.read_until(b"line %d\r\nline %d\r\n" % (number, number))
    with _attached(detached) as shown:
        _joined(shown)
        shown.type(b"\x03")
        assert shown.end() == 130


def test_keys_leave_it(detached: Project) -> None:
    _start(detached, "echo up; exec cat")
    with _attached(detached) as shown:
        shown.type(b"here\r")
        shown.read_until(b"here\r\nhere\r\n")
        shown.type(LEAVE[:1])
        shown.type(LEAVE[1:])
        assert shown.end() == 0
        assert shown.settings == shown.before
        assert b"session web goes on" in shown.rest()
    with _attached(detached, "--detach-keys", "ctrl-a,d") as shown:
        _joined(shown)
        shown.type(LEAVE + b"\x01d")
        assert shown.end() == 0
    with _attached(detached, "--detach-keys", "") as shown:
        _joined(shown)
        shown.type(LEAVE + b"\x03")
        assert shown.end() == 130


def test_nothing_of_the_program_stays_in_the_terminal(detached: Project) -> None:
    """Its settings do not stay, nor answers to its questions, which a shell would read as keys."""
    set_modes = r"\033[?1049h\033[?1003;2004h\033[?25l\033[?1006h\033[?1006l"
    _start(detached, f"stty raw -echo; read -r line; printf '{set_modes}\\033[6n'; exec sleep 300")
    with _attached(detached) as shown:
        time.sleep(0.5)
        shown.type(b"go\n")
        shown.read_until(b"\x1b[6n")
        shown.type(LEAVE)
        time.sleep(0.05)
        shown.type(b"\x1b[12;40R\n")
        assert shown.end() == 0
        before, reset, _ = shown.rest().partition(b"\x1b[?1049l\x1b[?1003l\x1b[?2004l\x1b[?25h\x1b[m")
        assert reset, before
        assert shown.settings == shown.before
        os.set_blocking(shown.slave, False)
        with pytest.raises(BlockingIOError):
            os.read(shown.slave, 100)
        shown.type(b"key\n")
        assert os.read(shown.slave, 100) == b"key\n"


def test_modes_are_found_in_any_blocks() -> None:
    shown = b"a\x1b[?1049h\x1b[?25l\x1b[?7h\x1b[?1000;1006h\x1b[?1000l"
    for size in (1, 3, 100):
        modes = ModeTracker()
        for at in range(0, len(shown), size):
            modes.follow(shown[at : at + size])
        assert modes.undo() == b"\x1b[?1049l\x1b[?25h\x1b[?1006l\x1b[m"
    assert ModeTracker().undo() == b"\x1b[m"


def test_several_see_the_same(detached: Project) -> None:
    _start(detached, "while read word; do echo got $word; done")
    with _attached(detached) as one, _attached(detached, size=(10, 30)) as two:
        for number, each in enumerate((one, two)):
            each.type(b"%d\r" % number)
            each.read_until(b"got %d\r\n" % number)
        for typing in (one, two):
            typing.type(b"word\r")
            for each in (one, two):
                each.read_until(b"got word\r\n")
        two.type(LEAVE)
        assert two.end() == 0
        one.type(b"more\r")
        one.read_until(b"got more\r\n")
        one.type(b"\x04")
        assert one.end() == 0


def test_one_that_reads_nothing_does_not_stop_the_run(detached: Project) -> None:
    """It does not stop another attached client either."""
    _start(detached, "read go; seq 200000; echo over; exec sleep 300")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        with socket_name(str(_socket(detached))) as name:
            silent.connect(name)
        with _attached(detached) as shown:
            shown.type(b"\r")
            shown.read_until(b"over\r\n")


def test_a_program_that_reads_nothing_stops_nobody(detached: Project) -> None:
    _start(detached, "echo up; exec sleep 300")
    with _attached(detached) as shown:
        for _ in range(200):
            shown.type(b"x" * 100 + b"\r")
        shown.type(LEAVE)
        assert shown.end() == 0
    assert detached.sandwright("stop", "web").returncode == 0


def test_who_is_attached_is_told_of_the_end(detached: Project) -> None:
    _start(detached, "exec cat")
    with _attached(detached) as shown:
        _joined(shown)
        assert detached.sandwright("stop", "web").returncode == 0
        assert shown.end() == 128 + signal.SIGTERM
        assert shown.settings == shown.before


def test_the_end_of_a_client_is_not_the_runs(detached: Project) -> None:
    """Its terminal may close, or it may be killed."""
    _start(detached, "while read word; do echo got $word; done")
    for _ in range(3):
        with _attached(detached) as shown:
            shown.type(b"word\r")
            shown.read_until(b"got word\r\n")
            os.kill(shown.pid, signal.SIGKILL)
    with _attached(detached) as shown:
        shown.type(b"again\r")
        shown.read_until(b"got again\r\n")


def test_without_its_holder_the_run_ends(detached: Project) -> None:
    """The kernel hangs up a terminal whose master is closed."""
    _start(detached, "echo up; exec sleep 300")
    record = detached.sandwright("status", "--json").stdout
    (found,) = re.findall(rb'"pid": (\d+)', record)
    holder = int(Path(f"/proc/{int(found)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(holder, signal.SIGKILL)
    until(lambda: b'"pid"' not in detached.sandwright("status", "--json").stdout, "it goes on")
    assert detached.run("true").returncode == 0
    until(lambda: detached.records() == [], "a record is left")


def test_of_a_run_without_a_terminal_the_output_is_shown(detached: Project) -> None:
    """The exit status is the run's, whatever the command prints."""
    script = "echo up; while [ ! -e go ]; do sleep 0.1; done"
    script += "; echo 'sandwright: the command ended with status 0'"
    words = ("run", "--detach", "--name", "web", "--", "sh", "-c", f"{script}; exit 5")
    assert detached.sandwright(*words).returncode == 0
    with _attached(detached) as shown:
        shown.read_until(b"up\r\n")
        (detached.root / "go").touch()
        assert shown.end() == 5
        assert b"ended with status 5" in shown.rest()


def test_a_run_without_a_terminal_that_was_killed_has_no_status(detached: Project) -> None:
    """This holds even if the command has printed a line like the one with the status."""
    script = "echo up; echo 'sandwright: the command ended with status 0'; exec sleep 300"
    words = ("run", "--detach", "--name", "web", "--", "sh", "-c", script)
    assert detached.sandwright(*words).returncode == 0
    (found,) = re.findall(rb'"pid": (\d+)', detached.sandwright("status", "--json").stdout)
    with _attached(detached) as shown:
        shown.read_until(b"status 0\r\n")
        os.kill(int(found), signal.SIGKILL)
        assert shown.end() == 125
        assert b"web was killed: its log has no exit status" in shown.rest()
    until(lambda: detached.run("true").returncode == 0 and detached.records() == [], "a record is left")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("attach", "none"), 125, "no session none runs"),
        (("attach", "--detach-keys", "ctrl-1", "none"), 125, "--detach-keys ctrl-1"),
        (("run", "--tty", "--", "true"), 125, "--tty gives a terminal to a detached run"),
    ],
)
def test_refused(detached: Project, words: tuple[str, ...], status: int, message: str) -> None:
    ended = detached.sandwright(*words)
    assert (ended.returncode, message in ended.stderr.decode()) == (status, True), ended.stderr


def test_a_run_in_the_foreground_cannot_be_joined(detached: Project) -> None:
    running = detached.start("sleep", "300")
    try:
        until(lambda: b'"pid"' in detached.sandwright("status", "--json").stdout, "it does not start")
        (found,) = re.findall(rb'"session": "(\w+)"', detached.sandwright("status", "--json").stdout)
        ended = detached.sandwright("attach", found.decode())
        assert ended.returncode == 125
        assert b"runs in the foreground" in ended.stderr
    finally:
        running.terminate()
        running.communicate(timeout=WAIT)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.needs("setpriv")
def test_another_user_is_not_heard(detached: Project) -> None:
    """This holds even if the directory and the socket were open to all."""
    _start(detached, "while read word; do echo got $word; done")
    path = _socket(detached)
    attempt = (
        "import os, socket, sys\nos.chdir(sys.argv[1])\n"
        "end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "end.connect(sys.argv[2])\nend.send(b'kword\\r')\nend.settimeout(5)\nprint(end.recv(9999))\n"
    )
    words = [interpreters.INSIDE, "-c", attempt, str(path.parent), path.name]
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]

    def ask(*before: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*before, *words], capture_output=True, check=False, timeout=WAIT)

    assert b"PermissionError" in ask(*user).stderr
    path.chmod(0o777)
    for each in path.parents:
        if each.is_relative_to("/tmp") and each != Path("/tmp"):
            each.chmod(0o711)
    refused = ask(*user)
    assert (refused.returncode != 0, refused.stdout) == (True, b"")
    assert b"PermissionError" not in refused.stderr
    assert b"word" in ask().stdout, "the control"


def test_the_socket_is_invisible_inside(detached: Project) -> None:
    _start(detached, "exec sleep 300")
    path = _socket(detached)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    ended = detached.run("ls", str(path))
    assert (ended.returncode != 0, ended.stdout) == (True, b"")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DETACH_KEYS, b"\x10\x11"),
        ("ctrl-a,d", b"\x01d"),
        ("ctrl-],ctrl-\\,ctrl-@", b"\x1d\x1c\x00"),
        ("", b""),
    ],
)
def test_detach_keys(text: str, keys: bytes) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-P", "ab", ",", "ctrl-1", "é"])
def test_no_detach_keys(text: str) -> None:
    with pytest.raises(UsageError, match="--detach-keys"):
        parse_keys(text)


def test_what_begins_a_sequence_is_held_back() -> None:
    filtered = KeyFilter(b"aab")
    assert [filtered.pass_on(bytes([each])) for each in b"xaaab"][:-1] == [
        (b"x", False),
        (b"", False),
        (b"", False),
        (b"a", False),
    ]
    assert KeyFilter(b"aab").pass_on(b"1aab2") == (b"1", True)
    assert KeyFilter(b"").pass_on(b"aab") == (b"aab", False)


def test_messages_have_room_for_their_kind() -> None:
    assert len(held_terminal.SHOWN) == len(held_terminal.KEYS) == 1
