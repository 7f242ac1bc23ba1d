"""gVisor in a container of Docker and of Podman, for real: accesses, denials, limits, leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import HostError
from sandwright.methods.gvisor.outer.container import OuterContainer, outer_container
from sandwright.methods.gvisor.outer.render import Grant, grant
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp import profile
from support.cgroups import needs_groups
from support.goldens import write_artifacts
from support.outerimages import OuterHost, outer_host, unpacked_root
from support.thorough import representative
from support.waiting import eventually

POLICY = """\
schema: 1
method: gvisor
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/secrets, $PROJECT/token]
environment:
  pass: [ODD, "SANDWRIGHT_*"]
  set: {CI: "it's 1"}
"""
ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox", "apt-get")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox", "apt-get")),
]
LIMIT = 60.0
under_docker = pytest.mark.parametrize("host", ENGINES[:1], indirect=True, scope="module")
"""The session program behaves the same under every engine, so these tests run under one."""
under_podman = pytest.mark.parametrize(
    "host", representative(ENGINES, "podman"), indirect=True, scope="module"
)


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest) -> Iterator[OuterHost]:
    with outer_host(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_root(tmp_path_factory.mktemp("outer") / "rootfs")


@dataclass(frozen=True)
class Sandbox:
    """A project, and gVisor in one engine for it."""

    host: OuterHost
    root: Path
    project: Path
    folder: Path
    session: Path

    def policy(self, policy: str = "", **facts: Any) -> ResolvedPolicy:
        loaded = Policy.from_text(f"{POLICY}{policy}gvisor: {{engine: {self.host.engine.name}}}\n")
        found = collect_facts(loaded, project=self.project, environ={"HOME": str(self.project.parent)})
        return loaded.resolve(replace(found, **facts))

    def argv(self, policy: str = "") -> list[str]:
        """The launcher, with the name of these tests' image in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        artifacts = render(self.policy(policy), "gvisor").artifacts
        named = [
            replace(each, content=each.content.replace(_IMAGE, self.host.image.encode()))
            for each in artifacts
        ]
        return [str(write_artifacts(self.folder, named) / "launch")]

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "HOME": str(self.project.parent),
            "XDG_RUNTIME_DIR": str(self.session),
            "SANDWRIGHT_ROOTFS": str(self.root),
        }
        return {**self.host.engine.environment, **own}

    def sh(self, script: str, policy: str = "", **environment: str) -> process.Result:
        return self.run("sh", "-c", script, policy=policy, **environment)

    def run(self, *command: str, policy: str = "", **environment: str) -> process.Result:
        env = {**self.environment, **environment}
        return process.run(*self.argv(policy), *command, timeout=LIMIT, check=False, env=env)

    @contextlib.contextmanager
    def container(self, *, rootless: bool = False, given: Grant | None = None) -> Iterator[OuterContainer]:
        uid = 1000 if rootless else 0
        policy = self.policy("", uid=uid, gid=uid, user="caller" if rootless else "root")
        own = {"image": self.host.image, "environment": self.host.engine.environment}
        with outer_container(policy, self.root, granted=given, **own) as made:  # type: ignore[arg-type]
            yield made

    def containers(self) -> list[str]:
        words = ["ps", "--all", "--filter", "label=sandwright.session", "--format", "{{.Names}} {{.Image}}"]
        names = self.host.engine.run(*words).text.splitlines()
        return [line for line in names if self.host.image.partition(":")[0] in line]

    def left(self) -> list[str]:
        return [*self.containers(), *(path.name for path in self.session.glob("sandwright/runs/*"))]


_IMAGE = b"sandwright/gvisor:latest"


@pytest.fixture
def sandbox(host: OuterHost, root: Path, tmp_path: Path) -> Iterator[Sandbox]:
    project = tmp_path / "home" / "p"
    for name in ("secrets/key", "token", "LICENSE", "../.ssh/id"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content")
    (tmp_path / "session").mkdir()
    made = Sandbox(host, root, project, tmp_path / "out", tmp_path / "session")
    yield made
    assert made.left() == []


@under_podman
def test_files_variables_and_status(sandbox: Sandbox) -> None:
    """The container's own variables and its view of the host do not get in either."""
    odd = "a=b 'c\" $HOME \\n\ttab ü"
    result = sandbox.sh(
        "cat LICENSE; echo new >file; cat file; echo t >/tmp/t && cat /tmp/t; env | sort; (echo x >LICENSE); "
        "cat secrets/key; wc -c <token; (echo x >token); cat ../.ssh/id; touch /bin/x; touch secrets/y; "
        "rm -r secrets; ls / /host /sandwright; uname -v; exit 7",
        ODD=odd,
        SANDWRIGHT_FLAGS="--platform=kvm",
        SANDWRIGHT_OTHER="passed",
    )
    text = result.stdout.decode()
    assert result.status == 7, result.stderr
    assert text.startswith("contentnew\nt\n")
    assert "CI=it's 1\n" in text
    assert f"ODD={odd}\n" in text
    assert "SANDWRIGHT_OTHER=passed\n" in text
    assert "SANDWRIGHT_FLAGS" not in text
    assert "SANDWRIGHT_PASSED" not in text
    assert "#1 SMP Sun Jan 10 15:06:54 PST 2016" in text, "the kernel that answers is gVisor's"
    for said in (
        "can't create LICENSE: Read-only file system",
        "can't open 'secrets/key': No such file or directory",
        "can't open token: Permission denied",
        "can't open '../.ssh/id': No such file or directory",
        "touch: /bin/x: Read-only file system",
        "ls: /host: No such file or directory",
        "ls: /sandwright: No such file or directory",
    ):
        assert said in result.stderr, result.stderr
    assert (sandbox.project / "file").read_text() == "new\n"
    assert (sandbox.project / "token").read_text() == "content"
    assert (sandbox.project / "secrets/key").read_text() == "content"


@needs_groups
def test_what_the_outer_container_is_given(sandbox: Sandbox) -> None:
    """The engine and the kernel are asked for its privileges while it runs."""
    read, write = os.pipe()
    with process.start(*sandbox.argv("resources: {memory: 256MiB, cpus: 1, pids: 256}\n"), "sh", "-c",
                       "echo there; cat", stdin=read, env=sandbox.environment) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        name = sandbox.containers()[0].split()[0]
        found = sandbox.host.engine.run("inspect", "--format", "{{json .}}", name).text
        script = "grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/1/status; ls /host"
        inside = sandbox.host.engine.run("exec", name, "/bin/busybox", "sh", "-c", script).text
        given = json.loads(found)
        given = given[0] if isinstance(given, list) else given
        kernel = _kernel_of(given["State"]["Pid"])
        os.close(write)
        assert running.wait(timeout=LIMIT) == 0
    os.close(read)
    wanted = 1 << 6 | 1 << 7 | 1 << 18 | 1 << 21  # SETGID, SETUID, SYS_CHROOT, SYS_ADMIN
    assert f"CapBnd:\t{wanted:016x}" in inside
    assert "NoNewPrivs:\t1" in inside
    assert "Seccomp:\t2" in inside
    assert kernel["Uid"] == ["65534"] * 4, "gVisor's kernel is nobody, and opens no files (--directfs=false)"
    assert kernel["CapEff"] == kernel["CapPrm"] == ["0" * 16]
    told = {
        name: given["HostConfig"][name]
        for name in ("Privileged", "ReadonlyRootfs", "Memory", "PidsLimit", "NetworkMode")
    }
    assert told == {
        "Privileged": False,
        "ReadonlyRootfs": True,
        "Memory": 256 << 20,
        "PidsLimit": 256,
        "NetworkMode": "none",
    }
    assert "unconfined" not in found


def _kernel_of(first: int) -> dict[str, list[str]]:
    """The fields of /proc/PID/status of gVisor's kernel, a process below the container's first one."""
    waiting = [first]
    while waiting:
        pid = waiting.pop()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"boot" in words:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        children = Path(f"/proc/{pid}/task").glob("*/children")
        waiting += [int(word) for each in children for word in each.read_text().split()]
    raise AssertionError(f"no kernel of gVisor runs below process {first}")


@under_docker
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (("nosuch",), 127, "sandbox: the command is not in the image, or not on its PATH"),
        (("/etc/hosts",), 126, "sandbox: the command can not be executed"),
        (("/usr",), 126, "sandbox: the command can not be executed"),
    ],
    ids=["missing", "no-program", "directory"],
)
def test_what_can_not_be_run_is_told(
    sandbox: Sandbox, command: tuple[str, ...], status: int, said: str
) -> None:
    result = sandbox.run(*command)
    assert result.status == status, result.stderr
    assert said in result.stderr


@under_docker
def test_memory_holds(sandbox: Sandbox) -> None:
    limits = "resources: {memory: 128MiB}\n"
    taken = sandbox.sh("head -c 300000000 /dev/zero | tail -n 1 | wc -c; echo survived", limits)
    assert taken.status != 0
    assert b"300000000" not in taken.stdout
    assert "sandbox: the memory that resources.memory allows was used up" in taken.stderr
    less = sandbox.sh("head -c 20000000 /dev/zero | tail -n 1 | wc -c", limits)
    assert (less.status, less.stdout) == (0, b"20000000\n"), less.stderr


@under_docker
def test_logs_are_kept_when_asked_for(sandbox: Sandbox, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    assert sandbox.run("true", SANDWRIGHT_RUNSC_LOG=str(logs)).status == 0
    kept = [path.name for path in logs.rglob("*.debug")]
    assert len(kept) == 1
    assert "Exiting with status: 0" in next(logs.rglob("*.debug")).read_text()


@under_docker
def test_a_signal_reaches_the_command(sandbox: Sandbox) -> None:
    script = "trap 'echo told; exit 9' TERM; echo there; while :; do sleep 0.1; done"
    with process.start(*sandbox.argv(), "sh", "-c", script, env=sandbox.environment) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=LIMIT)
    assert (running.returncode, out) == (9, b"told\n"), err


@under_podman
def test_nothing_is_left_of_a_killed_launcher(sandbox: Sandbox) -> None:
    with process.start(
        *sandbox.argv(), "sh", "-c", "echo there; sleep 600", env=sandbox.environment
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        assert len(sandbox.containers()) == 1
        os.kill(running.pid, signal.SIGKILL)
        eventually(lambda: not sandbox.left(), within=LIMIT)
    assert sandbox.left() == []


@under_docker
def test_a_terminal(sandbox: Sandbox) -> None:
    script = "tty; stty size; echo -n word? ; read line; echo got $line; exit 5"
    words = " ".join(f"'{each}'" for each in [*sandbox.argv(), "sh", "-c", script])
    typed = subprocess.run(
        ["script", "--quiet", "--return", "--command", f"stty rows 33 cols 77; exec {words}", "/dev/null"],
        input=b"hello\n",
        capture_output=True,
        env={**sandbox.environment, "TERM": "xterm"},
        timeout=LIMIT,
        check=False,
    )
    assert typed.returncode == 5, typed
    assert b"33 77" in typed.stdout
    assert b"got hello" in typed.stdout


@pytest.mark.parametrize("rootless", [False, True], ids=["rootful", "rootless"])
def test_a_container_holds_many_sandboxes(sandbox: Sandbox, rootless: bool) -> None:
    sandbox.project.chmod(0o777)
    with sandbox.container(rootless=rootless) as outer:
        outer.create("one", "sh", "-c", "echo began; echo oops >&2; exec sleep 600", variables={"A": "b c"})
        with pytest.raises(HostError, match="there is a session one already"):
            outer.create("one", "true")
        outer.start("one")
        entered = outer.exec("one", "sh", "-c", f"echo x >{sandbox.project}/by-exec; id -u; exit 6")
        assert (entered.status, entered.stdout) == (6, b"0\n"), entered.stderr
        owner = (sandbox.project / "by-exec").stat().st_uid
        if os.geteuid() == 0:
            assert owner == (1000 if rootless else 0)
        else:  # one of this user's other ids, or the user
            assert (owner != os.geteuid()) == rootless
        other = outer.run("sh", "-c", "echo $A; ps | wc -l; exit 3", variables={"A": "it's $1"})
        assert (other.status, other.stdout.splitlines()[0]) == (3, b"it's $1"), other.stderr
        assert outer.sandboxes() == ("one",)
        outer.kill("one", "KILL")
        assert outer.wait("one") == 137
        output = outer.output("one")
        assert (output.stdout, output.stderr) == (b"began\n", "oops\n")
        outer.delete("one")
        assert outer.sandboxes() == ()
        with pytest.raises(HostError, match="there is no session one"):
            outer.start("one")
    assert sandbox.containers() == []


@under_docker
def test_less_than_was_measured_is_too_little(sandbox: Sandbox) -> None:
    """Without one capability, or one system call, gVisor does not start, and the message names it."""
    usual = grant(rootless=False)
    fewer = replace(usual, capabilities=tuple(each for each in usual.capabilities if each != "CAP_SYS_ADMIN"))
    for given in (fewer, replace(usual, seccomp=profile("default"))):
        with sandbox.container(given=given) as outer:
            result = outer.run("true", limit=LIMIT)
            assert result.status == 125
            assert "sandbox: the container's" in result.stderr, result.stderr


@under_podman
def test_the_hosts_authorities_lie_over_the_images(sandbox: Sandbox, tmp_path: Path) -> None:
    place = sandbox.root / "etc/ssl/certs/ca-certificates.crt"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("the image's\n")
    certificate = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
    own = tmp_path / "own.pem"
    own.write_text(f"{certificate}-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n")
    script = 'cat "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS" && ! echo >>"$SSL_CERT_FILE"'
    result = sandbox.sh(script, "network: {mode: host}\n", SSL_CERT_FILE=str(own))
    assert (result.status, result.stdout.decode()) == (0, 2 * certificate), result.stderr
    assert place.read_text() == "the image's\n"
