"""The mounts that protect a running sandbox: no work on the host removes one, or adds one.

Tests of launcher/source/watch.c.
Tests of launcher/source/watch_compare.c.
Tests of launcher/source/watch_host.c.
Tests of launcher/source/watch_mountns.c.
Tests of launcher/source/watch_sandbox.c.
Tests of render/mount_watch.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from session.conftest import WAIT, Project
from session.test_run_containers import Place, busybox_root
from support import interpreters
from support.enginehosts import engine_host
from support.thorough import THOROUGH, covering, representative

GIT = ("git", "-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false")
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done;"
RULES = "{read: [$PROJECT], write: [$PROJECT], deny: [$PROJECT/.env, $PROJECT/secrets]}"

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap", "git")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox", "git")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox", "git")),
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox", "git")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox", "git")),
]


BWRAP = Place("bwrap", "", {}, None)


def git(project: Project, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=project.root, check=True, capture_output=True, timeout=60)


def policy(method: Place, rules: str) -> str:
    image = f"image: '{method.image}'\nenvironment: {{set: {{PATH: /bin}}}}\n" if method.image else ""
    return f"schema: 1\nmethod: {method.method}\n{image}filesystem: {rules}\n"


def prepare(project: Project, method: Place) -> None:
    """A Git repository with a protected, tracked file in two versions."""
    project.policy.write_text(policy(method, RULES))
    for path in (".git/hooks/x", ".git/HEAD", ".git/config"):
        (project.root / path).unlink(missing_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True, timeout=60)
    (project.root / ".git" / "hooks").mkdir(exist_ok=True)
    (project.root / "secrets").mkdir(exist_ok=True)
    (project.root / ".env").write_text("a secret\n")
    for version in ("one", "two"):
        (project.root / ".mcp.json").write_text(version)
        git(project, "add", ".mcp.json")
        git(project, "commit", "-q", "-m", version)


@contextlib.contextmanager
def running(project: Project, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has reported that its command is running."""
    run = project.start("sh", "-c", f"echo up; {script}")
    assert run.stdout is not None
    try:
        said = run.stdout.readline()
        assert said == b"up\n", (said, run.stderr and run.stderr.read())
        yield run
    finally:
        run.kill() if run.poll() is None else None
        run.communicate(timeout=WAIT)


def beside(project: Project) -> Project:
    """Another project, which no test changes."""
    other = Project(project.home / "other", project.home, project.runtime, dict(project.environment))
    for path in (".git/hooks/x", ".git/config", ".git/HEAD", ".env", "secrets/key"):
        (other.root / path).parent.mkdir(parents=True, exist_ok=True)
        (other.root / path).write_text("content")
    other.policy.write_text(project.policy.read_text())
    return other


def same_inode(project: Project) -> None:
    """ext4 gives the inode number of a removed file to the next one, if no process holds it."""
    (project.root / ".env").unlink()
    (project.root / ".env").write_text("another secret\n")


def move(project: Project) -> None:
    (project.root / ".git" / "hooks").rename(project.root / ".git" / "old")


def edit(name: str) -> Callable[[Project], None]:
    def act(project: Project) -> None:
        subprocess.run(["sed", "-i", "s/a/b/", name], cwd=project.root, check=True, timeout=60)

    return act


ACTS: dict[str, tuple[Callable[[Project], None], str]] = {
    "git config": (lambda project: git(project, "config", "a.b", "c"), ".git/config"),
    "git checkout": (
        lambda project: git(project, "checkout", "-q", "HEAD~1", "--", ".mcp.json"),
        ".mcp.json",
    ),
    "sed -i of a secret": (edit(".env"), ".env"),
    "sed -i of the policy": (edit("sandbox.yaml"), "sandbox.yaml"),
    "mv of a directory": (move, ".git/hooks"),
    "the same inode": (same_inode, ".env"),
}
OF_EACH = ("git config", "mv of a directory", "the same inode")
"""The acts that are tried with each method: a moved file, a moved directory, and a change that no inode
number shows. One part of the launcher watches mounts for all methods, so the other acts are tried with
one."""


@pytest.fixture(scope="module", params=METHODS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A method, with an image if it needs one."""
    with contextlib.ExitStack() as stack:
        if request.param in ("docker", "podman"):
            engine = stack.enter_context(engine_host(request.param))
            own = {name: value for name, value in engine.environment.items() if name != "HOME"}
            yield Place(request.param, engine.image, own, engine)
        elif request.param == "bwrap":
            yield Place(request.param, "", {}, None)
        else:
            root = tmp_path_factory.mktemp("root")
            busybox_root(root)
            yield Place(request.param, "small", {"SANDWRIGHT_ROOTFS": str(root)}, None)


@pytest.fixture
def method(place: Place, project: Project) -> Place:
    project.environment |= place.environment
    return place


@pytest.fixture
def sandbox(project: Project, method: Place) -> Project:
    prepare(project, method)
    return project


def ends(sandbox: Project, act: str) -> None:
    """Check that the run ends with 137 and a message with the path; another run beside it goes on."""
    done, path = ACTS[act]
    other = beside(sandbox)
    with (
        running(other, f"{UNTIL_GO} echo fine") as control,
        running(sandbox, "sleep 600") as run,
    ):
        done(sandbox)
        _, said = run.communicate(timeout=WAIT)
        assert f"{sandbox.root}/{path} was replaced on the host during the run".encode() in said
        assert run.returncode == 137
        assert control.poll() is None
        (other.root / "go").touch()
        out, said = control.communicate(timeout=WAIT)
        assert (control.returncode, out, b"sandbox:" in said) == (0, b"fine\n", False), said


@pytest.mark.parametrize(
    ("place", "act"), covering(METHODS, tuple(ACTS) if THOROUGH else OF_EACH), indirect=["place"]
)
def test_the_run_ends(sandbox: Project, act: str) -> None:
    ends(sandbox, act)


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize("act", list(ACTS) if THOROUGH else ["git checkout", "sed -i of a secret"])
def test_it_ends_by_other_work_too(project: Project, act: str) -> None:
    prepare(project, BWRAP)
    ends(project, act)


@pytest.mark.parametrize("place", representative(METHODS, "bwrap", "gvisor", "podman"), indirect=True)
def test_ordinary_work_on_the_host_goes_on(sandbox: Project) -> None:
    """The work is Git's, an editor's, and that of another run of the project with the same placeholders."""
    with running(sandbox, f"{UNTIL_GO} echo fine") as run:
        assert sandbox.run("true").returncode == 0
        (sandbox.root / "file").write_text("a")
        edit("file")(sandbox)
        git(sandbox, "add", "file")
        git(sandbox, "commit", "-q", "-m", "more")
        git(sandbox, "status")
        assert sandbox.run("true").returncode == 0
        (sandbox.root / "go").touch()
        out, said = run.communicate(timeout=WAIT)
        assert (run.returncode, out, b"sandbox:" in said) == (0, b"fine\n", False), said


@pytest.fixture
def shared(project: Project, tmp_path: Path) -> Iterator[Path]:
    """A directory whose mounts the kernel propagates, as systemd sets it for all of them."""
    if os.getuid() != 0:
        pytest.skip("only root mounts something on the host")
    place = project.home / "shared"
    place.mkdir()
    subprocess.run(["mount", "--make-shared", "-t", "tmpfs", "tmpfs", place], check=True, timeout=60)
    yield place
    subprocess.run(["umount", "--recursive", place], check=True, timeout=60)


def test_what_is_mounted_on_the_host_meanwhile_is_not_seen(
    project: Project, shared: Path, method: Place
) -> None:
    inner = Project(shared / "p", project.home, project.runtime, dict(project.environment))
    inner.root.mkdir()
    (inner.root / ".git").mkdir()
    prepare(inner, method)
    place = inner.root / ".git" / "hooks" / "deep"
    place.mkdir()
    script = f"{UNTIL_GO} ls .git/hooks/deep; echo x >.git/hooks/deep/new && echo written"
    with running(inner, script) as run:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True, timeout=60)
        (place / "of-the-host").touch()
        (inner.root / "go").touch()
        out, said = run.communicate(timeout=WAIT)
    assert out == b"", said
    assert b"Read-only file system" in said
    assert [path.name for path in place.iterdir()] == ["of-the-host"]


@pytest.mark.needs("bwrap")
def test_what_nobody_inside_can_write_around_is_hidden_again(project: Project) -> None:
    """The run goes on when a hidden file is replaced in a directory that the sandbox can't write."""
    place = project.home / "elsewhere"
    place.mkdir()
    hidden = place / "key"
    hidden.write_text("first")
    rules = f"{{read: [{place}], write: [$PROJECT], deny: [{hidden}]}}"
    project.policy.write_text(policy(BWRAP, rules))
    script = (
        f"{UNTIL_GO} until [ -e {hidden} ] && [ ! -s {hidden} ]; do sleep 0.05; done; "
        f"cat {hidden}; ls {place}"
    )
    with running(project, script) as run:
        for content in ("second", "third"):
            (place / "new").write_text(content)
            (place / "new").rename(hidden)
        hidden.unlink()
        hidden.write_text("fourth")
        (project.root / "go").touch()
        out, said = run.communicate(timeout=WAIT)
    assert (run.returncode, out) == (0, b"key\n"), said
    assert b"Permission denied" in said


def planted(project: Project, tricks: str) -> None:
    """A stand-in for a race: it makes a change, and then starts the real bubblewrap."""
    place = project.home / "bin"
    place.mkdir()
    real = shutil.which("bwrap")
    (place / "bwrap").write_text(
        f"""#!{interpreters.INSIDE}
import os, sys
root = {os.fsencode(project.root)!r}
if "--json-status-fd" in sys.argv:
    words = open(3, "rb", closefd=False).read().split(b"\\0")
    if root in words:
        {tricks}
    file = os.memfd_create("args", 0)
    os.write(file, b"\\0".join(words))
    os.lseek(file, 0, 0)
    os.dup2(file, 3)
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""
    )
    (place / "bwrap").chmod(0o755)
    project.environment["PATH"] = f"{place}:{os.environ['PATH']}"


TAKEN_OUT = "at = words.index(root + b'/.env'); del words[at - 2 : at + 1]"
SWAPPED = "words[words.index(root + b'/.mcp.json')] = root + b'/other'"


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize(
    ("tricks", "path"), [(TAKEN_OUT, ".env"), (SWAPPED, ".mcp.json")], ids=["missing", "swapped"]
)
def test_nothing_runs_where_a_mount_is_not_what_was_rendered(
    project: Project, tricks: str, path: str
) -> None:
    prepare(project, BWRAP)
    (project.root / "other").write_text("of somebody else")
    planted(project, tricks)
    for _ in range(2):  # the cached rendering is no way around it
        ended = project.run("sh", "-c", "echo ran; cat .env .mcp.json")
        assert (ended.returncode, ended.stdout) == (125, b"")
        said = f"{project.root}/{path} is not mounted as it was rendered: nothing was run"
        assert said.encode() in ended.stderr
