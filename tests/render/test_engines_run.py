"""The rendered launchers of Docker and Podman, started for real: permitted and denied accesses, and
leftovers.

Tests of launcher/source/engine_words.c.
Tests of methods/shared/engine/plan.py.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from support.cgroups import needs_groups
from support.enginehosts import EngineHost, engine_host
from support.filetrees import paths_below
from support.goldens import write_artifacts
from support.processtrees import naming
from support.thorough import THOROUGH, covering, representative
from support.waiting import until

POLICY = """\
schema: 1
method: docker
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/secrets, $PROJECT/token]
environment:
  pass: [TERM, "LC_*", HOME, ODD]
  set: {CI: "it's 1"}
"""
ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
DOCKER = pytest.mark.parametrize("host", representative(ENGINES, "docker"), indirect=True)
PODMAN = pytest.mark.parametrize("host", representative(ENGINES, "podman"), indirect=True)
"""For tests in which the launcher does the same for both; session/test_run_containers.py runs either."""
HEARD = ("env", "--default-signal=INT")
"""A shell can't catch a signal that was ignored at its start, and jobs of `&` ignore a terminal's keys."""


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest) -> Iterator[EngineHost]:
    with engine_host(request.param) as found:
        yield found


@dataclass(frozen=True)
class Sandbox:
    """A project, and the launcher of one engine for it."""

    host: EngineHost
    project: Path
    folder: Path
    session: Path

    def argv(self, policy: str = "", *, image: str = "", base: str = POLICY, **facts: Any) -> list[str]:
        """The launcher, rendered for additions to the policy and changes of the host's facts."""
        loaded = Policy.from_text(f"{base}{policy}image: {image or self.host.image}\n")
        found = collect_facts(loaded, project=self.project, environ={"HOME": str(self.project.parent)})
        rendered = render(loaded.resolve(replace(found, **facts)), self.host.name)
        return [str(write_artifacts(self.folder, rendered.artifacts) / "launch")]

    def environment(self, **more: str) -> dict[str, str]:
        base = {"HOME": str(self.project.parent), "XDG_RUNTIME_DIR": str(self.session)}
        return {**self.host.environment, **base, **more}

    def sh(self, script: str, policy: str = "", **environment: str) -> process.Result:
        """Run a shell's script in the sandbox."""
        return self.run("sh", "-c", script, policy=policy, **environment)

    def run(self, *command: str, policy: str = "", **environment: str) -> process.Result:
        env = self.environment(**environment)
        return process.run(*self.argv(policy), *command, timeout=60, check=False, env=env)

    def left(self) -> list[str]:
        """The leftovers of runs: containers, and directories of the launcher."""
        names = set(self.host.containers())
        return [*sorted(names), *(path.name for path in self.session.glob("sandwright/runs/*"))]


@pytest.fixture
def sandbox(host: EngineHost, tmp_path: Path) -> Iterator[Sandbox]:
    project = tmp_path / "home" / "p"
    for name in (".git/hooks/x", ".git/config", ".git/HEAD", "secrets/key", "token", "LICENSE", "../.ssh/id"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content")
    (tmp_path / "session").mkdir()
    made = Sandbox(host, project, tmp_path / "out", tmp_path / "session")
    yield made
    assert made.left() == []


def test_files(sandbox: Sandbox) -> None:
    before = paths_below(sandbox.project)
    result = sandbox.sh(
        "cat LICENSE; echo new >file; cat file; echo t >/tmp/t && cat /tmp/t; (echo x >LICENSE); "
        "cat secrets/key; cat token; (echo x >token); cat ../.ssh/id; "
        "mv .git moved; touch .git/hooks/y; touch .git/commondir; "
        "touch .git/free; touch /bin/x; touch /volume/x; touch secrets/y; rm -r secrets; exit 7"
    )
    assert (result.status, result.stdout) == (7, b"contentnew\nt\n"), result.stderr
    for said in (
        "can't create LICENSE: Read-only file system",
        "can't open 'secrets/key': No such file or directory",
        "can't open 'token': Permission denied",
        "can't create token: Read-only file system",
        "can't open '../.ssh/id': No such file or directory",
        "can't rename '.git': Device or resource busy",
        "touch: .git/hooks/y: Read-only file system",
        "touch: .git/commondir: Read-only file system",
        "touch: /bin/x: Read-only file system",
        "touch: secrets/y: Read-only file system",
        "can't remove 'secrets': Device or resource busy",
    ):
        assert said in result.stderr
    assert paths_below(sandbox.project) == before | {"file", ".git/free"}
    assert not Path("/tmp/t").exists()


def test_rights(sandbox: Sandbox) -> None:
    status = sandbox.sh("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").text.split()
    found = dict(zip(status[::2], status[1::2], strict=True))
    none = "0" * 16
    assert found == {
        **dict.fromkeys(("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"), none),
        "NoNewPrivs:": "1",
        "Seccomp:": "2",
    }
    for kind in ("pid", "ipc", "uts", "net", "mnt", "cgroup"):
        inside = sandbox.sh(f"readlink /proc/self/ns/{kind}").text
        assert inside.startswith(kind)
        assert inside != str(Path(f"/proc/self/ns/{kind}").readlink())


def test_the_filter_is_ours(sandbox: Sandbox) -> None:
    """Podman's own filter permits user namespaces, and Docker's differs from ours, too."""
    refused = sandbox.sh("unshare -U true")
    assert not refused
    assert "Operation not permitted" in refused.stderr
    assert sandbox.sh("chmod 600 file 2>/dev/null; touch a && chmod 600 a && rm a")


def test_privileged(sandbox: Sandbox) -> None:
    """The user is root of the container, with the capabilities to become another user, and no more."""
    policy = "process: {sandbox_root: true}\n"
    assert sandbox.sh("id -u; grep NoNewPrivs: /proc/self/status | tr -cd 01", policy).text.split() == [
        "0",
        "0",
    ]
    assert sandbox.sh("touch a && chown 77 a && stat -c %u a", policy).text == "77"
    assert "Operation not permitted" in sandbox.sh("touch b && chown 77 b").stderr
    for path in (sandbox.project / "a", sandbox.project / "b"):
        path.unlink()


@PODMAN
def test_the_environment(sandbox: Sandbox) -> None:
    """A passed variable keeps every byte and is in no command line; a secret is nowhere."""
    odd = "one\nLC_FAKE=two\n'\"$(id) \\ é"
    given = {"LC_ODD": odd, "TOKEN": "PLANTED", "HTTP_PROXY": "http://PLANTED", "ALL_PROXY": "PLANTED"}
    given |= {"ODD": "UNSEEN-VALUE", "LD_PRELOAD": "", "SW_X": "PLANTED"}
    env = sandbox.environment(**given)
    words = ("sh", "-c", "env -0; echo; cat /proc/*/environ | grep -c PLANTED; read line")
    with process.start(*sandbox.argv(), *words, env=env, stdin=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        variables = b""
        while not variables.endswith(b"\n0\n"):
            byte = running.stdout.read(1)
            assert byte, variables
            variables += byte
        assert naming(b"UNSEEN-VALUE") == {}
        assert naming(sandbox.project.name.encode() + b"/token") != {}  # they are looked at
        running.stdin.close()
        running.wait(timeout=60)
    found = dict(entry.split(b"=", 1) for entry in variables.partition(b"\0\n")[0].split(b"\0"))
    assert found[b"LC_ODD"] == odd.encode()
    assert found[b"CI"] == b"it's 1"
    assert found[b"IMAGE"] == b"its-own"
    own = {b"PATH", b"PWD", b"HOSTNAME", b"SHLVL", b"TERM", b"container"}
    if sandbox.host.name == "podman":
        assert found.pop(b"HTTP_PROXY") == b"http://image.invalid"  # the image's own, like IMAGE
    assert found.keys() - own == {b"LC_ODD", b"ODD", b"CI", b"IMAGE", b"HOME", b"SANDWRIGHT_INSIDE"}


@PODMAN
def test_words_arrive_to_the_letter(sandbox: Sandbox) -> None:
    words = [
        "",
        "a b",
        "it's",
        '"',
        "\\n",
        "new\nline",
        "é",
        "\t\x01\x7f",
        "$(id)",
        "--",
        "a=b",
        "--env=X",
        "*",
    ]
    script = 'for word; do echo "<$word>"; done'
    result = sandbox.run("sh", "-c", script, "sh", *words)
    assert result.stdout.decode() == "".join(f"<{word}>\n" for word in words), result.stderr


@pytest.mark.parametrize(
    ("host", "raw"),
    covering(ENGINES, [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80", b"\xe9t\xe9"]),
    indirect=["host"],
)
def test_what_an_engine_would_change_is_refused(sandbox: Sandbox, raw: bytes) -> None:
    """The engine's interface is JSON: any other byte would become a replacement character."""
    text = os.fsdecode(raw)
    refused = sandbox.run("touch", f"file{text}")
    assert (refused.status, refused.stdout) == (125, b"")
    assert "an argument of the command is not valid UTF-8" in refused.stderr
    refused = sandbox.run("touch", "file", ODD=text)
    assert refused.status == 125
    assert "the variable ODD is not valid UTF-8" in refused.stderr
    assert not list(sandbox.project.glob("file*"))


def test_no_network(sandbox: Sandbox) -> None:
    """A listener of the host is the witness: it is reached with the host's network, and not without."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"echo x | nc -w 2 127.0.0.1 {port}; tail -n +3 /proc/net/dev | cut -d: -f1"
        server.settimeout(3)
        result = sandbox.sh(reach)
        assert result.text == "lo"
        assert "Connection refused" in result.stderr
        with pytest.raises(TimeoutError):
            server.accept()
        accepted: list[bytes] = []
        thread = threading.Thread(target=lambda: accepted.append(server.accept()[0].recv(2)))
        thread.start()
        before = _interfaces()
        shared = sandbox.sh(reach, "network: {mode: host}\n").text.split()
        thread.join(timeout=30)
        assert accepted == [b"x\n"]
    assert before & _interfaces() <= set(shared)  # others come and go


def _interfaces() -> set[str]:
    return {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}


def test_nothing_is_told_of_the_host_s_network(sandbox: Sandbox) -> None:
    told = sandbox.sh("cat /etc/hosts /etc/resolv.conf; hostname").text
    assert told.split("\n") == [
        "127.0.0.1\tlocalhost sandbox", "::1\tlocalhost", "# There is no network.", "sandbox",
    ]  # fmt: skip


MANY = "i=0; while [ $i -lt 40 ]; do sleep 2 & i=$((i + 1)); done; echo all"
FILL = "dd if=/dev/zero of=/dev/null bs=60M count=1"


LIMITS = {
    "pids": ("pids: 20", "pids: 100", MANY, "can't fork"),
    "memory": ("memory: 20MiB", "memory: 200MiB", FILL, ""),
    "files": (
        *("files: 40", "files: 80", "ulimit -H -n; ulimit -S -n; ulimit -n 80"),
        "Operation not permitted",
    ),
}


LIMIT_PARAMETERS = [*(pytest.param(each, marks=needs_groups) for each in ("pids", "memory")), "files"]


@pytest.mark.parametrize(("host", "limit"), covering(ENGINES, LIMIT_PARAMETERS), indirect=["host"])
def test_limits_hold(sandbox: Sandbox, limit: str) -> None:
    tight, wide, script, said = LIMITS[limit]
    free = sandbox.sh(script, f"resources: {{{wide}}}\n")
    assert free.status == 0, free.stderr
    limited = sandbox.sh(script, f"resources: {{{tight}}}\n")
    assert limited.stdout != free.stdout or not limited
    assert said in limited.stderr


@needs_groups
@PODMAN
def test_a_share_of_processors(sandbox: Sandbox) -> None:
    """The limit is in the container's own cgroup, and a process that needs more is throttled."""
    group = "/sys/fs/cgroup/cpu/cpu.stat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.stat"
    busy = f"timeout 1 sh -c 'while :; do :; done'; cat {group} /sys/fs/cgroup/cpu.max 2>/dev/null"
    held = sandbox.sh(busy, "resources: {cpus: 0.2}\n").text
    free = sandbox.sh(busy).text
    assert re.search(r"^20000\b", held, re.MULTILINE)
    assert re.search(r"^(-1|max)\b", free, re.MULTILINE)
    assert re.search(r"^nr_throttled [1-9]", held, re.MULTILINE)
    assert not re.search(r"^nr_throttled [1-9]", free, re.MULTILINE)


@PODMAN
def test_statuses(sandbox: Sandbox) -> None:
    for script, status in (
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 125", 125),
        ("kill -9 $$", 137),
        ("kill $$", 143),
    ):
        assert sandbox.sh(script).status == status
    assert sandbox.run("/no/such/program").status == 127
    silent = sandbox.sh("exit 125")
    assert silent.stderr == ""


@PODMAN
def test_a_missing_image_is_named(sandbox: Sandbox) -> None:
    engine = sandbox.host.name
    argv = sandbox.argv(image="sandwright-engines-none:1")
    refused = process.run(*argv, "true", env=sandbox.environment(), timeout=60, check=False)
    assert refused.status == 125
    said = (
        f"the image sandwright-engines-none:1 is not here, and is not downloaded: {engine} pull sandwright-"
    )
    assert said in refused.stderr


@DOCKER
def test_time_is_up(sandbox: Sandbox) -> None:
    before, started = paths_below(sandbox.project), time.monotonic()
    result = sandbox.sh("echo begun; sleep 50", "resources: {time: 3s}\n")
    assert (result.status, result.text) == (124, "begun"), result.stderr
    assert result.stderr.endswith("sandbox: the time limit (resources.time) was reached\n")
    assert time.monotonic() - started < 30
    assert paths_below(sandbox.project) == before
    assert sandbox.sh("exit 3", "resources: {time: 50s}\n").status == 3


@pytest.mark.parametrize(
    ("host", "number"),
    covering(ENGINES, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]),
    indirect=["host"],
    ids=str,
)
def test_signals_reach_the_command(sandbox: Sandbox, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    wait = "i=0; while [ $i -lt 400 ]; do sleep 0.1; i=$((i + 1)); done"
    script = f"trap 'echo got; exit 9' {name}; echo up; {wait}"
    with process.start(*HEARD, *sandbox.argv(), "sh", "-c", script, env=sandbox.environment()) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(number)
        assert running.stdout.read() == b"got\n"
        assert running.wait(timeout=60) == 9


def test_a_signal_reaches_it_whatever_the_client_does_with_one(sandbox: Sandbox, tmp_path: Path) -> None:
    """Until 4.5, a signal just after the start kills Podman's client; at any time, one kills the stand-in."""
    if sandbox.host.name == "docker":
        pytest.skip("Docker's client takes them before it starts anything")
    programs = tmp_path / "bin"
    programs.mkdir()
    path = sandbox.environment().get("PATH", os.environ["PATH"])
    real = shutil.which("podman", path=path)
    own = (
        f'#!/bin/sh\n[ "$1" != run ] || {{ shift && set -- run --sig-proxy=false "$@"; }}\nexec {real} "$@"\n'
    )
    (programs / "podman").write_text(own)
    (programs / "podman").chmod(0o755)
    path = f"{programs}:{path}"
    script = "trap 'echo got; exit 9' INT; echo up; for i in $(seq 400); do sleep 0.1; done"
    argv = (*HEARD, *sandbox.argv(), "sh", "-c", script)
    with process.start(*argv, env=sandbox.environment(PATH=path)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == b"got\n"
        assert running.wait(timeout=60) == 9


@pytest.mark.parametrize(
    ("host", "number"), covering(ENGINES, [signal.SIGINT, signal.SIGTERM]), indirect=["host"], ids=str
)
def test_a_signal_ends_what_does_not_handle_it(sandbox: Sandbox, number: signal.Signals) -> None:
    with process.start(
        *HEARD, *sandbox.argv(), "sh", "-c", "echo up; exec sleep 50", env=sandbox.environment()
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(number)
        assert running.wait(timeout=60) == 128 + number
    assert sandbox.left() == []


@PODMAN
@pytest.mark.needs("setsid")
def test_a_key_of_the_terminal_comes_once(sandbox: Sandbox) -> None:
    """Ctrl-C is a signal to both launcher and client; the command gets it from the client alone."""
    leader, follower = pty.openpty()
    script = "n=0; trap 'n=$((n + 1))' INT; echo up; for i in $(seq 20); do sleep 0.1; done; echo $n"
    argv = ["setsid", "--ctty", "--wait", *sandbox.argv(), "sh", "-c", script]
    with process.start(*argv, env=sandbox.environment(), stdin=follower) as running:
        os.close(follower)
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        os.write(leader, b"\x03")
        assert running.stdout.read() == b"1\n"
        assert running.wait(timeout=60) == 0
    os.close(leader)


@DOCKER
def test_what_ignores_its_end_is_ended(sandbox: Sandbox) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.2; done"
    with process.start(*sandbox.argv(), "sh", "-c", script, env=sandbox.environment()) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.terminate()
        assert running.wait(timeout=40) == 143


@pytest.mark.parametrize(
    ("host", "whole_group", "delay"),
    covering(
        covering(ENGINES, [pytest.param(False, id="one"), pytest.param(True, id="group")], thorough=True),
        [None, 0.0, 0.02, 0.08, 0.15, 0.3] if THOROUGH else [None, 0.02, 0.15],
    ),
    indirect=["host"],
)
def test_killed(sandbox: Sandbox, delay: float | None, *, whole_group: bool) -> None:
    """However early or late the launcher is killed, no container, monitor, placeholder or directory stays."""
    before = paths_below(sandbox.project)
    argv = sandbox.argv("resources: {time: 5m}\n")
    with process.start(*argv, "sh", "-c", "echo up; sleep 55", env=sandbox.environment()) as running:
        assert running.stdout is not None
        if delay is None:
            assert running.stdout.readline() == b"up\n"
            assert (sandbox.project / ".git" / "commondir").read_text() == ".\n"
            assert len(sandbox.host.containers()) == 1
        else:
            time.sleep(delay)
        (os.killpg if whole_group else os.kill)(running.pid, signal.SIGKILL)
        running.wait(timeout=10)
        until(lambda: not naming(argv[0].encode()))
    assert paths_below(sandbox.project) == before
    if sandbox.host.name == "podman":  # Podman's monitors, which it may not know of, name its store
        store = Path(sandbox.host.program).parents[1] / "store"
        until(lambda: not naming(str(store).encode()))
    assert sandbox.left() == []


@DOCKER
def test_the_session_is_named(sandbox: Sandbox) -> None:
    env = sandbox.environment(SANDWRIGHT_SESSION="a-session-7")
    with process.start(
        *sandbox.argv(), "sh", "-c", "echo up; read line", env=env, stdin=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.readline() == b"up\n"
        (name,) = sandbox.host.containers("sandwright.session=a-session-7")
        assert name.startswith("sandwright-")
        assert sandbox.host.containers("sandwright.session=a-session") == []
        running.stdin.close()
        assert running.wait(timeout=60) == 1
    refused = sandbox.run("true", SANDWRIGHT_SESSION="x --privileged")
    assert refused.status == 125
    assert "SANDWRIGHT_SESSION may contain only lower-case letters" in refused.stderr


@PODMAN
def test_the_standard_input_is_the_command_s(sandbox: Sandbox) -> None:
    content = bytes(range(256)) * 300
    argv = [*sandbox.argv(), "cat"]
    assert process.run(*argv, stdin=content, env=sandbox.environment(), timeout=60).stdout == content


@DOCKER
def test_a_terminal_is_passed_on(sandbox: Sandbox) -> None:
    leader, follower = pty.openpty()
    argv = [
        *sandbox.argv(),
        "sh",
        "-c",
        "test -t 0 && test -t 1 && echo terminal; stty size; read x; echo $x",
    ]
    with process.start(*argv, env=sandbox.environment(), stdin=follower, stdout=follower) as running:
        os.close(follower)
        os.write(leader, b"typed\n")
        said = b""
        while b"\ntyped\r\n" not in said.partition(b"terminal")[2]:
            said += os.read(leader, 100)
        assert running.wait(timeout=60) == 0
    os.close(leader)
    assert sandbox.sh("test -t 0 || test -t 1 || echo none").text == "none"


@pytest.mark.parametrize(
    ("host", "name"),
    covering(ENGINES, ["seccomp.json", "passwd", "group", "mounts", "hosts"]),
    indirect=["host"],
)
def test_nothing_runs_when_something_changed(sandbox: Sandbox, name: str) -> None:
    argv = sandbox.argv()
    with (sandbox.folder / name).open("a") as file:
        file.write("\n")
    refused = process.run(*argv, "touch", "ran", env=sandbox.environment(), timeout=60, check=False)
    assert refused.status == 125
    assert f"{name} was changed after it was rendered" in refused.stderr
    (sandbox.folder / name).unlink()
    refused = process.run(*argv, "touch", "ran", env=sandbox.environment(), timeout=60, check=False)
    assert refused.status == 125
    assert not (sandbox.project / "ran").exists()


HOSTILE = [
    "a,b",
    'q"t',
    "new\nline",
    "blank ",
    "co:lon",
    "back\\slash",
    "dollar$HOME",
    "é",
    "cr\rx",
    "-v",
    "it's",
]


def test_hostile_names(sandbox: Sandbox) -> None:
    """Read-only directories with names that have a meaning in a shell, in CSV, or in an engine."""
    for name in HOSTILE:
        (sandbox.project / name).mkdir()
        (sandbox.project / name / "f").write_text(name)
    quoted = ", ".join(_yaml(f"$PROJECT/{name.replace('$', '$$')}") for name in HOSTILE)
    base = POLICY.replace("[$PROJECT/LICENSE]", f"[{quoted}]")
    argv = sandbox.argv(base=base)
    each = 'printf "%s|" "$(cat "./$n/f")"; touch "./$n/g" 2>/dev/null && echo WRITTEN'
    script = f"for n; do {each}; done; touch free"
    result = process.run(*argv, "sh", "-c", script, "sh", *HOSTILE, env=sandbox.environment(), timeout=60)
    assert result.stdout.decode() == "".join(f"{name}|" for name in HOSTILE)
    assert (sandbox.project / "free").exists()


def _yaml(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.needs("mount")
def test_what_is_mounted_below_a_read_only_path(sandbox: Sandbox) -> None:
    """Docker before 25 and Podman would leave the mount writable, so no command runs."""
    data = sandbox.project / "data"
    (data / "inner").mkdir(parents=True)
    base = POLICY.replace("[$PROJECT/LICENSE]", "[$PROJECT/data]")
    script = ["sh", "-c", "touch data/inner/x; touch data/x; touch free"]
    env = sandbox.environment()
    free = process.run(*sandbox.argv(base=base), *script, env=env, timeout=60, check=False)
    assert free.status == 0
    assert free.stderr.count("Read-only file system") == 2
    process.run("mount", "-t", "tmpfs", "none", data / "inner", timeout=20)
    try:
        refused = process.run(*sandbox.argv(base=base), *script, env=env, timeout=60, check=False)
        assert not (data / "inner" / "x").exists()
        assert refused.status == 125
        assert f"would leave {data}/inner writable" in refused.stderr
    finally:
        process.run("umount", data / "inner", timeout=20)


@DOCKER
def test_nothing_runs_without_the_engine(sandbox: Sandbox, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "sha256sum", "awk", "id"):
        (programs / name).symlink_to(process.which(name))
    refused = process.run(*sandbox.argv(), "true", env={"PATH": str(programs)}, timeout=30, check=False)
    assert (refused.status, refused.stderr) == (125, f"sandbox: {sandbox.host.name} is not installed\n")


@DOCKER
def test_no_other_program_is_needed(sandbox: Sandbox, tmp_path: Path) -> None:
    """Only the engine's client and its own programs are needed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / sandbox.host.name).symlink_to(sandbox.host.program)
    env = sandbox.environment(LC_ODD="é\n", PATH=str(programs))
    argv = [*sandbox.argv(), "sh", "-c"]
    result = process.run(*argv, "echo $LC_ODD; cat LICENSE; exit 5", env=env, timeout=60, check=False)
    assert (result.status, result.text) == (5, "é\ncontent"), result.stderr
    with process.start(*argv, "echo up; exec sleep 50", env=env) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.terminate()
        assert running.wait(timeout=60) == 143
