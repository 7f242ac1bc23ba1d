"""Further commands in a session: `launch --exec`, `sandwright exec` and `sandwright shell`.

Tests of cli/executing.py.
Tests of launcher/source/fd_passing.c.
Tests of launcher/source/requests.c: the accepted senders, and the channel.
Tests of launcher/source/requests_inside.c: the process that starts the command inside.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.launcher.run_document import RunDocument, open_run_document, with_document
from sandwright.session import state
from sandwright.session.executing import become_exec
from session.conftest import WAIT, Project
from session.jobs import NOBODY, Place, place
from session.keys import ACTIONS, FEW, ends_by_a_signal, shell
from session.terminals import terminal
from session.test_keys import METHODS
from support.processtrees import naming
from support.sessionrecords import session_record
from support.thorough import THOROUGH, representative
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bwrap", "bash", "busybox", "setpriv"),
]
CELLS = [
    pytest.param(method, uid, marks=METHODS[method], id=f"{method}-{'user' if uid else 'root'}")
    for uid in (0, NOBODY)
    for method in ("bwrap", "oci", "podman", "docker", "landlock", "user")
    if not uid or method not in ("podman", "docker", "user")
]
EACH = representative(CELLS, "bwrap-root", "oci-user", "landlock-user", "docker-root", "user-root")
PYTHON = "/usr/bin/python3"
ATTACKS = Path(__file__).with_name("executed.py")
WALLS = (
    "grep -E 'Uid|Gid|Groups|NoNewPrivs|Seccomp|Cap' /proc/self/status; ulimit -a; umask; env | sort"
    " | grep -vE '^(_|SHLVL|PWD|OLDPWD)='; cat /proc/self/cgroup;"
    " for each in user pid net ipc uts mnt cgroup; do readlink /proc/self/ns/$each; done"
    "; cat /proc/self/mountinfo"
)


@dataclass
class Session:
    """A session of a launcher that accepts commands."""

    at: Place
    socket: Path
    process: subprocess.Popen[bytes]
    first: str
    """The command's first output."""

    def words(self, *words: str, directory: str = "") -> list[str]:
        return [*self.at.before, str(self.at.launcher), "--exec", str(self.socket), directory, *words]

    def start(self, *words: str, directory: str = "") -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(*words, directory=directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "SECRET": "of the caller"},
        )

    def run(self, *words: str, directory: str = "", stdin: bytes = b"") -> tuple[int, str, str]:
        """The exit status, standard output and standard error."""
        with self.start(*words, directory=directory) as started:
            output, errors = started.communicate(stdin, timeout=WAIT)
        return started.returncode, output.decode(), errors.decode()


@contextlib.contextmanager
def session(
    method: str, uid: int, script: str = "echo up; exec sleep 1000", more: str = ""
) -> Iterator[Session]:
    with place(method, uid, more) as at:
        path = Path(at.environ["XDG_RUNTIME_DIR"], "session.exec")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if uid:
            os.chown(path.parent, uid, uid)
        document = open_run_document(RunDocument(requests=str(path)))
        process = subprocess.Popen(
            [*at.before, *with_document([str(at.launcher), "sh", "-c", script], document)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=at.root,
            env=dict(at.environ),
            pass_fds=(document,),
        )
        os.close(document)
        try:
            assert process.stdout is not None
            first = b""
            while not first.endswith(b"up\n"):
                line = process.stdout.readline()
                assert line, "the session does not start"
                first += line
            yield Session(at, path, process, first.decode().removesuffix("up\n"))
        finally:
            process.terminate()
            process.communicate(timeout=WAIT)
        assert not path.exists()


@pytest.mark.parametrize(("method", "uid"), CELLS)
def test_it_is_behind_the_same_walls(method: str, uid: int) -> None:
    mounts = "; cat /proc/self/mountinfo"
    walls = WALLS.removesuffix(mounts) + mounts * (method != "landlock")  # its mounts are the host's
    with session(method, uid, f"{walls}; echo up; exec sleep 1000") as of:
        status, output, errors = of.run("sh", "-c", walls)
        assert (status, errors) == (0, "")
        assert output == of.first
        assert "NoNewPrivs:\t1" in output
        assert "SECRET" not in output
        status, _, errors = of.run(
            "sh", "-c", f"cd {of.at.root}; touch made && ! touch /etc/made && ! mkdir /proc/x"
        )
        assert status == 0, errors
        assert (of.at.root / "made").exists()
        _, output, _ = of.run("sh", "-c", "echo /proc/$$/fd/*")
        assert sorted(each.rpartition("/")[2] for each in output.split()) == ["0", "1", "2", "3"], (
            "3 is the directory"
        )


ATTEMPTS = {
    "denied path": "cat {outside}/secret",
    "write": "touch {outside}/made",
    "network": "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' || busybox nc 127.0.0.1 {port} </dev/null",
    "namespace": "unshare -U true || busybox unshare -U true",
}
"""Shell scripts that succeed on the host, with the object of each attempt."""


@pytest.mark.parametrize(("method", "uid"), CELLS)
def test_each_wall_holds_and_its_control_shows_that_it_is_one(method: str, uid: int, tmp_path: Path) -> None:
    """Files, network, seccomp and a limit hold for a further command as for the session's own."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    policy = "network: {mode: none}\nresources: {files: 99}\n"
    with session(method, uid, more=policy) as of, socket.create_server(("127.0.0.1", 0)) as server:
        words = {"outside": outside, "port": server.getsockname()[1]}
        for what, attempt in ATTEMPTS.items():
            script = attempt.format(**words)
            assert subprocess.run(["sh", "-c", script], check=False, timeout=WAIT).returncode == 0, what
            (outside / "made").unlink(missing_ok=True)
            status, output, _ = of.run("sh", "-c", script)
            assert (status != 0, output) == (True, ""), what
        assert not (outside / "made").exists()
        assert of.run("sh", "-c", "ulimit -n")[1] == "99\n"


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_its_streams_directory_and_status(method: str, uid: int) -> None:
    with session(method, uid) as of:
        assert of.run("sh", "-c", "cat; echo err >&2; exit 3", stdin=b"in") == (3, "in", "err\n")
        assert of.run("pwd", directory="/usr")[1] == "/usr\n"
        status, output, errors = of.run("true", directory="/nowhere")
        assert (status, output) == (125, "")
        assert "cannot change directory to /nowhere" in errors
        assert of.run("/nowhere")[::2] == (127, "sandbox: /nowhere: not found\n")
        assert of.run("/etc")[0] == 126
        assert of.run("sh", "-c", "kill -9 $$")[0] == 137
        long = "x" * 120_000
        assert of.run("echo", long, long)[1] == f"{long} {long}\n"
        started = of.start("sh", "-c", "trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.1; done")
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        started.terminate()
        assert started.communicate(timeout=WAIT)[0] == b"got\n"
        assert started.returncode == 5


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_it_ends_with_the_session(method: str, uid: int) -> None:
    with session(method, uid) as of:
        started = of.start("sh", "-c", "echo up; exec sleep 1000")
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        of.process.terminate()
        _, errors = started.communicate(timeout=WAIT)
        assert started.returncode == 137
        assert b"the session has ended" in errors
        status, _, errors_then = of.run("true")
        assert (status, "accepts no commands" in errors_then) == (125, True)


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_killed_at_any_point_it_leaves_nothing(method: str, uid: int) -> None:
    """This includes a process that has left its session and its parent."""
    script = "setsid sh -c 'sleep 4321 & sleep 4321' & setsid sleep 4321 & exec sleep 4321"
    with session(method, uid) as of:
        for point in range(0, 30, 1 if THOROUGH else 3):
            started = of.start("sh", "-c", script)
            time.sleep(point * 0.003)
            started.kill()
            started.communicate(timeout=WAIT)
        until(lambda: naming(b"4321") == {}, "something is left", within=10)
        assert of.run("echo", "fine")[:2] == (0, "fine\n")
        if method != "landlock":  # otherwise the host's are there
            _, output, _ = of.run("sh", "-c", "for each in /proc/[0-9]*; do cat $each/comm; done")
            roots = ["launch"] * 2 if method == "user" else []  # the first process, and the watch
            assert sorted(output.split()) == ["init", "init", *roots, "sh", "sleep"]


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_keys_and_jobs(method: str, uid: int) -> None:
    actions = ACTIONS if (method, uid) == ("bwrap", 0) else FEW
    if method == "landlock":  # it sees the host's zombies
        actions = tuple(each for each in actions if each is not ends_by_a_signal)
    found = {}
    with session(method, uid) as of:
        launcher = (of.at.launcher, "--exec", of.socket, of.at.root)
        for action in actions:
            with shell(launcher, of.at.root, of.at.environ, of.at.before) as at:
                at.inner = of.at.inner
                try:
                    action(at)
                    at.line("trap - EXIT; jobs -p")
                except AssertionError as error:
                    found[action.__name__] = str(error)
    assert found == {}


def test_the_suspend_key_stops_a_pipeline() -> None:
    """The session's message may be that the command was executed, or that it has stopped."""
    with session("bwrap", 0) as of:
        launcher = (of.at.launcher, "--exec", of.socket, of.at.root)
        with shell(launcher, of.at.root, of.at.environ) as at:
            for _ in range(40):
                at.start('echo u""p; exec sleep 1000', behind="| cat")
                at.stopped()
                at.line("kill %1; fg")


def test_its_terminal_is_the_sandboxs() -> None:
    """Its names lead to it inside, and it has the user's window size from the beginning."""
    with session("bwrap", 0) as of:
        script = "tty; stty size; echo one >/dev/stderr; echo two >/dev/tty; ls /dev/pts"
        with terminal(of.words("sh", "-c", script), of.at.root, dict(of.at.environ)) as shown:
            shown.resize(33, 77)
            found = shown.read_until(b"ptmx").decode()
        assert "/dev/pts/0\r\n" in found
        assert "one\r\ntwo\r\n" in found


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_programs_inside_do_not_get_at_the_channel(uid: int) -> None:
    """They get neither that of the first process nor that of the process that starts a command."""
    with session("bwrap", uid) as of:
        (of.at.root / "attacks.py").write_bytes(ATTACKS.read_bytes())
        attack = (PYTHON, "-P", f"{of.at.root}/attacks.py", "attack")
        for target in ("1", "$PPID"):
            status, output, errors = of.run("sh", "-c", f"{' '.join(attack)} {target}")
            assert (status, "ALLOWED" in output) == (0, False), output + errors
            assert [line.partition(":")[0] for line in output.splitlines()] == ["files", "memory", "trace"]
        own = of.run("sh", "-c", f"sleep 9 & {' '.join(attack)} $!")[1]
        assert "memory: ALLOWED" in own, "the control"


@pytest.mark.parametrize(("method", "uid"), CELLS)
def test_the_first_process_and_a_leader_are_closed_to_programs_inside(method: str, uid: int) -> None:
    with session(method, uid) as of:
        for target in ("1", "$PPID"):
            for attempt in (
                f"cat /proc/{target}/environ",
                f"readlink /proc/{target}/fd/0",
                f"ls /proc/{target}/cwd/",
            ):
                status, output, _ = of.run("sh", "-c", attempt)
                assert (status != 0, output) == (True, ""), attempt
        assert (
            of.run("sh", "-c", "cat /proc/self/environ | wc -c; readlink /proc/$$/fd/0; ls /proc/$$/cwd/")[0]
            == 0
        )
        of.run("sh", "-c", "kill -9 1; kill -STOP 1; kill -IO 1")
        assert of.run("echo", "fine")[:2] == (0, "fine\n")


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_programs_inside_do_not_delay_it(uid: int) -> None:
    with session("bwrap", uid) as of:
        (of.at.root / "attacks.py").write_bytes(ATTACKS.read_bytes())
        flood = of.start(PYTHON, "-P", f"{of.at.root}/attacks.py", "flood")
        assert flood.stdout is not None
        assert flood.stdout.readline() == b"up\n"
        for _ in range(10):
            began = time.monotonic()
            assert of.run("echo", "fine")[:2] == (0, "fine\n")
            assert time.monotonic() - began < 5
        flood.kill()
        flood.communicate(timeout=WAIT)


def test_what_starts_a_command_can_be_killed_inside_and_is_no_success() -> None:
    """As with any process of the sandbox's user, only that command is gone."""
    with session("bwrap", 0) as of:
        status, _, errors = of.run("sh", "-c", "kill -9 $PPID; sleep 1; touch left")
        assert status == 137
        assert errors != ""
        assert of.run("echo", "fine")[:2] == (0, "fine\n")
        assert not (of.at.root / "left").exists()


def test_it_ends_when_told_although_what_starts_its_command_is_stopped_inside() -> None:
    """It ends within 10 seconds, like a run; its terminal is unchanged afterwards."""
    with session("bwrap", 0) as of:
        words = of.words("sh", "-c", "kill -STOP $PPID; echo up; trap '' INT HUP TERM; exec sleep 1000")
        with terminal(words, of.at.root, dict(of.at.environ)) as shown:
            shown.read_until(b"up")
            os.kill(shown.pid, signal.SIGTERM)
            assert shown.end() == 143
            assert shown.settings == shown.before
        assert b"did not exit in time" in shown.rest()
        assert of.run("echo", "fine")[:2] == (0, "fine\n")


def test_keys_end_it_before_the_session_answers(tmp_path: Path) -> None:
    with session("bwrap", 0) as of, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        words = [str(of.at.launcher), "--exec", str(tmp_path / "silent"), "", "true"]
        with terminal(words, of.at.root, dict(of.at.environ)) as shown:
            client, _ = silent.accept()
            client.recv(1 << 10)
            shown.type(b"\x03")
            assert shown.end() == 130
            client.close()
        started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client, _ = silent.accept()
        client.recv(1 << 10)
        time.sleep(0.5)
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=WAIT) == 130
        client.close()


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_a_run_of_a_command_named_as_the_option_runs_it_in_its_own_sandbox(method: str, uid: int) -> None:
    with session(method, uid) as of:
        document = open_run_document(RunDocument())
        words = with_document([str(of.at.launcher), "--exec", str(of.socket), "", "echo", "there"], document)
        ended = subprocess.run(
            [*of.at.before, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=of.at.root,
            env=dict(of.at.environ),
            pass_fds=(document,),
            timeout=WAIT,
        )
        os.close(document)
        assert (ended.returncode, ended.stdout) == (127, b"")
        assert ended.stderr == b"sandbox: --exec: not found\n"


def test_a_stranger_on_the_host_is_not_heard() -> None:
    with session("bwrap", 0) as of:
        of.socket.parent.chmod(0o755)
        of.socket.chmod(0o777)
        for parent in of.socket.parents:
            if str(parent).startswith("/tmp/") and parent != of.socket.parent:
                parent.chmod(0o755)
        stranger = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            "--",
            *of.words("id"),
        ]
        ended = subprocess.run(
            stranger, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=WAIT
        )
        assert (ended.returncode, ended.stdout) == (125, b""), ended.stderr
        assert of.run("echo", "fine")[0] == 0


# ---- the command line


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("gvisor", "runsc hands no socket on"),
        ("vm", "carries the streams of one command"),
    ],
)
def test_other_methods_refuse_it_with_the_reason(
    method: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    state.write(session_record("0123456789abcdef", method=method, name="web"))
    with pytest.raises(UsageError, match=f"session web accepts no .* under {method}, .*{reason}"):
        become_exec("web", ["true"])


@pytest.fixture
def web(project: Project) -> Iterator[Project]:
    """A project with a detached session `web`."""
    started = project.run("sleep", "1000", options=("--detach", "--name", "web"))
    assert started.returncode == 0, started.stderr
    yield project
    project.sandwright("stop", "web")


def test_by_name_in_the_current_directory(web: Project) -> None:
    (web.root / "below").mkdir()
    ended = web.sandwright("exec", "web", "sh", "-c", "pwd; exit 4", cwd=web.root / "below")
    assert (ended.returncode, ended.stdout.decode()) == (4, f"{web.root}/below\n"), ended.stderr
    assert web.sandwright("exec", "web", "--", "pwd", cwd=web.home).stdout.decode() == f"{web.root}\n"
    assert web.sandwright("exec", "--workdir", "/usr", "web", "--", "pwd").stdout == b"/usr\n"
    denied = web.sandwright("exec", "web", "--", "cat", "secrets/key", ".git/HEAD")
    assert (denied.returncode, denied.stdout) == (1, b"content"), denied.stderr


def test_the_socket_is_invisible_inside(web: Project) -> None:
    (path,) = web.sockets()
    (web.root / "attacks.py").write_bytes(ATTACKS.read_bytes())
    for words in (("exec", "web", "--"), ("run", "--")):
        ended = web.sandwright(*words, PYTHON, "-P", "attacks.py", "find", str(path))
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith(b"socket: "), ended.stdout
        assert b"ALLOWED" not in ended.stdout


def test_its_refusals_are_the_sessions(project: Project) -> None:
    file = project.home / "denials"
    started = project.start(
        "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done", options=("--denials", str(file))
    )
    until(lambda: project.sockets() != [], "the session does not start")
    (found,) = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    script = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"
    ended = project.sandwright("exec", found["session"], "--", PYTHON, "-c", script)
    assert ended.stdout == b"-1\n", ended.stderr
    (project.root / "go").touch()
    assert started.wait(timeout=WAIT) == 0
    started.communicate()
    assert "ptrace" in file.read_text()


def test_a_further_command_is_in_the_audit_log(project: Project) -> None:
    log = project.home / "audit"
    started = project.start(
        "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done", options=("--audit", str(log))
    )
    until(lambda: project.sockets() != [], "the session does not start")
    (found,) = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    assert project.sandwright("exec", found["session"], "--", "/bin/echo", "secret").stdout == b"secret\n"
    assert project.sandwright("exec", found["session"], "--", "/é").returncode == 127
    (project.root / "go").touch()
    assert started.wait(timeout=WAIT) == 0
    started.communicate()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["event"], each.get("command")) for each in lines] == [
        ("start", "sh"),
        ("exec", "echo"),
        ("exec", "é"),
        ("exit", None),
    ]
    assert "secret" not in log.read_text()
    assert project.sandwright("verify-audit", str(log)).returncode == 0


def test_refused(web: Project) -> None:
    for words, message in (
        (("exec", "web"), "give a command to run"),
        (("exec", "other", "true"), "no session other runs"),
        (("shell", "--time", "3", "web"), "options choose that of a new one"),
    ):
        ended = web.sandwright(*words)
        assert (ended.returncode, ended.stdout) == (125, b"")
        assert message in ended.stderr.decode()
    assert web.sandwright("exec").returncode == 64


@pytest.mark.parametrize("words", [("shell",), ("shell", "web")])
def test_the_prompt_of_a_shell_shows_that_it_is_inside(web: Project, words: tuple[str, ...]) -> None:
    mark = b"(sandwright:web)" if "web" in words else b"(sandwright)"
    for program in ("/bin/bash", "/bin/dash", "/nowhere"):
        environ = {**web.environ, "SHELL": program, "TERM": "dumb"}
        with terminal([*web.command, *words], web.root, environ) as shown:
            shown.read_until(mark)
            shown.type(b"exit\n")


def test_a_killed_session_leaves_no_socket(web: Project) -> None:
    (found,) = json.loads(web.sandwright("status", "--json").stdout)["sessions"]
    for pid in [int(found["pid"]), *_descendants(int(found["pid"]))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert web.run("true").returncode == 0
    until(
        lambda: web.run("true").returncode == 0 and web.records() + web.sockets() == [], "something is left"
    )


def _descendants(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, found) for each in (child, *_descendants(child))]
