"""Landlock: the rules that it enforces, the calls that the filter denies, and no leftovers of a run.

Tests of launcher/source/grants.c.
Tests of launcher/source/landlock.c.
Tests of launcher/source/landlock_rules.c.
Tests of methods/landlock/render.py.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sandwright.errors import RenderError
from sandwright.methods import registry
from sandwright.methods.landlock.backend import Landlock
from sandwright.methods.landlock.grants import grants
from sandwright.runtime.probe import own_probe
from sandwright.runtime.probe.protocol import attempt
from sandwright.seccomp.closing import closing_filter
from sandwright.verify.command import methods_to_prove
from sandwright.verify.sandbox import RenderedSandbox, materialize, probe_environment
from support import interpreters
from support.enginehosts import engine_host
from support.processtrees import children, naming
from support.proving import red, resolver
from support.waiting import eventually
from support.weakening import ALLOW_ALL, launcher, replaced

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")

WAIT = 90
LACKING = ("filesystem.protect", "filesystem.attributes", "process.kernel")
"""The gaps that every policy for landlock has to accept."""
ACCEPTED = [f"{{feature: {name}, method: landlock, reason: a test}}" for name in LACKING]
POLICY = f"""\
schema: 1
method: landlock
extends: []
filesystem: {{read: [/, SEEN], write: [$PROJECT], deny: [SEEN/hidden]}}
environment: {{pass: [PATH]}}
accept_gaps: [{", ".join(ACCEPTED)}]
"""
"""`SEEN` stands for a directory beside the project."""
PLAIN = POLICY.replace(", SEEN", "").replace(", deny: [SEEN/hidden]", "")

WITHOUT = "network: {own_sockets: false}\n"

Made = Callable[..., RenderedSandbox]


@pytest.fixture
def sandbox(tmp_path: Path) -> Made:
    """Renders a policy for a project beside the directory `seen`, whose part `hidden` is denied."""

    def made(text: str = POLICY) -> RenderedSandbox:
        for directory in ("project", "seen/hidden", "state"):
            (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / "seen/hidden/word").write_text("hidden")
        (tmp_path / "seen/word").write_text("seen")
        program = tmp_path / "project/probe"
        program.write_bytes(own_probe().read_bytes())
        program.chmod(0o755)
        policy = resolver(text.replace("SEEN", str(tmp_path / "seen")), tmp_path / "project")(())
        launcher = materialize(
            registry.render(policy, "landlock").artifacts, tmp_path / f"out-{uuid.uuid4().hex}"
        )
        return RenderedSandbox("landlock", launcher, program, probe_environment(tmp_path / "state"))

    return made


def _names(sandbox: RenderedSandbox, tried: Sequence[tuple[object, ...]]) -> list[str]:
    """The answers to attempts, each an operation and its arguments, all in one start."""
    batch = sandbox.attempt([attempt(str(words[0]), *words[1:]) for words in tried])  # type: ignore[arg-type]
    assert batch.status == 0, batch.stderr
    return [each.name for each in batch.answers]


def _shell(sandbox: RenderedSandbox, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sandbox.launcher, "/bin/sh", "-c", script],
        capture_output=True, text=True, timeout=WAIT, check=False, env=dict(sandbox.environment),
    )  # fmt: skip


# Calls that the filter closes.

_ARM = os.uname().machine == "aarch64"
NUMBERS = {
    "chown": (260, 54), "setxattr": (188, 5), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "prlimit64": (302, 261), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setaffinity": (203, 122), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "keyctl": (250, 219), "process_vm_readv": (310, 270),
    "io_uring_setup": (425, 425), "clone3": (435, 435), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "fanotify_init": (300, 262), "ioctl": (16, 29), "socket": (41, 198),
    "listen": (50, 201), "sendto": (44, 206), "sendmsg": (46, 211), "setsockopt": (54, 208),
    "socketpair": (53, 199),
}  # fmt: skip
"""By name: the numbers on amd64 and arm64 (`chown` is fchownat)."""

STREAM, DGRAM, RAW, TCP, MPTCP, FAST_OPEN = 1, 2, 3, 6, 262, 0x20000000

CLOSED: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("chown", (-100, "page", -1, -1, 0), "EPERM"),
    ("setxattr", ("page", "page", "page", 0, 0), "EOPNOTSUPP"),
    ("ioctl", (0, 0x40086602, "page"), "EPERM"),
    ("ioctl", (0, 0x401C5820, "page"), "EPERM"),
    ("ioctl", (0, 0x5412, "page"), "EPERM"),
    ("shmget", (1, 1, 0), "EPERM"),
    ("msgget", (1, 0), "EPERM"),
    ("semget", (1, 0, 0), "EPERM"),
    ("mq_open", ("page", 0, 0, 0), "EPERM"),
    ("prlimit64", (1, 7, 0, 0), "EPERM"),
    ("setpriority", (0, 1, 19), "EPERM"),
    ("setpriority", (1, 0, 19), "EPERM"),
    ("setpriority", (2, 0, 19), "EPERM"),
    ("ioprio_set", (1, 1, 0), "EPERM"),
    ("ioprio_set", (3, 0, 0), "EPERM"),
    ("sched_setaffinity", (1, 8, "page"), "EPERM"),
    ("kcmp", (1, 1, 0, 0, 0), "EPERM"),
    ("pidfd_getfd", (0, 0, 0), "EPERM"),
    ("process_vm_readv", (1, 0, 0, 0, 0, 0), "EPERM"),
    ("keyctl", (0, -3, 0), "EPERM"),
    ("io_uring_setup", (0, 0), "EPERM"),
    ("clone3", (0, 0), "ENOSYS"),
    ("unshare", (0x10000000,), "EPERM"),
    ("setns", (-1, 0), "EPERM"),
    ("mount", ("page", 0, 0, 0, 0), "EPERM"),
    ("fanotify_init", (0x10000000, 0), "EPERM"),
    ("socket", (1, STREAM, 0), "EPERM"),
    ("socketpair", (1, DGRAM, 0, "page"), "ok"),  # of SOCK_SEQPACKET
    ("socket", (2, DGRAM, 0), "EPERM"),
    ("socket", (10, DGRAM, 0), "EPERM"),
    ("socket", (2, RAW, 1), "EPERM"),
    ("socket", (2, STREAM, MPTCP), "EPERM"),
    ("socket", (10, STREAM, MPTCP), "EPERM"),
    ("socket", (2, STREAM, 132), "EPERM"),
    ("socket", (40, STREAM, 0), "EPERM"),
    ("listen", (-1, 1), "EPERM"),
    ("sendto", (-1, 0, 0, FAST_OPEN, "page", 16), "EPERM"),
    ("sendmsg", (-1, "page", FAST_OPEN), "EPERM"),
    ("setsockopt", (-1, TCP, 30, "page", 4), "EPERM"),
    ("setsockopt", (-1, TCP, 23, "page", 4), "EPERM"),
)
"""Calls that Landlock does not restrict, and the filter's answers; without it, each would get further."""

OPEN: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("setpriority", (0, 0, 19), "ok"),
    ("prlimit64", (0, 7, 0, 0), "ok"),
    ("ioprio_set", (1, 0, 0x4007), "ok"),
    ("socketpair", (1, STREAM, 0, "page"), "ok"),
    ("socket", (2, STREAM, 0), "ok"),
    ("socket", (10, STREAM, TCP), "ok"),
    ("sendto", (-1, 0, 0, 0, 0, 0), "EBADF"),
    ("sendmsg", (-1, "page", 0), "EBADF"),
    ("setsockopt", (-1, TCP, 1, "page", 4), "EBADF"),
    ("ioctl", (-1, 0x5413, "page"), "EBADF"),
    ("unshare", (0x400,), "ok"),
)
"""Similar calls, which pass both filters."""


def test_what_landlock_does_not_hold_is_closed(sandbox: Made) -> None:
    rows = [*CLOSED, *(row for row in OPEN if row[0] != "unshare")]
    tried = [("syscall", NUMBERS[name][_ARM], *words) for name, words, _ in rows]
    found = _names(sandbox(f"{POLICY}{WITHOUT}"), tried)
    assert [(*row[:2], answer) for row, answer in zip(rows, found, strict=True)] == rows


def test_what_the_launcher_makes_is_open_to_nothing_else(sandbox: Made) -> None:
    """The launcher binds and connects these sockets itself: streams and packets by path."""
    changed: dict[tuple[str, tuple[object, ...]], str]
    changed = {("socket", (1, STREAM, 0)): "ok", ("listen", (-1, 1)): "EBADF"}
    changed["socketpair", (1, DGRAM, 0, "page")] = "EPERM"
    rows = [(name, words, changed.get((name, words), answer)) for name, words, answer in CLOSED]
    rows += [
        ("socket", (1, 5, 0), "ok"),
        ("socket", (1, DGRAM, 0), "EPERM"),
        ("socket", (1, RAW, 0), "EPERM"),
        ("socket", (16, RAW, 0), "ok"),
    ]
    tried = [("syscall", NUMBERS[name][_ARM], *words) for name, words, _ in rows]
    found = _names(sandbox(), tried)
    assert [(*row[:2], answer) for row, answer in zip(rows, found, strict=True)] == rows


def test_a_profile_of_the_policys_own_opens_nothing_of_it(sandbox: Made, tmp_path: Path) -> None:
    """A filter file that allows all calls is used as it is, and a second filter closes Landlock's gaps."""
    (tmp_path / "all.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    rows = [*CLOSED, *OPEN]
    tried = [("syscall", NUMBERS[name][_ARM], *words) for name, words, _ in rows]
    found = _names(sandbox(f"{POLICY}{WITHOUT}process: {{seccomp: {tmp_path}/all.json}}\n"), tried)
    assert [(*row[:2], answer) for row, answer in zip(rows, found, strict=True)] == rows


def test_both_architectures_have_it() -> None:
    assert closing_filter("amd64", network=False, listens=False) != closing_filter(
        "amd64", network=True, listens=True
    )
    assert len(closing_filter("arm64", network=False, listens=False)) % 8 == 0


def test_a_port_that_is_exposed_can_be_bound_and_no_other(sandbox: Made) -> None:
    accepted = "accept_gaps: [{feature: network.expose, method: landlock, reason: a test}, {"
    text = POLICY.replace("accept_gaps: [{", accepted, 1) + "network: {expose: [38127]}\n"
    assert _names(sandbox(text), [("bind", "127.0.0.1", 38127), ("bind", "127.0.0.1", 38128)]) == [
        "ok",
        "EACCES",
    ]
    with pytest.raises(RenderError, match=r"landlock cannot enforce network\.expose"):
        sandbox(POLICY + "network: {expose: [38127]}\n")


# Files.


def test_what_appears_at_a_denied_path_stays_hidden(sandbox: Made, tmp_path: Path) -> None:
    """Missing denied names; a directory with a hidden part; files that are made in it later."""
    text = POLICY.replace("SEEN/hidden]", "SEEN/hidden, SEEN/later, SEEN/deep/er/later]")
    made = sandbox(text)
    script = (
        "cat {seen}/word; echo; touch {project}/go; until test -e {project}/done; do sleep 0.05; done;"
        "cat {seen}/later/word {seen}/deep/er/later {seen}/new {seen}/hidden/word; ls {seen}"
    ).format(seen=tmp_path / "seen", project=tmp_path / "project")
    with subprocess.Popen(
        [made.launcher, "/bin/sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(made.environment),
    ) as running:  # fmt: skip
        assert eventually((tmp_path / "project/go").exists)
        (tmp_path / "seen/later").mkdir()
        (tmp_path / "seen/later/word").write_text("secret")
        (tmp_path / "seen/deep/er").mkdir(parents=True)
        (tmp_path / "seen/deep/er/later").write_text("secret")
        (tmp_path / "seen/new").write_text("secret")
        (tmp_path / "project/done").touch()
        said, errors = running.communicate(timeout=WAIT)
    assert said == "seen\n"
    assert errors.count("Permission denied") == 5


def test_a_path_that_became_a_link_starts_nothing(sandbox: Made, tmp_path: Path) -> None:
    made = sandbox()
    assert _shell(made, "exit 7").returncode == 7
    (tmp_path / "seen/hidden").rename(tmp_path / "elsewhere")
    (tmp_path / "seen/hidden").symlink_to(tmp_path / "elsewhere")
    ended = _shell(made, "exit 7")
    assert (ended.returncode, "hidden became a symbolic link" in ended.stderr) == (125, True)


def test_ways_past_names(sandbox: Made, tmp_path: Path) -> None:
    """Other names of a hidden file: by the sandbox's own processes, and by the user's process outside."""
    made, hidden, word = sandbox(), tmp_path / "seen/hidden", uuid.uuid4().hex
    command = [interpreters.INSIDE, "-c", "import time; time.sleep(600)", word]
    with subprocess.Popen(command, cwd=hidden, env={"SECRET": word}) as outside:
        try:
            proc = f"/proc/{outside.pid}"
            assert eventually(lambda: word.encode() in Path(f"{proc}/environ").read_bytes()), "the control"
            assert Path(f"{proc}/cwd/word").read_text() == "hidden", "the control"
            tried = [
                ("read", f"/proc/self/root{hidden}/word"),
                ("read", "/proc/self/cwd/../seen/hidden/word"),
                ("read", f"{proc}/root{hidden}/word"),
                ("read", f"{proc}/cwd/word"),
                ("read", f"{proc}/environ"),
                ("read", f"{proc}/mem"),
                ("readlink", f"{proc}/fd/0"),
                ("readlink", f"{proc}/cwd"),
                ("kill", outside.pid, 0),
                ("kill", outside.pid, signal.SIGKILL),
                ("kill", os.getpid(), 0),
                ("link", hidden / "word", tmp_path / "project/linked"),
                ("rename", tmp_path / "seen/word", tmp_path / "project/moved"),
                ("exchange", tmp_path / "seen/word", tmp_path / "project/probe"),
                ("create", "/dev/shm/sandwright-test", "x"),
                ("list", "/dev/shm"),
                ("list", "/dev/pts"),
                ("write", "/dev/ptmx", "x"),
            ]
            found = _names(made, tried)
            denied = {"EACCES", "EPERM", "EXDEV", "ENOENT"}
            assert {
                f"{words}": name for words, name in zip(tried, found, strict=True) if name not in denied
            } == {}
            assert outside.poll() is None
        finally:
            outside.kill()


def test_links_and_moves_between_writable_directories_work(sandbox: Made, tmp_path: Path) -> None:
    """Any domain refuses them unless a rule grants them, including the outer one."""
    made, project = sandbox(), tmp_path / "project"
    tried = [
        ("mkdir", project / "one"),
        ("mkdir", project / "two"),
        ("create", project / "one/file", "x"),
        ("link", project / "one/file", project / "two/linked"),
        ("rename", project / "one/file", project / "two/moved"),
        ("exchange", project / "two/linked", project / "probe"),
        ("rename", project / "two", project / "one/two"),
    ]
    assert _names(made, tried) == ["ok"] * len(tried)


def test_the_temporary_directory_is_the_runs_own(sandbox: Made, tmp_path: Path) -> None:
    made = sandbox()
    ended = _shell(
        made, "echo $TMPDIR; echo x >$TMPDIR/made && cat $TMPDIR/made; ls /tmp; stat -c %a $TMPDIR"
    )
    place, made_there, mode = ended.stdout.splitlines()
    assert (made_there, mode, ended.returncode) == ("x", "700", 0)
    assert "Permission denied" in ended.stderr
    assert not Path(place).exists()
    assert not list((tmp_path / "state").glob("sandwright/runs/*"))


def test_a_variable_in_the_temporary_directory_names_the_runs_own(sandbox: Made) -> None:
    """The preset `build` uses it, because /tmp itself can't be used."""
    values = "{BELOW: $TMP/cache/x, ITSELF: $TMP, BESIDE: /tmpfs, AMONG: 'a:/tmp/x', LATER: x=/tmp/x}"
    ended = _shell(
        sandbox(POLICY.replace("{pass: [PATH]}", f"{{pass: [PATH], set: {values}}}")),
        'mkdir -p "$BELOW" && echo "${BELOW#$TMPDIR} ${ITSELF#$TMPDIR} $BESIDE $AMONG $LATER"',
    )
    assert ended.stdout == "/cache/x  /tmpfs a:/tmp/x x=/tmp/x\n", ended.stderr


# How runs end.


ESCAPING = """\
import os, sys, time
mark = sys.argv[1]
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setpgid(0, 0)
            os.execv(interpreters.INSIDE, [interpreters.INSIDE, "-c", "import time; time.sleep(600)", mark])
        os._exit(0)
if os.fork() == 0:  # a chain, each link of which has ended when somebody looks
    os.setsid()
    while True:
        if os.fork() != 0:
            os._exit(0)
open(sys.argv[2], "w").close()
time.sleep(float(sys.argv[3]))
"""


def _escaping(sandbox: RenderedSandbox, mark: str, ready: Path, seconds: float) -> list[str]:
    words = [interpreters.INSIDE, "-c", ESCAPING, mark, str(ready), str(seconds)]
    return [str(sandbox.launcher), *words]


@pytest.mark.parametrize("how", ["exit", "term", "launcher", "monitor", "both"])
def test_nothing_is_left(sandbox: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The command makes sessions, process groups and orphans, and a process that forks again and again."""
    made, mark, ready = sandbox(), f"mark-{uuid.uuid4().hex}", tmp_path / "project/ready"
    argv = _escaping(made, mark, ready, 0.2 if how == "exit" else 600)
    with subprocess.Popen(argv, env=dict(made.environment), stderr=subprocess.DEVNULL) as running:
        assert eventually(ready.exists)
        monitor = next((each for each in children(running.pid) if children(each)), 0)
        if how == "both":
            os.kill(running.pid, signal.SIGSTOP)  # so that it doesn't see the monitor's end
        for pid, number in {
            "exit": [],
            "term": [(running.pid, signal.SIGTERM)],
            "launcher": [(running.pid, signal.SIGKILL)],
            "monitor": [(monitor, signal.SIGKILL)],
            "both": [(monitor, signal.SIGKILL), (running.pid, signal.SIGKILL)],
        }[how]:
            os.kill(pid, number)
        running.wait(WAIT)
    assert eventually(lambda: not naming(mark)), naming(mark)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "state"))
    backend = Landlock()
    count = 2 if how == "both" else 0
    assert eventually(lambda: len([*backend.leftovers(())]) == count), [*backend.leftovers(())]
    for each in backend.leftovers(()):
        backend.remove(each)
    assert not list(backend.leftovers(()))


def test_the_command_reaches_nobody_outside_of_its_domain(sandbox: Made) -> None:
    """`kill(-1)` from inside ends processes of the run only, and not its monitor or supervisor."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        made = sandbox()
        ended = _shell(made, "sleep 600 & kill -9 -1; exit 3")
        assert ended.returncode == 3, ended.stderr
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_modes_change_where_nothing_can_be_written_but_for_the_set_user_id_bit(
    sandbox: Made, tmp_path: Path
) -> None:
    """The gap `filesystem.attributes`, which docs/threats.md states: also for denied and reserved paths."""
    made = sandbox()
    hidden, program = tmp_path / "seen/hidden", tmp_path / "seen/program"
    program.write_text("#!/bin/sh\n")
    changes = f"chmod 777 {hidden} && chmod 2755 {program} && chmod 4755 {program}"
    ended = _shell(made, f"cat {hidden}/word; {changes}")
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    assert [stat.S_IMODE(each.stat().st_mode) for each in (hidden, program)] == [0o777, 0o2755]


# Hosts without namespaces.


@pytest.mark.needs("docker", "busybox")
@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_it_starts_in_an_ordinary_container(sandbox: Made, tmp_path: Path, user: str) -> None:
    """Under Docker's own profile and masks, methods with namespaces don't start."""
    made, project = sandbox(), tmp_path / "project"
    subprocess.run(["chmod", "-R", "a+rwX", tmp_path], check=True, timeout=WAIT)
    script = (
        f"cat ../seen/word; cat ../seen/hidden/word; kill -0 1; unshare -U true; echo x >/etc/made;"
        f"echo ' written' >made-{user[0]}; cat made-{user[0]}"
    )
    with engine_host("docker") as host:
        ended = host.run(
            *("run", "--rm", "--network=none", f"--user={user}", "--env=HOME=/tmp", f"--workdir={project}"),
            *(f"--volume={tmp_path}:{tmp_path}", f"--entrypoint={made.launcher}", host.image),
            *("/bin/sh", "-c", script),
            check=False,
        )
    assert (ended.status, ended.text) == (0, "seen written"), ended.stderr
    assert ended.stderr.count("Permission denied") + ended.stderr.count("not permitted") == 4, ended.stderr


# The policy's rules, and the kernel's.


def test_each_lack_is_accepted_by_name(sandbox: Made) -> None:
    for feature in ("filesystem.protect", "filesystem.attributes", "process.kernel"):
        text = POLICY.replace(f"{{feature: {feature}, method: landlock, reason: a test}}", "").replace(
            "[,", "["
        )
        with pytest.raises(RenderError, match=f"landlock cannot enforce {feature}"):
            sandbox(text.replace(", , ", ", ").replace(", ]", "]"))


def test_nothing_is_said_below_what_may_be_written(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "secrets").mkdir(parents=True)
    resolve = resolver(
        PLAIN.replace("write: [$PROJECT]", "write: [$PROJECT], deny: [$PROJECT/secrets]"), project
    )
    found = grants(resolve(()))
    assert found[str(project)] == "write"
    assert not [path for path in found if path.startswith(f"{project}/")]
    with pytest.raises(RenderError, match=r"landlock cannot enforce filesystem\.deny-inside"):
        registry.render(resolve(()), "landlock")


def test_without_landlock_nothing_runs(sandbox: Made) -> None:
    """A filter answers like kernels without Landlock; the launcher inherits it."""
    made = sandbox()
    for error, said in ((38, "no Landlock"), (95, "Landlock is off")):
        argv = [sys.executable, "-c", REFUSING, str(error), str(made.launcher), "/bin/true"]
        ended = subprocess.run(
            argv, capture_output=True, text=True, timeout=WAIT, check=False, env=dict(made.environment)
        )
        assert (ended.returncode, said in ended.stderr) == (125, True), ended.stderr


REFUSING = """\
import ctypes, os, struct, sys
error, argv = int(sys.argv[1]), sys.argv[2:]
code = b"".join(struct.pack("<HBBI", *each) for each in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000),
))
held = ctypes.create_string_buffer(code, len(code))
program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0, ctypes.get_errno()
os.execv(argv[0], argv)
"""


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        (1, "moves between directories"),
        (2, "truncation"),
        (3, "TCP"),
        (4, "ioctl(2) on devices"),
        (5, "signals and abstract sockets"),
    ],
)
def test_an_older_version_is_refused_with_what_it_lacks(sandbox: Made, version: int, lacks: str) -> None:
    """A supervisor of the launcher answers the request for the version (seccomp_unotify(2))."""
    made = sandbox()
    argv = [sys.executable, "-c", ANSWERING, str(version), str(made.launcher), "/bin/true"]
    ended = subprocess.run(
        argv, capture_output=True, text=True, timeout=WAIT, check=False, env=dict(made.environment)
    )
    assert ended.returncode == 125, ended.stderr
    said = f"this kernel's Landlock has version {version}, and 6 is needed"
    assert said in ended.stderr
    assert lacks in ended.stderr


ANSWERING = """\
import array, ctypes, fcntl, os, socket, struct, sys
version, argv = int(sys.argv[1]), sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    code = b"".join(struct.pack("<HBBI", *each) for each in (
        (0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x7FC00000), (0x06, 0, 0, 0x7FFF0000),
    ))
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(held))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    number = 277 if os.uname().machine == "aarch64" else 317
    listener = libc.syscall(number, 1, 8, ctypes.create_string_buffer(program))
    assert listener >= 0, ctypes.get_errno()
    theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
    os.execv(argv[0], argv)
_, rights, _, _ = ours.recvmsg(1, socket.CMSG_LEN(4))
listener = struct.unpack("i", rights[0][2])[0]
asked = bytearray(80)
fcntl.ioctl(listener, 0xC0502100, asked)
answer = struct.pack("<QqiI", *struct.unpack_from("<Q", asked), version, 0, 0)
fcntl.ioctl(listener, 0xC0182101, bytearray(answer))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_it_comes_second_and_is_not_weaker(tmp_path: Path) -> None:
    """A feature that bubblewrap has and landlock lacks is refused, whichever of the two starts here."""
    text = PLAIN.replace("method: landlock\n", "methods: [bwrap, landlock]\n", 1)
    policy = resolver(text, tmp_path / "project")(())
    assert policy.methods == ("bwrap", "landlock")
    registry.render(policy, "landlock")
    refused = resolver(text.split("accept_gaps:", maxsplit=1)[0], tmp_path / "project")(())
    registry.render(refused, "bwrap")
    with pytest.raises(RenderError, match="landlock cannot enforce"):
        registry.render(refused, "landlock")


# Verification.


def test_verify_needs_of_several_methods_the_one_that_a_run_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without bubblewrap that is landlock; a policy that names one method needs that method."""
    text = PLAIN.replace("method: landlock\n", "methods: [bwrap, landlock]\n", 1)
    policy = resolver(text, tmp_path / "project")(())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SANDWRIGHT_CACHE", str(tmp_path / "cache"))
    assert methods_to_prove(policy, policy.methods) == ("landlock",)
    alone = resolver(PLAIN.replace("method: landlock", "method: bwrap"), tmp_path / "project")(())
    assert methods_to_prove(alone, alone.methods) == ("bwrap",)
    missing = resolver(text.replace("landlock]", "seatbelt]", 1), tmp_path / "project")(())
    assert methods_to_prove(missing, missing.methods) == ("bwrap", "seatbelt")


def test_it_is_proved(tmp_path: Path) -> None:
    found = red("landlock", PLAIN, tmp_path / "project", None, runs=True)
    undecided = {name: why for name, why in found.items() if "cannot" not in why}
    assert undecided == {}


WEAKENED: dict[str, tuple[str, str, Callable[[bytes], bytes], set[str]]] = {
    "what is hidden": (
        PLAIN,
        "rules",
        lambda content: content.replace(b"hide\0", b"read\0"),
        {"files/denied-directory", "files/denied-file", "links/symbolic-to-denied", "links/through-proc"},
    ),
    "what may only be read": (
        PLAIN,
        "rules",
        lambda content: content.replace(b"read\0", b"write\0"),
        {"files/read-only", "links/symbolic-to-read-only"},
    ),
    "the filter beside": (PLAIN, "closed.bpf", lambda _: ALLOW_ALL, {"network/host-loopback"}),
    "ports": (
        PLAIN + WITHOUT,
        "launch.plan",
        lambda content: content.replace(b"landlock.ports_closed\x000\0", b""),
        {"network/host-loopback", "network/outside"},
    ),
}


@pytest.mark.parametrize("what", WEAKENED)
def test_probes_see_what_is_taken_away(tmp_path: Path, what: str) -> None:
    text, name, change, expected = WEAKENED[what]
    found = red(
        "landlock", text, tmp_path / "project", lambda _, made: replaced(made, name, change), runs=False
    )
    assert expected <= {probe for probe, why in found.items() if "cannot" not in why}


JUDGED: dict[str, tuple[str, str, str, set[str]]] = {
    "ports": (
        "socket_broker.c",
        "    if (!strv_has_number(broker->connects, port))\n        return EACCES;\n",
        "",
        {"network/host-loopback"},
    ),
    "sockets": (
        "broker.c",
        "if (is_listed(broker, found, writable) ||",
        "if (true ||",
        {"network/unix-socket", "network/later-socket", "network/project-socket"},
    ),
}


@pytest.mark.parametrize("what", JUDGED)
def test_probes_see_what_the_supervisor_lets_through(tmp_path: Path, what: str) -> None:
    source, old, new, expected = JUDGED[what]
    found = red("landlock", PLAIN, tmp_path / "project", launcher(source, old, new), runs=False)
    assert expected == {probe for probe, why in found.items() if "cannot" not in why}


def test_what_is_hidden_is_so_by_another_name_beside_it(sandbox: Made, tmp_path: Path) -> None:
    """A file system that ignores case has a second name for it; a hard link is another one."""
    made = sandbox(POLICY.replace("SEEN/hidden", "SEEN/key"))
    seen = tmp_path / "seen"
    (seen / "key").write_text("hidden")
    (seen / "KEY").hardlink_to(seen / "key")
    names = _names(made, [("read", seen / "key"), ("read", seen / "KEY"), ("read", seen / "word")])
    assert names == ["EACCES", "EACCES", "ok"]
