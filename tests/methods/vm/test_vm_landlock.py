"""A separate kernel on a host without namespaces: the restrictions of its process, and leftovers.

Tests of launcher/guest/source/guestroot.c.
Tests of launcher/source/pathnames.c.
Tests of launcher/source/paths.c.
Tests of launcher/source/vm_landlock.c.
Tests of methods/vm/landlock.py.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.host import collect_host
from sandwright.methods import registry
from sandwright.methods.vm import LANDLOCK
from sandwright.methods.vm.backend import VmLandlock
from sandwright.verify.sandbox import RenderedSandbox, materialize, probe_environment
from support.processtrees import below, is_there
from support.proving import Prove, resolver
from support.thorough import representative
from support.waiting import eventually

WAIT = 120
POLICY = """\
schema: 1
method: vm
filesystem:
  write: [$PROJECT, $PROJECT/kept/own]
  readonly: [$PROJECT/kept]
  deny: [$PROJECT/.env, $PROJECT/deep/hidden]
environment: {pass: [TERM]}
resources: {memory: 128MiB, pids: 64}
"""
CONTROLS = (
    *("read", "write", "rename", "link", "symlink", "unlink", "chmod", "mode", "device", "guest", "commit"),
)
TAKEOVER = Path(__file__).parents[2] / "support" / "takeover.c"

Made = Callable[..., RenderedSandbox]

pytestmark = pytest.mark.needs("linux.uml")


@pytest.fixture
def sandbox(tmp_path: Path) -> Made:
    """Renders a policy for a project, with Landlock as the wall."""

    def made(text: str = POLICY) -> RenderedSandbox:
        project = tmp_path / "project"
        (project / "kept/own").mkdir(parents=True)
        (project / "deep/hidden").mkdir(parents=True)
        for name in (".env", "plain", "kept/file", "deep/hidden/secret"):
            (project / name).write_text("content")
        policy = resolver(text, project)(())
        artifacts = registry.render(policy, LANDLOCK).artifacts
        launcher = materialize(artifacts, tmp_path / "out")
        return RenderedSandbox(LANDLOCK, launcher, launcher, probe_environment(tmp_path / "state"))

    return made


def _run(made: RenderedSandbox, *words: str, path: str = "") -> subprocess.CompletedProcess[bytes]:
    given = {"PATH": f"{path}:{os.environ['PATH']}"} if path else {}
    return subprocess.run(
        [made.launcher, *words], capture_output=True, timeout=WAIT, check=False,
        env={**made.environment, **given, "TERM": "dumb"}, cwd=made.launcher.parent.parent / "project",
    )  # fmt: skip


SCRIPT = """
uname -r; stat -c %a .; cat .env; cat deep/hidden/secret; echo x >kept/x; echo y >made
mkdir -p a/b; mv a/b c; ln made d; rm d; mv kept moved; mv deep moved; ls /tmp /proc/1/root
"""


def test_the_policy_holds_inside(sandbox: Made, tmp_path: Path) -> None:
    ended = _run(sandbox(), "sh", "-c", SCRIPT)
    release, mode, *_ = ended.stdout.decode().splitlines()
    assert release != os.uname().release
    assert int(mode, 8) == (tmp_path / "project").stat().st_mode & 0o777
    said = [each.rpartition(": ")[2] for each in ended.stderr.decode().splitlines()]
    assert said == [
        *("Permission denied", "No such file or directory", "Read-only file system"),
        *("Device or resource busy", "Device or resource busy", "Permission denied"),
    ], ended.stderr
    assert (tmp_path / "project/made").read_text() == "y\n"
    assert {each.name for each in (tmp_path / "project").iterdir()} == {
        *("sandbox.yaml", "kept", "deep", ".env", "plain", "made", "a", "c"),
    }


def test_only_what_is_listed_is_there(sandbox: Made) -> None:
    made = sandbox(POLICY.replace("  write:", "  read: []\n  write:"))
    ended = _run(made, "sh", "-c", "ls -d /usr /root /home /srv .; cat plain; echo x >made && cat made")
    assert ended.stdout.decode().split() == [".", "/usr", "contentx"], ended.stderr


def test_it_starts_without_a_variable() -> None:
    assert VmLandlock().preflight(collect_host()).describe() == f"{LANDLOCK}: ready"


def test_the_probes_hold(prove_with: Prove) -> None:
    assert prove_with(LANDLOCK, POLICY) == {}


def test_a_kernel_that_is_taken_over_meets_the_launcher_and_landlock(sandbox: Made, tmp_path: Path) -> None:
    """The probes run in place of its program, with its descriptors, under its filters and rules.

    The rendered artifacts lie in a directory that the sandbox may write.
    """
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git/index").touch()
    made = sandbox()
    shutil.copytree(made.launcher.parent, project / "out/out")
    (project / "out/project").symlink_to(project)
    made = dataclasses.replace(made, launcher=project / "out/out/launch")
    (tmp_path / "bin").mkdir()
    argv = ("cc", "-static", "-w", f'-DPROJECT="{project}"', f"-DLAUNCHER={os.getpid()}",
            f'-DGUEST="{made.launcher.with_name("guest")}"')  # fmt: skip
    subprocess.run([*argv, "-o", tmp_path / "bin/linux.uml", TAKEOVER], check=True, timeout=WAIT)
    before = {
        each: each.lstat() for each in (project / "kept/file", project / ".env", project / "deep/hidden")
    }
    ended = _run(made, "true", path=str(tmp_path / "bin"))
    said = dict(re.findall(r"([\w-]+)=(\w+)", ended.stderr.decode()))
    assert {name: answer for name, answer in said.items() if name.startswith("control-")} == dict.fromkeys(
        (f"control-{name}" for name in CONTROLS),
        "done",
    ), ended.stderr
    assert {name for name, answer in said.items() if answer == "done"} == {
        name for name in said if name.startswith("control-")
    }, said
    assert len(said) > 54
    assert {answer for name, answer in said.items() if name.startswith("set-id-")} == {"EPERM"}, said
    assert {name: answer for name, answer in said.items() if name.startswith("git-")} == {
        "git-link": "EPERM",
        **dict.fromkeys(("git-moved", "git-hard", "git-exchanged", "git-folder"), "EXDEV"),
    }
    assert set(said.values()) == {"done", "EACCES", "EBUSY", "ELOOP", "EPERM", "ENOSYS", "EXDEV"}
    for path, status in before.items():
        now = path.lstat()
        assert (now.st_mode, now.st_mtime, now.st_size, now.st_nlink) == (
            *(status.st_mode, status.st_mtime, status.st_size, status.st_nlink),
        )


@pytest.mark.parametrize("how", representative(["term", "launcher", "monitor", "both"], "monitor", "both"))
def test_nothing_is_left(sandbox: Made, tmp_path: Path, how: str) -> None:
    made, ready = sandbox(), tmp_path / "project/ready"
    argv = [str(made.launcher), "sh", "-c", "(setsid sleep 600 &) ; echo >ready; sleep 600"]
    with subprocess.Popen(argv, env=dict(made.environment), cwd=ready.parent) as running:
        assert eventually(ready.exists)
        started = list(below(running.pid))
        assert sum(map(_is_kernel, started)) > 3  # with its child processes
        monitor = next(each for each in started if list(below(each)))
        ended = {
            "term": [running.pid],
            "launcher": [running.pid],
            "monitor": [monitor],
            "both": [monitor, running.pid],
        }
        for pid in ended[how]:
            os.kill(pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
        running.wait(WAIT / 4)
    assert eventually(lambda: not any(map(is_there, started))), [each for each in started if is_there(each)]
    assert how == "both" or eventually(lambda: not (tmp_path / "project/.vscode").exists())
    guest = made.launcher.with_name("guest")
    left = [each for each in Path("/tmp").glob("sandwright-*/init") if each.readlink() == guest]
    assert (left == []) is (how != "both")
    for each in left:  # as `sandwright cleanup` does
        shutil.rmtree(each.parent)


def _is_kernel(pid: int) -> bool:
    # Under Landlock, only root can read /proc/PID/exe of the kernel's processes.
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/linux.uml")
    except OSError:
        return False
