"""The guest kernel of vm: the data on its line, its restrictions, and those of its process.

Tests of launcher/guest/source/guestbeside.c.
Tests of launcher/guest/source/guestcommand.c.
Tests of launcher/guest/source/guestsystem.c.
Tests of launcher/machine/source/main.c.
Tests of launcher/source/vm.c.
Tests of launcher/source/vm_handshake.c.
Tests of launcher/source/vm_kernel.c.
Tests of launcher/source/vm_relay.c.
Tests of methods/vm/render.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.errors import RenderError
from sandwright.launcher import LAUNCH_INIT
from sandwright.launcher.plan import LaunchPlan, MachinePlan
from sandwright.methods import registry
from sandwright.methods.vm.support import DECLARATION
from sandwright.policy.uses import check_expressible
from sandwright.render.artifact import Artifact
from sandwright.verify.prove import prove
from sandwright.verify.sandbox import RenderedSandbox, materialize, probe_environment
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict
from support.processtrees import below, children, naming
from support.proving import Prove, resolver
from support.thorough import representative
from support.waiting import eventually
from support.weakening import plan

WAIT = 120
POLICY = """\
schema: 1
method: vm
filesystem: {write: [$PROJECT], readonly: [$PROJECT/kept], deny: [$PROJECT/.env]}
environment: {pass: [TERM]}
resources: {memory: 128MiB, pids: 64}
"""

Made = Callable[..., RenderedSandbox]


@pytest.fixture
def sandbox(tmp_path: Path) -> Made:
    """Renders a policy for a project."""

    def made(text: str = POLICY) -> RenderedSandbox:
        (tmp_path / "project/kept").mkdir(parents=True, exist_ok=True)
        (tmp_path / "project/.env").write_text("hidden")
        policy = resolver(text, tmp_path / "project")(())
        artifacts = registry.render(policy, "vm").artifacts
        launcher = materialize(artifacts, tmp_path / f"out-{uuid.uuid4().hex}")
        return RenderedSandbox("vm", launcher, launcher, probe_environment(tmp_path / "state"))

    return made


def _run(made: RenderedSandbox, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [made.launcher, *words], input=given, capture_output=True, timeout=WAIT, check=False,
        env={**made.environment, "TERM": "dumb"}, cwd=made.launcher.parent.parent / "project",
    )  # fmt: skip


SCRIPT = """
uname -r >&2
cat; echo; stat -c %a .; echo $TERM; cat .env; echo x >kept/x; echo y >made; mkdir -p moved; mv kept moved/
exec sh -c 'kill -9 $$'
"""


@pytest.mark.needs("bwrap", "linux.uml")
def test_streams_files_and_the_status_cross_the_line(sandbox: Made, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir(mode=0o755)
    given = bytes(range(256)) * 600
    ended = _run(sandbox(), "sh", "-c", SCRIPT, given=given)
    assert ended.stdout == given + b"\n755\ndumb\n"
    release, *said = ended.stderr.decode().splitlines()
    assert release != os.uname().release
    assert [each.rpartition(": ")[2] for each in said[:2]] == ["Permission denied", "Read-only file system"]
    assert len(said) == 3
    assert (tmp_path / "project/kept").is_dir()
    assert (tmp_path / "project/made").read_text() == "y\n"
    assert ended.returncode == 128 + signal.SIGKILL


@pytest.mark.needs("bwrap", "linux.uml")
def test_input_in_pieces_of_any_size_comes_unchanged(sandbox: Made, tmp_path: Path) -> None:
    """Long inputs go through a file beside the line: no page may be read before all of it is written."""
    (tmp_path / "project").mkdir()
    made, sizes = sandbox(), (1, 257, 4095, 4097, 300, 65536, 255, 70000, 12289) * 12
    running = subprocess.Popen(
        [str(made.launcher), "sha256sum"], env=dict(made.environment), cwd=tmp_path / "project",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdin is not None
    whole = hashlib.sha256()
    with running.stdin as into:
        for size in sizes:
            piece = os.urandom(size)
            whole.update(piece)
            into.write(piece)
            into.flush()
            time.sleep(0.005)
    assert running.stdout is not None
    with running.stdout as out:
        said = out.read()
    assert said.split()[0].decode() == whole.hexdigest()
    assert running.wait(WAIT) == 0


@pytest.mark.needs("bwrap", "linux.uml")
def test_root_inside_reaches_neither_the_line_nor_the_kernels_switches(sandbox: Made) -> None:
    script = """
        ls /dev; cat /proc/1/environ /proc/1/mem; echo 1 >/proc/sys/kernel/core_pattern
        echo 1 >/proc/exitcode; mknod line c 4 64; ls /proc/self/fd
    """
    ended = _run(sandbox(), "sh", "-c", script)
    lines = ended.stdout.decode().split()
    assert lines == [
        *("fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty"),
        *("urandom", "zero", "0", "1", "2", "3"),
    ]
    assert len(ended.stderr.splitlines()) == 5, ended.stderr


REACHING = """
import ctypes, os, resource, signal
libc, above, done = ctypes.CDLL(None, use_errno=True), os.getppid(), []
def ptrace(request):
    if libc.ptrace(request, above, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "")
for name, tried in {
    "kill": lambda: os.kill(above, signal.SIGKILL),
    "stop": lambda: os.kill(above, signal.SIGSTOP),
    "attach": lambda: ptrace(16),
    "seize": lambda: ptrace(0x4206),
    "memory": lambda: open(f"/proc/{above}/mem", "r+b"),
    "line": lambda: os.open(f"/proc/{above}/fd/10", os.O_WRONLY),
    "limit": lambda: resource.prlimit(above, resource.RLIMIT_NOFILE, (3, 3)),
}.items():
    try:
        tried()
        done.append(name)
    except PermissionError:
        pass
print(done, flush=True)
os._exit(3)
"""


@pytest.mark.needs("bwrap", "linux.uml")
def test_root_inside_reaches_nothing_of_what_looks_after_it(sandbox: Made) -> None:
    """The line is there: a program that could write to it would decide how the command has ended."""
    ended = _run(sandbox(), "python3", "-c", REACHING)
    assert (ended.stdout, ended.returncode) == (b"[]\n", 3), ended.stderr


@pytest.mark.needs("bwrap", "linux.uml")
@pytest.mark.skipif(os.getuid() != 0, reason="rights inside take root")
@pytest.mark.parametrize(("number", "status"), [("STOP", 3), ("KILL", 128 + signal.SIGKILL)])
def test_root_with_rights_can_end_the_run_and_not_hold_it(sandbox: Made, number: str, status: int) -> None:
    made = sandbox(f"{POLICY}process: {{sandbox_root: true}}\n")
    ended = _run(made, "sh", "-c", f"kill -{number} $PPID; sleep 1; exit 3")
    assert (ended.returncode, b"not permitted" in ended.stderr) == (status, False), ended.stderr


@pytest.mark.needs("bwrap", "linux.uml")
def test_what_was_said_last_is_read_after_the_end_of_the_kernel(sandbox: Made) -> None:
    """The reader reads nothing before: output that exceeds pipe and relay waits in the line."""
    made, size = sandbox(), 396_000
    argv = [str(made.launcher), "sh", "-c", f"head -c {size} /dev/zero; exit 5"]
    with subprocess.Popen(argv, env=dict(made.environment), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert eventually(lambda: any(map(_is_kernel, below(running.pid))))
        assert eventually(lambda: not any(map(_is_kernel, below(running.pid))))
        found = len(running.stdout.read())
        assert (found, running.wait(WAIT)) == (size, 5)


@pytest.mark.needs("bwrap", "linux.uml")
def test_who_reads_no_more_ends_nobody_but_who_writes(sandbox: Made, tmp_path: Path) -> None:
    made = sandbox()
    script = "(trap '' PIPE; head -c 2000000 /dev/zero); echo x >after; exit 4"
    argv = [str(made.launcher), "sh", "-c", script]
    with subprocess.Popen(
        argv, env=dict(made.environment), cwd=tmp_path / "project", stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.read(1) == b"\0"
        running.stdout.close()
        assert running.wait(WAIT) == 4
    assert (tmp_path / "project/after").exists()


@pytest.mark.needs("bwrap", "linux.uml")
def test_what_cannot_be_run_has_the_statuses_of_a_shell(sandbox: Made) -> None:
    made = sandbox()
    assert [_run(made, each).returncode for each in ("no-such-program", "/etc/passwd")] == [127, 126]


@pytest.mark.needs("bwrap", "linux.uml")
@pytest.mark.parametrize("how", representative(["term", "launcher", "both"], "term", "launcher"))
def test_nothing_is_left(sandbox: Made, tmp_path: Path, how: str) -> None:
    made, mark, ready = sandbox(), f"mark-{uuid.uuid4().hex}", tmp_path / "project/ready"
    argv = [str(made.launcher), "sh", "-c", "echo >ready; sleep 600", mark]
    with subprocess.Popen(argv, env=dict(made.environment), cwd=ready.parent) as running:
        assert eventually(ready.exists)
        kernels = [each for each in below(running.pid) if _is_kernel(each)]
        assert kernels
        for pid in [running.pid] if how != "both" else [*children(running.pid), running.pid]:
            os.kill(pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
        running.wait(WAIT)
    assert eventually(lambda: not naming(mark)), naming(mark)
    assert eventually(lambda: not any(map(_is_kernel, kernels)))


@pytest.mark.needs("bwrap", "linux.uml")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_the_kernel_stays_on_one_processor(sandbox: Made, tmp_path: Path) -> None:
    """The kernel and its programs take turns; with several processors that is several times as slow."""
    made, ready = sandbox(), tmp_path / "project/ready"
    argv = [str(made.launcher), "sh", "-c", "echo >ready; sleep 600"]
    with subprocess.Popen(argv, env=dict(made.environment), cwd=ready.parent) as running:
        assert eventually(ready.exists)
        kernels = [each for each in below(running.pid) if _is_kernel(each)]
        processors = [os.sched_getaffinity(each) for each in kernels]
        running.terminate()
        running.wait(WAIT)
    assert {len(each) for each in processors} == {1}
    assert set().union(*processors) <= os.sched_getaffinity(0)


def _is_kernel(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/dev/.sandwright-kernel\0")
    except OSError:
        return False


@pytest.mark.needs("bwrap", "linux.uml")
def test_the_probes_hold(prove_with: Prove) -> None:
    assert prove_with("vm", POLICY) == {}


WALL = {"files", "links", "network", "secrets"}
"""The families of probes that hold for the kernel's own process, too."""


@pytest.mark.needs("bwrap", "linux.uml")
def test_a_kernel_that_is_taken_over_meets_the_sandbox(tmp_path: Path) -> None:
    """The probes run with the rights of its process: in its place, under its filter, among its mounts."""

    def without_kernel(_: ProofSubject, found: LaunchPlan) -> LaunchPlan:
        return dataclasses.replace(found, vm=MachinePlan(), pids=None)

    def weaken(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        own = Artifact(LAUNCH_INIT.name, LAUNCH_INIT.path("linux/amd64").read_bytes(), "", executable=True)
        return plan(without_kernel)(subject, (*artifacts, own))

    proof = prove(resolver(POLICY, tmp_path / "project"), "vm", weaken=weaken, runs=False, secrets=False)
    found = {each.probe: (each.verdict, each.evidence) for each in proof.outcomes}
    held = [each for each, (verdict, _) in found.items() if verdict is Verdict.PASS]
    broken = {each: said for each, (verdict, said) in found.items() if verdict is not Verdict.PASS}
    assert len([each for each in held if each.partition("/")[0] in WALL]) > 40
    assert {each for each in broken if each.partition("/")[0] in WALL} <= UNLIKE, broken
    assert "processes/inside" in broken  # this shows that it was the host's kernel


UNLIKE = {"network/unix-socket", "network/later-socket", "network/project-socket", "network/abstract-socket",
          "network/own-sockets", "network/outside"}  # fmt: skip
"""Refused in another way: the kernel's process can have no Unix sockets at all, and the host has IPv6."""


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("network: {mode: host}", "network.host"),
        ("network: {unix_sockets: [/run/a]}", "network.unix-sockets"),
        ("credentials: {shims: {gh: {allow: [auth status]}}}", "credentials.shims"),
    ],
)
def test_what_needs_the_hosts_network_is_refused(text: str, refused: str, tmp_path: Path) -> None:
    policy = resolver(f"schema: 1\nmethod: vm\n{text}\n", tmp_path / "project")(())
    with pytest.raises(RenderError, match=refused):
        check_expressible(policy, DECLARATION)
    accepted = f"accept_gaps: [{{feature: {refused}, method: vm, reason: a test}}]"
    lenient = resolver(f"schema: 1\nmethod: vm\n{text}\n{accepted}\n", tmp_path / "project")(())
    arguments = next(each for each in registry.render(lenient, "vm").artifacts if each.name == "args").content
    assert b"--unshare-net" in arguments


CLOSES = "#include <unistd.h>\nint main(void) { close(3); for (;;) pause(); }"


def test_a_kernel_that_closes_its_line_and_stays_is_ended(sandbox: Made) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:  # no program inside can write there
        argv = ["cc", "-static", "-x", "c", "-", "-o", f"{outside}/linux.uml"]
        subprocess.run(argv, input=CLOSES, text=True, check=True, timeout=WAIT)
        Path(outside).chmod(0o755)
        made = sandbox()
        ended = subprocess.run(
            [made.launcher, "true"], capture_output=True, timeout=20, check=False,
            env={**made.environment, "PATH": f"{outside}:{os.environ['PATH']}"},
            cwd=made.launcher.parent.parent / "project",
        )  # fmt: skip
    assert ended.returncode == 125, ended.stderr
    assert b"the kernel of the sandbox exited" in ended.stderr


@pytest.mark.parametrize("kib", [1000, 128 << 10])
def test_a_limit_of_file_sizes_that_ends_the_kernel_is_named(sandbox: Made, kib: int) -> None:
    """Its memory is one file, which exceeds the policy's limit by the range for random addresses."""
    made = sandbox()
    ended = subprocess.run(
        ["sh", "-c", f'ulimit -f {kib * 2}; exec "$0" true', made.launcher], capture_output=True,
        timeout=WAIT, check=False, env=dict(made.environment), cwd=made.launcher.parent.parent / "project",
    )  # fmt: skip
    assert (ended.returncode, b"RLIMIT_FSIZE" in ended.stderr) == (125, True), ended.stderr


def test_too_little_memory_is_refused_before_a_start(tmp_path: Path) -> None:
    policy = resolver(POLICY.replace("128MiB", "16MiB"), tmp_path / "project")(())
    with pytest.raises(RenderError, match="needs 64MiB"):
        registry.render(policy, "vm")
