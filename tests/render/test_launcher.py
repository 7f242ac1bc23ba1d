"""The rendered launcher for bubblewrap, started for real: permitted and denied accesses, and leftovers.

Tests of launcher/source/bwrap.c.
Tests of launcher/source/exec.c: 126 and 127.
Tests of launcher/source/pairs.c: a pair of sockets sends to no address.
Tests of methods/bwrap/launch.py.
Tests of render/launcher.py.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.launcher.plan import NAME, parse_plan
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.render.shell import patterns
from support.filetrees import paths_below
from support.launchers import launcher_of
from support.processtrees import naming
from support.waiting import until

POLICY = """\
schema: 1
method: bwrap
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/secrets, $PROJECT/token]
environment:
  pass: [TERM, "LC_*", PATH, HOME]
  set: {CI: "it's 1"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a repository, a licence and secrets, in a home with a key."""
    project = tmp_path / "home" / "p"
    for name in (".git/hooks/x", ".git/config", ".git/HEAD", "secrets/key", "token", "LICENSE", "../.ssh/id"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content")
    return project


Launch = Callable[..., process.Result]


@pytest.fixture
def launch(project: Path, tmp_path: Path) -> Launch:
    """Runs a shell's script in the sandbox of a policy."""

    def run(script: str, *, policy: str = "", **environment: str) -> process.Result:
        argv = _command(project, tmp_path, policy)
        base = {"PATH": os.environ["PATH"], "HOME": str(project.parent)}
        return process.run(*argv, "sh", "-c", script, timeout=30, check=False, env={**base, **environment})

    return run


@pytest.fixture
def launch_words(project: Path, tmp_path: Path) -> Launch:
    """Runs a command in the sandbox."""

    def run(*words: str) -> process.Result:
        return process.run(*_command(project, tmp_path, ""), *words, timeout=30, check=False)

    return run


def _command(project: Path, tmp_path: Path, policy: str = "") -> list[str]:
    return [str(launcher_of(POLICY + policy, "bwrap", tmp_path / "out", project=project))]


pytestmark = pytest.mark.needs("bwrap")


def test_files(launch: Launch, project: Path) -> None:
    before = paths_below(project)
    result = launch(
        "cat LICENSE; echo new >file; cat file; (echo x >LICENSE); cat secrets/key; cat ../.ssh/id; "
        "mv .git moved; echo x >.git/hooks/x; echo x >.git/commondir; echo .; exit 7",
        LC_ALL="C",
    )
    assert result.status == 7
    assert result.stdout == b"contentnew\n.\n"
    for said in (
        "cannot create LICENSE: Read-only file system",
        "cat: secrets/key: No such file",
        "cat: ../.ssh/id: No such file",
        "mv: cannot move '.git' to 'moved': Device or resource busy",
        "cannot create .git/hooks/x: Read-only file system",
        "cannot create .git/commondir: Read-only file system",
    ):
        assert said in result.stderr
    assert paths_below(project) == before | {"file"}


def test_the_environment(launch: Launch) -> None:
    """A passed variable keeps every byte; a secret appears nowhere, not even in process 1's environment."""
    odd = "one\nLC_FAKE=two\n'\"$(id) \\"
    result = launch(
        "env -0; echo; cat /proc/1/environ; echo; cat /proc/*/environ | grep -c PLANTED",
        LC_ODD=odd,
        TOKEN="PLANTED",
        LD_PRELOAD="",
        SW_X="PLANTED",
    )
    variables, process_one, planted = result.stdout.split(b"\0\n")
    given = dict(entry.split(b"=", 1) for entry in variables.split(b"\0"))
    assert given.keys() == {b"LC_ODD", b"PATH", b"HOME", b"CI", b"PWD", b"SANDWRIGHT_INSIDE"}
    assert given[b"LC_ODD"] == odd.encode()
    assert given[b"CI"] == b"it's 1"
    assert {entry.partition(b"=")[0] for entry in process_one.split(b"\0")} <= given.keys()
    assert planted == b"0\n"


def test_no_network_but_its_own_loopback(launch: Launch) -> None:
    lines = "tail -n +3 /proc/net/dev | cut -d: -f1"
    assert launch(lines).text == "lo"
    before = _interfaces()
    shared = set(launch(lines, policy="network: {mode: host}\n").stdout.decode().split())
    after = _interfaces()  # other tests' engines make bridges, and remove them
    assert before & after <= shared <= before | after
    assert shared > {"lo"}


def _interfaces() -> set[str]:
    return {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}


def test_it_is_inside(launch: Launch) -> None:
    for kind in ("user", "pid", "ipc", "uts", "net", "mnt"):
        inside = launch(f"readlink /proc/self/ns/{kind}").text
        assert inside.startswith(kind)
        assert inside != str(Path(f"/proc/self/ns/{kind}").readlink())
    assert launch("hostname").text == "sandbox"
    assert launch("grep NoNewPrivs /proc/self/status; grep Seccomp: /proc/self/status").text.split() == [
        "NoNewPrivs:", "1", "Seccomp:", "2",
    ]  # fmt: skip


def test_unix_sockets_are_refused_and_pairs_are_not(launch: Launch) -> None:
    make = "import socket; socket.socketpair(); print(1); socket.socket(socket.AF_INET); print(2); "
    policy = "network: {own_sockets: false}\n"
    result = launch(f"python3 -c '{make}socket.socket(socket.AF_UNIX)'", policy=policy)
    assert result.text.split() == ["1", "2"]
    assert "Operation not permitted" in result.stderr


def test_a_pair_of_datagrams_does_not_reach_a_socket_of_the_host(launch: Launch, project: Path) -> None:
    """The pair is of SOCK_SEQPACKET, which ignores addresses. The control is the same on the host."""
    path = project / "datagrams"
    ends = "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_{}); "
    datagrams = shlex.quote(ends.format("DGRAM") + f"a.sendto(b'out', {str(path)!r}); print(b.recv(9))")
    streams = shlex.quote(ends.format("STREAM") + f"a.connect({str(path)!r})")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as witness:
        witness.bind(str(path))
        witness.settimeout(0.2)
        assert launch(f"python3 -c {datagrams}").text == "b'out'", "the other end has it"
        assert not launch(f"python3 -c {streams}")
        with pytest.raises(TimeoutError):
            witness.recv(10)
        process.run("sh", "-c", f"timeout 1 python3 -c {datagrams} || true", timeout=30)
        assert witness.recv(10) == b"out"


PAIRS = """
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(kind, protocol=0, at=None):
    ends = (ctypes.c_int * 2)(-1, -1)
    status = libc.socketpair(socket.AF_UNIX, kind, protocol, ends if at is None else at)
    return list(ends) if status == 0 else ctypes.get_errno()
DGRAM, CLOEXEC, NONBLOCK = socket.SOCK_DGRAM, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK
before = len(os.listdir("/proc/self/fd"))
wrong = [call(DGRAM, at=ctypes.c_void_p(1)), call(DGRAM, 5), call(socket.SOCK_RAW)]
assert len(os.listdir("/proc/self/fd")) == before
plain, other = call(DGRAM), call(DGRAM | CLOEXEC | NONBLOCK)
status = lambda one, two: (fcntl.fcntl(one, fcntl.F_GETFD), fcntl.fcntl(two, fcntl.F_GETFL) & os.O_NONBLOCK)
flags = [status(*each) for each in (plain, other)]
os.write(plain[0], b"ab"), os.write(plain[0], b"c")
print(wrong, flags == [(0, 0), (fcntl.FD_CLOEXEC, os.O_NONBLOCK)], os.read(plain[1], 9), os.read(plain[1], 9))
"""


def test_a_pair_of_datagrams_keeps_messages_and_flags(launch: Launch) -> None:
    """A wrong address gets EFAULT and no descriptors; a protocol or raw sockets are refused by the filter."""
    assert launch(f"python3 -c {shlex.quote(PAIRS)}").text == "[14, 1, 1] True b'ab' b'c'"


def test_a_filter_of_the_policy_that_denies_pairs_denies_those_of_datagrams(
    launch: Launch, project: Path
) -> None:
    """The supervisor makes no pair that the filter would deny to the program."""
    denied = {"names": ["socketpair"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13}
    (project / "pairs.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [denied]}))
    policy = f"process: {{seccomp: {project}/pairs.json}}\n"
    for kind in ("DGRAM", "SEQPACKET"):
        words = f"import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_{kind})"
        found = launch(f"python3 -c {shlex.quote(words)}", policy=policy)
        assert not found
        assert "PermissionError" in found.stderr


def test_no_user_namespace_inside(launch: Launch) -> None:
    result = launch("unshare --user true")
    assert not result
    assert "Operation not permitted" in result.stderr


def test_limits(launch: Launch, project: Path) -> None:
    result = launch("ulimit -H -n; ulimit -n; ulimit -n 512", policy="resources: {files: 100}\n")
    assert result.text.split() == ["100", "100"]
    assert not result
    assert launch("ulimit -c").text == "0"


def test_time_is_up(launch: Launch, project: Path) -> None:
    before, started = paths_below(project), time.monotonic()
    result = launch("echo begun; sleep 25", policy="resources: {time: 4s}\n")
    assert (result.status, result.text) == (124, "begun")
    assert "the time limit (resources.time) was reached" in result.stderr
    assert time.monotonic() - started < 15
    assert paths_below(project) == before
    assert launch("exit 3", policy="resources: {time: 20s}\n").status == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("whole_group", [False, True], ids=["one", "group"])
def test_killed(project: Path, tmp_path: Path, number: signal.Signals, *, whole_group: bool) -> None:
    """The sandbox ends with the launcher, whatever kills it, and the placeholders are removed."""
    before = paths_below(project)
    argv = _command(project, tmp_path, "resources: {time: 60s}\n")
    marker = f"{os.getpid()}{tmp_path.name}".encode()
    with process.start(*argv, "sh", "-c", f"echo up; sleep 55; : {marker.decode()}") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        assert (project / ".git" / "commondir").read_text() == ".\n"
        assert naming(marker)
        if whole_group:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        running.wait(timeout=30)
        assert running.returncode != 0
        until(lambda: not naming(marker))
        until(lambda: paths_below(project) == before)


def test_killed_while_it_starts(project: Path, tmp_path: Path) -> None:
    """At any moment: the sandbox's first process dies with its parent only after its set-up."""
    before = paths_below(project)
    argv = _command(project, tmp_path)
    marker = f"{os.getpid()}{tmp_path.name}".encode()
    for step in range(24):
        with process.start(*argv, "sh", "-c", f"sleep 595; : {marker.decode()}") as running:
            time.sleep(step * 0.0015)
            os.kill(running.pid, signal.SIGKILL)
            running.wait(timeout=30)
        until(lambda: not naming(marker))
    until(lambda: paths_below(project) == before)


def test_a_command_that_can_not_be_run(launch_words: Launch, project: Path) -> None:
    """The status is as in a shell; 1 is a command's own, never bubblewrap's."""
    (project / "text").write_text("x")
    for word, status in (
        ("no-such-program", 127),
        ("/no/such/program", 127),
        (f"{project}/text", 126),
        (str(project), 126),
        ("false", 1),
    ):
        result = launch_words(word)
        assert (result.status, result.stdout) == (status, b""), result.stderr
        lines = result.stderr.splitlines()
        told = [line for line in lines if "once more" not in line]  # a mount disappeared meanwhile
        assert bool(told) is (status != 1), told


@pytest.mark.parametrize(
    ("policy", "status"),
    [("extends: []\nfilesystem: {read: [/, $PROJECT]}", 0), ("filesystem: {write: [$PROJECT]}", 125)],
    ids=["nothing to cover", "covered"],
)
def test_no_place_for_the_files_of_a_run(policy: str, status: int, project: Path, tmp_path: Path) -> None:
    """A run directory is needed only if placeholders may have to be removed later."""
    text = f"schema: 1\nmethod: bwrap\n{policy}\n"
    launcher = launcher_of(text, "bwrap", tmp_path / "out", project=project)
    given = {"PATH": os.environ["PATH"], "HOME": str(project.parent), "XDG_RUNTIME_DIR": "/proc/self"}
    result = process.run(launcher, "true", timeout=30, check=False, env=given)
    assert result.status == status, result.stderr
    assert ("set XDG_RUNTIME_DIR" in result.stderr) is (status == 125)


@pytest.mark.parametrize(("failing", "status"), [(1, 7), (9, 125)], ids=["once", "always"])
def test_mounts_that_go_while_they_are_looked_at(
    project: Path, tmp_path: Path, failing: int, status: int
) -> None:
    """A container may end at the same time: no command has run, so the start is repeated, but not forever.

    A stand-in fails as bubblewrap 0.8 was seen to fail.
    """
    programs, count = tmp_path / "bin", tmp_path / "count"
    programs.mkdir()
    said = "bwrap: Can't bind mount /oldroot/ on /newroot/: Unable to apply mount flags: Invalid argument"
    (programs / "bwrap").write_text(
        f"#!/bin/sh\necho x >>{count}\nwhile read -r x; do n=$((n + 1)); done <{count}\n"
        f'[ "$n" -gt {failing} ] || {{ echo "{said}" >&2; exit 1; }}\nexec {process.which("bwrap")} "$@"\n'
    )
    (programs / "bwrap").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(project.parent)}
    words = ("sh", "-c", f"read x; echo $x; echo ran >>{project}/ran; exit 7")
    result = process.run(
        *_command(project, tmp_path), *words, stdin=b"in\n", env=environment, timeout=60, check=False
    )
    assert result.status == status
    assert result.text == ("in" if status == 7 else "")
    assert (project / "ran").exists() is (status == 7)
    assert "did not start (mounts changed on the host); retrying" in result.stderr


def test_a_sandbox_that_can_not_be_made(project: Path, tmp_path: Path) -> None:
    """A granted path has disappeared: the status is not that of a failed command."""
    argv = _command(project, tmp_path)
    (project / "LICENSE").unlink()
    result = process.run(*argv, "touch", f"{project}/ran", timeout=30, check=False)
    assert (result.status, result.stdout) == (125, b"")
    assert "LICENSE" in result.stderr
    assert not (project / "ran").exists()


def test_two_at_once_share_the_covers(project: Path, tmp_path: Path, launch: Launch) -> None:
    before = paths_below(project)
    argv = _command(project, tmp_path)
    with process.start(
        *argv, "sh", "-c", "echo up; read line; cat .git/commondir", stdin=subprocess.PIPE
    ) as one:
        assert one.stdout is not None
        assert one.stdin is not None
        assert one.stdout.readline() == b"up\n"
        assert launch("cat .git/commondir").text == "."
        assert (project / ".git" / "commondir").read_text() == ".\n"
        one.stdin.write(b"\n")
        one.stdin.close()
        assert one.stdout.read() == b".\n"
        assert one.wait(timeout=10) == 0
    until(lambda: paths_below(project) == before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda out, _: (out / "args").write_bytes(b"--ro-bind\0/\0/\0"),
            "args was changed after it was rendered",
        ),
        (lambda out, _: (out / "seccomp.bpf").unlink(), "/seccomp.bpf"),
        (lambda _, project: (project / ".envrc").touch(), "/p/.envrc appeared after this was rendered"),
        (
            lambda _, project: (
                (project / "LICENSE").unlink(),
                (project / "LICENSE").symlink_to("/etc/passwd"),
            ),
            "/p/LICENSE became a symbolic link",
        ),
        (lambda _, project: (project / ".git/commondir").symlink_to("x"), "/.git/commondir appeared after"),
        (lambda _, project: shutil.rmtree(project / "secrets"), "/p/secrets was removed after"),
        (lambda _, project: (project / "token").unlink(), "/p/token was removed after"),
        (lambda _, project: (project / "LICENSE").unlink(), "/p/LICENSE was removed after"),
        (
            lambda _, project: (
                (project / "secrets").rename(project / "moved"),
                (project / "secrets").write_text("x"),
            ),
            "/p/secrets changed its type after",
        ),
        (
            lambda _, project: (project / "token").rename(project / "moved") and (project / "token").mkdir(),
            "/p/token changed its type after",
        ),
        (lambda _, project: shutil.rmtree(project / ".git"), "/p/.git was removed after"),
    ],
    ids=[
        *("args", "filter", "appeared", "link", "cover", "directory that is hidden goes"),
        *("file that is hidden goes", "what is read-only goes", "file for a directory"),
        *("directory for a file", "what holds covers goes"),
    ],
)
def test_nothing_runs_when_something_changed(
    project: Path, tmp_path: Path, change: Callable[[Path, Path], object], said: str
) -> None:
    argv = _command(project, tmp_path)
    change(tmp_path / "out", project)
    before = paths_below(project)
    result = process.run(*argv, "touch", f"{project}/ran", timeout=30, check=False)
    assert result.status == 125
    assert said in result.stderr
    until(lambda: paths_below(project) == before)  # nothing was made in place of the missing path


def test_nothing_runs_without_bwrap(project: Path, tmp_path: Path) -> None:
    argv = _command(project, tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sha256sum", "awk", "env", "touch"):
        (programs / name).symlink_to(process.which(name))
    result = process.run(
        *argv, "touch", f"{project}/ran", env={"PATH": str(programs)}, timeout=30, check=False
    )
    assert (result.status, result.stderr) == (125, "sandbox: bwrap (bubblewrap) is not installed\n")
    assert not (project / "ran").exists()


def test_a_command_is_needed(project: Path, tmp_path: Path) -> None:
    result = process.run(*_command(project, tmp_path), timeout=30, check=False)
    assert (result.status, result.stderr) == (125, "sandbox: give a command to run\n")


def test_the_standard_input_is_the_command_s(project: Path, tmp_path: Path) -> None:
    argv = _command(project, tmp_path)
    assert process.run(*argv, "cat", stdin=b"through", timeout=30).stdout == b"through"


def test_standard_input_and_output_that_are_closed(project: Path, tmp_path: Path) -> None:
    before = paths_below(project)
    argv = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *_command(project, tmp_path)]
    script = f"cat; echo out; echo error >&2; ls -l /proc/self/fd >{project}/seen; exit 7"
    assert process.run(*argv, "sh", "-c", script, timeout=60, check=False).status == 7
    opened = (project / "seen").read_text()
    (project / "seen").unlink()
    nothing = "pipe:" if os.geteuid() == 0 else "/dev/null\n"
    assert f" 0 -> {nothing}" in opened
    assert f" 2 -> {nothing}" in opened
    assert str(tmp_path / "out") not in opened
    assert paths_below(project) == before


@pytest.fixture
def open_project() -> Iterator[Path]:
    """A project of a user other than root, in a directory that this user can enter."""
    with tempfile.TemporaryDirectory(prefix="sandwright-") as folder:
        project = Path(folder) / "home" / "p"
        for name in (".git/hooks", "secrets", "LICENSE"):
            (project / name).mkdir(parents=True)
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755)
            os.chown(path, 65534, 65534)
        yield project


@pytest.mark.needs("setpriv")
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_processes_are_counted_for_users(open_project: Path) -> None:
    """The kernel counts them for all users but root; for root, a cgroup does."""
    argv = _command(open_project, open_project.parents[1], "resources: {pids: 20}\n")
    many = ["sh", "-c", "for i in $(seq 40); do sleep 3 & done; echo all"]
    env = {"PATH": os.environ["PATH"]}
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh")
    refused = process.run(*hidden, *argv, *many, env=env, timeout=30, check=False)
    assert (refused.status, refused.text) == (125, "")
    assert "RLIMIT_NPROC does not apply to root" in refused.stderr
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    counted = process.run(*user, *argv, *many, env=env, timeout=30, check=False)
    assert "fork" in counted.stderr
    assert counted.text == ""
    few = process.run(*user, *argv, "sh", "-c", "sleep 0 & wait; echo all", env=env, timeout=30, check=False)
    assert (few.status, few.text) == (0, "all")


def test_noop_says_so(tmp_path: Path) -> None:
    text = 'schema: 1\nmethod: noop\nreason: a container around it\nenvironment: {set: {CI: "it\'s 1"}}\n'
    launcher = launcher_of(text, "noop", tmp_path / "out", project=tmp_path, environ={"HOME": "/home/nobody"})
    result = process.run(launcher, "sh", "-c", 'echo "$CI"; exit 9', timeout=30, check=False)
    assert (result.status, result.text) == (9, "it's 1")
    assert result.stderr == "sandbox: enforcement=none: a container around it\n"


@pytest.mark.parametrize("name", ["a b", "A)", "*", "A*B", "", "1A", "A|B", "$(id)"])
def test_patterns_are_names(name: str) -> None:
    assert patterns(["LC_*", "A1"]) == ["LC_*", "A1"]
    with pytest.raises(RenderError, match="no name of a variable"):
        patterns([name])


def test_more_than_bubblewrap_takes(tmp_path: Path) -> None:
    """It reads at most 9000 arguments; the launcher reports that before it tries."""
    paths = [f"/d{number}" for number in range(3000)]
    entries = dict.fromkeys(("/", "/home/u/p", *paths), HostEntry("directory"))
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)
    for count, said in ((2900, None), (3000, "bubblewrap takes 8900 arguments, and this policy needs 90")):
        text = f"extends: []\nfilesystem: {{read: [{', '.join(paths[:count])}]}}\n"
        artifacts = render(Policy.from_text(text).resolve(facts), "bwrap").artifacts
        refused = parse_plan(next(each for each in artifacts if each.name == NAME).content).refused
        assert (refused or "").startswith(said or "")
        assert (refused is None) is (said is None)
