"""`sandwright run` with runtimes and engines: inputs and outputs, denials, and leftovers."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.signalling import children_of
from session.conftest import SANDWRIGHT, WAIT, Project
from session.hostdevices import SCRIPT, same_devices
from support.cgroups import needs_groups
from support.enginehosts import PODMAN_NAMES, EngineHost, engine_host
from support.mcpserver import serve_by_shell
from support.processtrees import naming
from support.thorough import THOROUGH, covering, representative
from support.waiting import until

METHODS = [
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
RUNTIMES = pytest.mark.parametrize("place", representative(METHODS, "oci", "gvisor"), indirect=True)
"""For tests that tests/render/test_engines_run.py makes with both engines, if the session adds nothing."""
SOME = representative(METHODS, "oci", "docker")
ONE_OF_EACH = pytest.mark.parametrize("place", representative(METHODS, "oci", "podman"), indirect=True)
OTHERS_OF_EACH = pytest.mark.parametrize("place", representative(METHODS, "gvisor", "docker"), indirect=True)
"""A runtime and an engine: for tests of code that both runtimes, and both engines, share."""
STATUSES = {"no-such-program": 127, "/no/such/program": 127, "/etc": 126, "false": 1}
DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var")


@dataclass(frozen=True)
class Place:
    """A method with an image, and the variables that it needs."""

    method: str
    image: str
    environment: dict[str, str]
    engine: EngineHost | None

    def containers(self) -> list[str]:
        if self.engine is None:
            return []
        form = ("ps", "--all", "--filter", f"ancestor={self.image}", "--format", "{{.Names}}")
        return self.engine.run(*form).text.splitlines()


@pytest.fixture(scope="module", params=METHODS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    method = request.param
    with contextlib.ExitStack() as stack:
        if method in ("docker", "podman"):
            engine = stack.enter_context(engine_host(method))
            own = {name: value for name, value in engine.environment.items() if name != "HOME"}
            yield Place(method, engine.image, own, engine)
        else:
            root = tmp_path_factory.mktemp("root")
            busybox_root(root)
            yield Place(method, "small", {"SANDWRIGHT_ROOTFS": str(root)}, None)


def busybox_root(root: Path) -> None:
    for name in DIRECTORIES:
        (root / name).mkdir()
    shutil.copy(process.which("busybox"), root / "bin" / "busybox")
    for applet in process.run("busybox", "--list", timeout=60).text.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")


@pytest.fixture
def sandbox(place: Place, project: Project) -> Iterator[Project]:
    lines = [
        "schema: 1",
        f"method: {place.method}",
        f"image: '{place.image}'",
        "environment: {set: {PATH: /bin}}",
    ]
    rules = "filesystem: {read: [$PROJECT], write: [$PROJECT], deny: [$PROJECT/secrets]}"
    project.policy.write_text("\n".join([*lines, rules, ""]))
    project.environment |= place.environment
    before = project.tree()
    yield project
    until(lambda: place.containers() == [], "a container is left")
    until(lambda: before - {"file"} <= project.tree() <= before | {"file"}, "something is left")
    until(
        lambda: {path.name for path in project.runtime.iterdir()} <= {"sandwright", *PODMAN_NAMES},
        "a directory is left",
    )
    assert project.records() == []


@pytest.mark.parametrize(("place", "word"), covering(METHODS, list(STATUSES)), indirect=["place"])
def test_a_command_that_can_not_be_run(sandbox: Project, word: str) -> None:
    """The status is as in a shell, whatever the runtime's own number is."""
    ended = sandbox.run(word)
    assert (ended.returncode, ended.stdout) == (STATUSES[word], b"")


def test_devices_of_the_host_stay_as_they_are(sandbox: Project) -> None:
    """The container's own devices may change."""
    with same_devices(), sandbox.start("sh", "-c", SCRIPT) as running:
        out, errors = running.communicate(timeout=120)
    assert (running.returncode, out) == (0, b"over\n"), errors


@OTHERS_OF_EACH
def test_cidfile(sandbox: Project, place: Place) -> None:
    """The file has the engine's container id, like its own option; otherwise the session's name."""
    file = sandbox.home / "id"
    running = sandbox.start("sh", "-c", "echo up; exec sleep 55", options=("--cidfile", str(file)))
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    if place.engine is not None:
        assert place.engine.run("inspect", "--format", "{{.Id}}", file.read_text()).text == file.read_text()
    else:
        assert [file.read_text()] == [path.stem for path in sandbox.records()]
    running.terminate()
    running.communicate(timeout=60)
    assert file.exists()
    again = sandbox.run("touch", "file", options=("--cidfile", str(file)))
    assert (again.returncode, again.stdout) == (125, b"")
    assert not (sandbox.root / "file").exists()


@pytest.mark.parametrize(("place", "status"), covering(METHODS, [0, 1, 42, 255]), indirect=["place"])
def test_allowed_and_denied(sandbox: Project, place: Place, status: int) -> None:
    script = "echo new >file; cat file; cat secrets/key; echo x >/etc/x; echo x >sandbox.yaml; id -u"
    ended = sandbox.run("sh", "-c", f"{script}; exit {status}")
    user = os.geteuid() if place.engine else 0
    assert (ended.returncode, ended.stdout) == (status, f"new\n{user}\n".encode())
    for said in (b"secrets/key", b"/etc/x: Read-only file system", b"sandbox.yaml: Read-only file"):
        assert said in ended.stderr
    assert (sandbox.root / "file").read_text() == "new\n"


@ONE_OF_EACH
def test_an_agent_of_this_host_is_shown_and_nothing_beside_it(sandbox: Project) -> None:
    """The preset shows the package of the agent's link on PATH, and no other; the policy's image stays."""
    packages = sandbox.home / "npm" / "lib" / "node_modules"
    for name in ("@agent/claude", "@agent/other", "other"):
        (packages / name / "bin").mkdir(parents=True)
        (packages / name / "data").write_text(f"{name}\n")
    program = packages / "@agent" / "claude" / "bin" / "start.sh"
    lines = ["#!/bin/sh", 'cd "${0%/*}/.."', 'cat data; echo "$@"; (echo x >data); (echo x >new); rm "$0"']
    program.write_text("\n".join([*lines, 'find "$HOME/npm" -type f', ""]))
    program.chmod(0o755)
    (sandbox.home / "npm" / "bin").mkdir()
    (sandbox.home / "npm" / "bin" / "claude").symlink_to("../lib/node_modules/@agent/claude/bin/start.sh")
    sandbox.environment["PATH"] = f"{sandbox.home}/npm/bin:{sandbox.environ['PATH']}"
    closed = ("--set", "network.mode=none", "--set", "network.allow=[]")
    for preset, status in ((("--preset", "agent-claude"), 0), (("--preset", "agent-codex"), 127)):
        ended = sandbox.run("claude", "a b", "c", options=(*preset, *closed))
        assert ended.returncode == status, ended.stderr
        shown = f"{program.parents[1]}/data", str(program)
        said = ["@agent/claude", "a b c", *shown] if status == 0 else []
        assert sorted(ended.stdout.decode().splitlines()) == sorted(said), ended.stderr
        assert ended.stderr.count(b"Read-only file system") == (3 if status == 0 else 0), ended.stderr


@OTHERS_OF_EACH
def test_a_linked_work_tree_with_the_grants(sandbox: Project) -> None:
    """The test makes the writes of a commit and of a configuration change, because its images lack Git."""
    project = replace(sandbox, root=sandbox.home / "linked")
    common = sandbox.home / "r" / ".git"
    own = common / "worktrees" / "linked"
    for folder in ("objects", "refs/heads", "hooks", "worktrees/linked", "worktrees/other", "info"):
        (common / folder).mkdir(parents=True)
    (common / "config").write_text("[core]\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{project.root}/.git\n")
    project.root.mkdir()
    (project.root / ".git").write_text(f"gitdir: {own}\n")
    written = ("objects/x", "refs/heads/new", "packed-refs.lock", "worktrees/linked/index.lock")
    closed = (
        "hooks/post-commit",
        "worktrees/other/x",
        "worktrees/linked/gitdir",
        "info/attributes",
        "commondir",
    )
    script = f'cd {common}; for name; do (echo x >>"$name") 2>/dev/null && echo "$name"; done; cat config'
    project.environment["SANDWRIGHT_TRUST"] = "1"
    policy = sandbox.policy.read_text()
    for grants, more in ((["worktree"], ()), (["worktree", "config"], ("config",))):
        project.policy.write_text(policy.replace("{read:", f"{{git: [{', '.join(grants)}], read:"))
        names = (*written, *closed, "config")
        ended = project.run("sh", "-c", script, "sh", *names)
        assert ended.stdout.decode().split() == [*written, *more, "[core]", *("x" for _ in more)], (
            ended.stderr
        )
    assert sorted(path.name for path in (common / "hooks").iterdir()) == []


@RUNTIMES
def test_input_is_bytes(sandbox: Project) -> None:
    sent = bytes(range(256)) * 1024
    assert sandbox.run("cat", stdin=sent).stdout == sent


@ONE_OF_EACH
def test_a_signal_that_the_caller_ignores_ends_nothing(sandbox: Project) -> None:
    """The caller is `nohup`, for example."""
    words = ["bash", "-c", 'trap "" HUP; exec "$@"', "bash", *SANDWRIGHT, "run", "--"]
    inside = "echo up; read -r line; echo $line; exit 7"
    with subprocess.Popen(
        [*words, "sh", "-c", inside],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=sandbox.root,
        env=sandbox.environ,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(signal.SIGHUP)
        said, _ = running.communicate(b"still here\n", timeout=WAIT)
    assert (running.returncode, said) == (7, b"still here\n")


def _descendants(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *_descendants(child))]


@pytest.mark.parametrize("place", METHODS[:2], indirect=True)
def test_root_inside_is_not_the_hosts(sandbox: Project) -> None:
    """Under a runtime it is root of a separate user namespace, like the process that serves gVisor's files.

    An engine's root is the host's, and its declaration says so.
    """
    running = sandbox.start("sh", "-c", "echo up; exec sleep 55")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    spaces = {kind: Path(f"/proc/self/ns/{kind}").readlink() for kind in ("pid", "user")}
    found = []
    for child in _descendants(running.pid):
        with contextlib.suppress(OSError):
            inside = Path(f"/proc/{child}/ns/pid").readlink() != spaces["pid"]
            found += [Path(f"/proc/{child}/ns/user").readlink() != spaces["user"]] if inside else []
    running.terminate()
    running.communicate(timeout=60)
    assert found
    assert all(found)


@pytest.mark.parametrize(("place", "way"), covering(SOME, ["run", "launch"]), indirect=["place"])
def test_files_as_input_and_output(sandbox: Project, way: str) -> None:
    """The shell writes at its position in the file; no file behind a descriptor is written or read inside."""
    given, shown = sandbox.home / "given", sandbox.home / "shown"
    given.write_text("given\n")
    shown.write_text("a secret\n")
    start = shlex.join([*SANDWRIGHT, "run", "--"])
    if way == "launch":
        rendered = sandbox.sandwright("render", "--out", str(sandbox.home / "out"))
        assert rendered.returncode == 0, rendered.stderr
        start = str(next((sandbox.home / "out").rglob("launch")))
    inside = """
        cat; echo changed >/proc/self/fd/0
        timeout 1 head -n 1 /proc/self/fd/1 | tr a-z A-Z
        echo inside; exit 5
    """
    script = f"(echo b; {start} sh -c {shlex.quote(inside)}; echo $?) <{given} >>{shown}"
    ended = process.run(
        *("bash", "-c", script), cwd=sandbox.root, env=sandbox.environ, check=False, timeout=WAIT
    )
    assert given.read_text() == "given\n", ended.stderr
    lines = shown.read_text().splitlines()
    assert (lines[:2], lines[-2:]) == (["a secret", "b"], ["inside", "5"]), ended.stderr
    assert "given" in lines
    assert "A SECRET" not in lines


@RUNTIMES
def test_the_time_limit(sandbox: Project) -> None:
    ended = sandbox.run("sh", "-c", "echo begun; sleep 30", options=("--time", "2s"))
    assert (ended.returncode, ended.stdout) == (124, b"begun\n")
    assert b"the time limit (resources.time) was reached" in ended.stderr


@RUNTIMES
def test_a_signal_reaches_the_command(sandbox: Project) -> None:
    running = sandbox.start("sh", "-c", "trap 'echo got; exit 9' TERM; echo up; while :; do sleep 0.1; done")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (9, b"got\n")


@pytest.mark.parametrize(
    ("place", "number"),
    covering(representative(METHODS, "oci", "podman"), [signal.SIGTERM, signal.SIGINT]),
    indirect=["place"],
)
def test_a_signal_ends_a_command_that_does_not_care(sandbox: Project, number: signal.Signals) -> None:
    # A shell of BusyBox catches SIGINT, and loses one that comes right before its exec.
    running = sandbox.start("sh", "-c", "(sleep 0.5; echo up) & exec sleep 50")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == 128 + number


@pytest.mark.parametrize(("place", "target"), covering(SOME, ["run", "launcher"]), indirect=["place"])
def test_kill_leaves_nothing(sandbox: Project, place: Place, target: str) -> None:
    marker = f"kill-{os.getpid()}-{target}-{place.method}"
    running = sandbox.start("sh", "-c", f"echo up; sleep 50; : {marker}")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(running.pid if target == "run" else int(children[0]), signal.SIGKILL)
    running.communicate(timeout=60)
    until(lambda: not naming(marker), "the sandbox goes on")
    until(lambda: place.containers() == [], "a container is left")
    assert sandbox.sandwright("cleanup").returncode == 0


@needs_groups
@RUNTIMES
def test_processes_are_bounded(sandbox: Project, place: Place) -> None:
    """gVisor's limit is on its own threads on the host, which do not match a sandbox's one by one."""
    limit = 200 if place.method == "gvisor" else 30
    settings = ("--set", f"resources.pids={limit}", "--time", "40s")
    bomb = "i=0; while [ $i -lt 300 ]; do sleep 8 & i=$((i + 1)); done; echo all"
    assert b"all" not in sandbox.run("sh", "-c", bomb, options=settings).stdout
    few = sandbox.run("sh", "-c", "sleep 0 & wait; echo all", options=settings)
    assert (few.returncode, few.stdout) == (0, b"all\n")


@OTHERS_OF_EACH
def test_the_image_is_not_there(sandbox: Project, place: Place) -> None:
    for name in ("SANDWRIGHT_ROOTFS",):
        sandbox.environment.pop(name, None)
    sandbox.environment["SANDWRIGHT_BUILD"] = str(sandbox.home / "nothing")
    ended = sandbox.run("touch", "file", options=("--set", "image=workspace"))
    assert ended.returncode == 125
    said = ended.stderr.decode()
    assert "image" in said
    assert "workspace" in said
    assert "sandwright " in said, "the command that helps"
    assert not (sandbox.root / "file").exists()


@ONE_OF_EACH
def test_many_at_once(sandbox: Project, place: Place) -> None:
    before, many = sandbox.tree(), 10 if THOROUGH else 3
    running = [sandbox.start("sh", "-c", f"echo {n}; exit 3") for n in range(many)]
    ended = [each.communicate(timeout=WAIT) for each in running]
    assert [(each.returncode, out) for each, (out, _) in zip(running, ended, strict=True)] == [
        (3, f"{n}\n".encode()) for n in range(many)
    ], [err for _, err in ended]
    until(lambda: place.containers() == [], "a container is left")  # Podman's monitor removes it
    assert sandbox.records() == []
    until(lambda: sandbox.tree() == before, "a placeholder is left")


def test_no_repository_is_completed_at_the_root(sandbox: Project) -> None:
    """The project can't become a repository inside: the host's Git would run programs in its settings."""
    config = '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = "touch ran; false"\\n'
    plant = (
        f"mkdir objects refs; echo ref: refs/heads/main >HEAD; printf '{config}' >config; echo e >commondir"
    )
    ended = sandbox.run("sh", "-c", f"cd '{sandbox.root}'; {plant}; echo ended")
    assert ended.stdout == b"ended\n", ended.stderr
    process.run("git", "status", cwd=sandbox.root, env=sandbox.environ, timeout=WAIT, check=False)
    found = {path.name for path in sandbox.root.iterdir()}
    assert {"HEAD", "config", "objects"} <= found
    assert not found & {"ran", "refs", "commondir"}
    for name in ("HEAD", "config"):
        (sandbox.root / name).unlink()
    (sandbox.root / "objects").rmdir()


@OTHERS_OF_EACH
def test_what_was_made_elsewhere_stops_the_next_run(sandbox: Project) -> None:
    """The message names the new file below the project, too."""
    agent = sandbox.home / ".claude"
    agent.mkdir()
    (agent / ".credentials.json").touch()
    policy = sandbox.policy.read_text()
    sandbox.policy.write_text(policy.replace("write: [$PROJECT]", "write: [$PROJECT, ~/.claude]"))
    ended = sandbox.run("sh", "-c", f"echo >'{agent}/settings.json'; mkdir file; echo >file/sandbox.yaml")
    said = ended.stderr.decode()
    assert f"{agent}/settings.json was made while it ran" in said
    assert f"new or changed while it ran: {sandbox.root}/file/sandbox.yaml" in said
    (sandbox.root / "file" / "sandbox.yaml").unlink()
    (sandbox.root / "file").rmdir()
    assert sandbox.run("echo", "ran").stdout == b""
    (agent / "settings.json").unlink()
    assert sandbox.run("echo", "ran").stdout == b"ran\n"


def test_a_server_of_mcp_gets_calls_of_listed_tools(sandbox: Project) -> None:
    """The rules are enforced outside, whatever the method (tests/session/test_mcp_stdio.py)."""
    sandbox.policy.write_text(f"{sandbox.policy.read_text()}mcp: {{tools: [search]}}\n")
    said, sent, status = serve_by_shell(sandbox)
    assert (said, sent, status) == ([(1, "error"), (2, "result")], ["search"], 7)
