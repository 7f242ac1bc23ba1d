"""Shims in every kind of container: the caller in the bridge's view, common behaviour, and refusals."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.directory import Bridge
from sandwright.errors import RenderError
from sandwright.methods.registry import render
from session.test_run_containers import busybox_root
from support.bridges import World, world
from support.enginehosts import PODMAN_NAMES, EngineHost, engine_host
from support.launchers import launcher_of
from support.rundocuments import bridged, launching
from support.thorough import representative

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
SHIMS = """\
credentials:
  shims:
    show: {secrets: {SHOWN: "${SANDBOX_SHOWN}"}, allow: ["*"]}
    cat: {allow: ["*"]}
"""
SHOW = r"""
case $SHOWN in sandbox-B-*) echo B ;; host-A-*) echo A ;; *) echo none ;; esac
case $1 in
    status) exit "$2" ;;
    kill) kill -s "$2" $$ ;;
    err) echo said >&2 ;;
    wait) trap 'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.05; done ;;
esac
"""
TOKENS = {"SANDBOX_SHOWN": f"sandbox-B-{uuid.uuid4().hex}", "SHOWN": f"host-A-{uuid.uuid4().hex}"}


@dataclass(frozen=True)
class Method:
    """A method whose image has busybox, and the variables that it needs."""

    name: str
    image: str
    environment: dict[str, str]
    engine: EngineHost | None


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Method]:
    name = request.param
    with contextlib.ExitStack() as stack:
        if name in ("docker", "podman"):
            engine = stack.enter_context(engine_host(name))
            yield Method(name, engine.image, dict(engine.environment), engine)
        elif name == "bwrap":
            yield Method(name, "debian", {"PATH": os.environ["PATH"]}, None)
        else:
            root = tmp_path_factory.mktemp("root")
            busybox_root(root)
            yield Method(name, "small", {"PATH": os.environ["PATH"], "SANDWRIGHT_ROOTFS": str(root)}, None)


@dataclass(frozen=True)
class Place:
    """A world with a method that runs sandboxes in its project."""

    method: Method
    world: World

    def policy(self, more: str = "") -> str:
        files = "filesystem: {read: [$PROJECT], write: [$PROJECT]}\n"
        return f"image: '{self.method.image}'\n{files if self.method.name != 'bwrap' else ''}{SHIMS}{more}"

    def command(
        self, bridge: Bridge | None, *words: str, more: str = "", policy: str | None = None
    ) -> list[str]:
        text = f"schema: 1\nmethod: {self.method.name}\n{self.policy(more) if policy is None else policy}"
        folder, environ = self.world.root / "out", {"HOME": str(self.world.root / "home")}
        shutil.rmtree(folder, ignore_errors=True)
        launcher = launcher_of(text, self.method.name, folder, project=self.world.project, environ=environ)
        return [launching(launcher, bridged(bridge)), *words]

    def environment(self) -> dict[str, str]:
        own = {"HOME": str(self.world.root / "home"), "XDG_RUNTIME_DIR": str(self.world.root / "run")}
        return {**self.method.environment, **own, **TOKENS}

    def run(self, bridge: Bridge | None, *words: str, stdin: bytes = b"", more: str = "") -> process.Result:
        return process.run(
            *self.command(bridge, *words, more=more), cwd=self.world.project, stdin=stdin, check=False,
            timeout=120, env=self.environment(), pass_fds=(bridge.channel,) if bridge else (),
        )  # fmt: skip

    @contextlib.contextmanager
    def started(self, bridge: Bridge, script: str) -> Iterator[subprocess.Popen[bytes]]:
        with process.start(
            *self.command(bridge, "sh", "-c", script), cwd=self.world.project, stdin=subprocess.DEVNULL,
            env=self.environment(), pass_fds=(bridge.channel,),
        ) as started:  # fmt: skip
            yield started

    @contextlib.contextmanager
    def bridge(self) -> Iterator[Bridge]:
        with self.world.bridge(SHIMS, environment=TOKENS) as running:
            yield running


@pytest.fixture
def place(method: Method) -> Iterator[Place]:
    with world() as made:
        (made.root / "run").mkdir(mode=0o700)
        made.tool("show", SHOW)
        yield Place(method, made)
        run, end = made.root / "run", time.monotonic() + 30
        while not _names(run) <= PLACES and time.monotonic() < end:
            time.sleep(0.1)  # the monitor of a killed launcher cleans up
        assert _names(run) <= PLACES


PLACES = {"sandwright", "sandwright/runs", "sandwright/placeholders"}


def _names(folder: Path) -> set[str]:
    """All paths except Podman's; paths that are being removed may be among them."""
    found = (Path(base, name) for base, folders, files in os.walk(folder) for name in (*folders, *files))
    own = (path.relative_to(folder) for path in found)
    return {path.as_posix() for path in own if path.parts[0] not in PODMAN_NAMES}


def test_what_passes(place: Place) -> None:
    """Statuses, signals, both outputs and binary input pass; no file of the bridge can be changed inside."""
    data = bytes(range(256)) * 4000
    script = """
        cat >copied; show; show status 42; echo $?; show kill KILL; echo $?; show err 2>said
        read -r line <said; echo "$line"
        echo "$PATH"; d=$(command -v show); d=${d%/bin/show}; echo "$d ${SHOWN-no variable}"
        touch "$d/x"; rm "$d/socket"; mv "$d/bin/show" "$d/bin/cat"; mv "$d" /tmp/y; chmod 777 "$d/socket"
        ls "$d/../private"
        show wait >said & until grep -q ready said; do sleep 0.05; done
        kill $!; wait $!; echo $?; tail -1 said
    """
    with place.bridge() as bridge:
        result = place.run(bridge, "sh", "-c", script, stdin=data)
        assert bridge.socket.stat().st_mode & 0o777 == 0o600
        there = {path.name for path in bridge.public.iterdir()} - {"port"}
    lines = result.text.splitlines()
    shims = "/dev/.sandwright" if place.method.name == "bwrap" else "/.sandwright"
    assert lines[:7] == ["B", "B", "42", "B", "137", "B", "said"], result.stderr
    assert lines[7].startswith(f"{shims}/bin:/")
    assert lines[8:] == [f"{shims} no variable", "9", "got TERM"]
    assert there == {"bin", "listen", "sandwright-enter", "shim", "socket"}
    assert (place.world.project / "copied").read_bytes() == data


@pytest.mark.needs("git", "ssh-keygen")
def test_a_signature(place: Place) -> None:
    """A policy with keys alone has no shim: the sandbox reaches its bridge, and no file or socket of ssh."""
    world, ssh = place.world, place.world.root / "home" / ".ssh"
    ssh.mkdir()
    process.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / "id")
    world.git("init", "-q", "-b", "main")
    person = "A <a@example.org> 1700000000 +0000"
    text = f"tree {world.git('write-tree')}\nauthor {person}\ncommitter {person}\n\nx\n".encode()
    signing = "credentials: {signing: [~/.ssh/id.pub]}\n"
    policy = place.policy().replace(SHIMS, signing)
    script = """
        ssh-keygen -Y sign -n git -f '~/.ssh/id.pub' || exit 1
        echo x | ssh-keygen -Y sign -n git -f '~/.ssh/id.pub'; echo $? >&2
        cat ~/.ssh/id /.ssh/id >&2; echo "${SSH_AUTH_SOCK-none}" >&2
    """
    with world.bridge(signing) as bridge:
        done = process.run(
            *place.command(bridge, "sh", "-c", script, policy=policy), cwd=world.project, stdin=text,
            check=False, timeout=120, env=place.environment(), pass_fds=(bridge.channel,),
        )  # fmt: skip
    assert "\n126\n" in done.stderr, done
    assert "OPENSSH PRIVATE" not in done.stderr
    assert done.stderr.endswith("none\n")
    (world.root / "sig").write_bytes(done.stdout)
    check = ("ssh-keygen", "-Y", "check-novalidate", "-n", "git", "-s", world.root / "sig")
    assert "Good" in process.run(*check, stdin=text).text


@pytest.mark.parametrize("method", representative(METHODS, "bwrap", "oci", "docker"), indirect=True)
def test_two_sandboxes_of_one_bridge(place: Place) -> None:
    """Both call at once, each through its own network; a shim may be the command itself."""
    with place.bridge() as bridge:
        script = "show; until [ -e go ]; do sleep 0.05; done; show"
        with place.started(bridge, script) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == b"B\n"
            second = place.run(bridge, "show", "status", "7")
            assert (second.status, second.stdout) == (7, b"B\n"), second.stderr
            (place.world.project / "go").touch()
            assert first.stdout.read() == b"B\n"
            assert first.wait(60) == 0


def test_a_neighbour_that_reads_the_cache(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that sees the socket of a later bridge could use its shims."""
    monkeypatch.setenv("HOME", str(place.world.root / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    cache = place.world.root / "home/.cache/sandwright"
    (cache / "sessions").mkdir(parents=True)  # `render` and `run` make it before they resolve a policy
    (cache / "seen").touch()
    policy = f"image: '{place.method.image}'\nfilesystem: {{read: [$PROJECT, ~/.cache], write: [$PROJECT]}}\n"
    script = 'echo ready; until [ -e go ]; do sleep 0.05; done; find "$1"'
    command = place.command(None, "sh", "-c", script, "sh", str(cache.parent), policy=policy)
    with process.start(*command, cwd=place.world.project, env=place.environment()) as neighbour:
        assert neighbour.stdout is not None
        assert neighbour.stdout.readline() == b"ready\n"
        with place.world.bridge(SHIMS, environment=TOKENS, directory=None) as bridge:
            assert bridge.socket.is_relative_to(cache)
            (place.world.project / "go").touch()
            found = neighbour.stdout.read().decode()
    assert f"{cache}/seen\n" in found
    assert "socket" not in found


def test_without_a_bridge_nothing_starts(place: Place) -> None:
    result = place.run(None, "touch", "started")
    assert (result.status, (place.world.project / "started").exists()) == (125, False)
    assert "the policy has shims, and no bridge is running" in result.stderr


def test_a_bridge_that_dies(place: Place) -> None:
    """The shim fails with 125, and never starts the program of that name in the image or on the host."""
    script = """
        d=$(command -v show); d=${d%/bin/show}
        echo ready; until [ -e dead ]; do sleep 0.05; done; "$d/sandwright-enter" - cat own; echo $?
    """
    (place.world.project / "own").write_text("read by the sandbox's own cat\n")
    with place.bridge() as bridge, place.started(bridge, script) as sandbox:
        assert sandbox.stdout is not None
        assert sandbox.stderr is not None
        assert sandbox.stdout.readline() == b"ready\n"
        os.kill(bridge.pid, signal.SIGKILL)
        os.waitid(os.P_PID, bridge.pid, os.WEXITED | os.WNOWAIT)
        (place.world.project / "dead").touch()
        assert sandbox.stdout.read() == b"125\n"
        assert b"cat: there is no bridge to the host" in sandbox.stderr.read()


def test_the_host_network(place: Place) -> None:
    with pytest.raises(RenderError, match=r"credentials\.shims: with network\.mode host"):
        place.command(None, "true", more="network: {mode: host}\n")


@pytest.mark.parametrize("refused", ["docker", "podman"])
def test_the_images_own_user(refused: str) -> None:
    with world() as made, pytest.raises(RenderError, match="serves only its owner"):
        render(made.policy(f"{SHIMS}user: {{mapping: 'off'}}\n"), refused)


@pytest.mark.parametrize("refused", ["kubernetes", "devcontainer"])
def test_where_there_is_no_session(refused: str) -> None:
    reason = r"cannot enforce credentials\.shims .*(in a shim's place|instead of the shim)"
    with world() as made, pytest.raises(RenderError, match=reason):
        render(made.policy(f"{SHIMS}filesystem: {{write: [$PROJECT]}}\n"), refused)


def test_root_that_is_not_the_caller() -> None:
    """With Docker, root inside is root outside, and not the user who owns the bridge."""
    with world() as made:
        policy = made.policy(f"{SHIMS}process: {{sandbox_root: true}}\n")
        render(replace(policy, facts=replace(policy.facts, uid=0)), "docker")
        with pytest.raises(RenderError, match="docker runs as root, whom the bridge refuses"):
            render(replace(policy, facts=replace(policy.facts, uid=1000)), "docker")
