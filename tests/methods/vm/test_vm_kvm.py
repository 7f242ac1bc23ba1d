"""QEMU's machine: restored from a copy, inside bubblewrap's sandbox.

KVM doesn't work on the development machine, so QEMU translates the processor's instructions here (TCG), which
users are not offered: only the plan's `accelerator` differs from a run with KVM.

Tests of launcher/guest/source/guestmachine.c.
Tests of launcher/source/qemu.c.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.errors import RenderError
from sandwright.host import collect_host
from sandwright.launcher.plan import LaunchPlan, parse_plan, plan_bytes
from sandwright.methods import registry
from sandwright.methods.vm import QEMU_FORM
from sandwright.methods.vm.kvm import VmKvm
from sandwright.methods.vm.machine import MACHINE, QEMU, machine
from sandwright.render.artifact import Artifact
from sandwright.verify.prove import prove
from sandwright.verify.sandbox import RenderedSandbox, materialize, probe_environment
from sandwright.verify.verdict import Verdict
from support.processtrees import below, children, program
from support.proving import resolver
from support.thorough import THOROUGH
from support.waiting import eventually
from support.weakening import plan

WAIT = 120
MEMORY = 160
POLICY = f"""\
schema: 1
method: vm
filesystem: {{write: [$PROJECT], readonly: [$PROJECT/kept], deny: [$PROJECT/.env, $PROJECT/deep/hidden]}}
environment: {{pass: [TERM]}}
resources: {{memory: {MEMORY}MiB, pids: 64}}
"""
REQUIRED = frozenset(os.environ.get("SANDWRIGHT_REQUIRE", "").split(","))
TAKEOVER = Path(__file__).parents[2] / "support" / "takeover.c"
pytestmark = [pytest.mark.needs("bwrap", QEMU), pytest.mark.xdist_group("qemu")]

Made = Callable[..., RenderedSandbox]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine that was started once."""
    if not Path("/vmlinuz").exists():
        why = "linux-image-amd64 is not installed"
        pytest.fail(why) if REQUIRED & {"/vmlinuz", "all"} else pytest.skip(why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return machine(MEMORY, "tcg")


@pytest.fixture
def sandbox(tmp_path: Path, kept: Path) -> Made:
    """Renders the policy for a project."""

    def made(place: Path = kept) -> RenderedSandbox:
        project = tmp_path / "project"
        (project / "kept/own").mkdir(parents=True, exist_ok=True)
        (project / "deep/hidden").mkdir(parents=True, exist_ok=True)
        for name in (".env", "plain", "kept/file", "deep/hidden/secret"):
            (project / name).write_text("content")
        policy = resolver(POLICY, tmp_path / "project")(())
        artifacts = _translated(registry.render(policy, QEMU_FORM).artifacts)
        started = materialize(artifacts, tmp_path / f"out-{uuid.uuid4().hex}")
        environment = {**probe_environment(tmp_path / "state"), MACHINE: str(place), "TERM": "dumb"}
        return RenderedSandbox(QEMU_FORM, started, started, environment)

    return made


def translated(plan: LaunchPlan) -> LaunchPlan:
    return dataclasses.replace(plan, vm=dataclasses.replace(plan.vm, accelerator="tcg"))


def _translated(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    def changed(content: bytes) -> bytes:
        found = parse_plan(content)
        assert found.vm.accelerator == "kvm"
        return plan_bytes(translated(found))

    return tuple(
        dataclasses.replace(each, content=changed(each.content)) if each.name == "launch.plan" else each
        for each in artifacts
    )


def _run(made: RenderedSandbox, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    given = {"PATH": f"{path}:{os.environ['PATH']}"} if path else {}
    return subprocess.run(
        [made.launcher, *words], capture_output=True, timeout=WAIT, check=False, text=True,
        stdin=subprocess.DEVNULL, env={**made.environment, **given},
        cwd=made.launcher.parent.parent / "project",
    )  # fmt: skip


SCRIPT = """
uname -r; ls /sys/class/net; ls -d /sys/bus/pci/devices/*; date +%s; sed -n 's/MemTotal: *//p' /proc/meminfo
echo y >made; cat .env; echo x >kept/x; mkdir moved; mv kept moved/; mknod line c 4 64
exit 7
"""


def test_the_policy_holds_inside(sandbox: Made, tmp_path: Path) -> None:
    ended = _run(sandbox(), "sh", "-c", SCRIPT)
    release, network, *devices, clock, memory = ended.stdout.splitlines()
    assert (network, ended.returncode) == ("lo", 7), ended.stderr
    assert release != os.uname().release
    assert len(devices) == 6, devices  # the board's four, the line, the files: no network, no disk
    assert abs(int(clock) - time.time()) < 30
    assert MEMORY * 512 < int(memory.split()[0]) < MEMORY * 1024
    said = [each.rpartition(": ")[2] for each in ended.stderr.splitlines()]
    assert said[:2] == ["Permission denied", "Read-only file system"]
    assert (tmp_path / "project/kept").is_dir()
    assert not (tmp_path / "project/line").exists()
    assert (tmp_path / "project/made").read_text() == "y\n"


DRAW = "cat /proc/sys/kernel/random/uuid"


def test_what_is_drawn_in_two_restored_machines_differs(sandbox: Made) -> None:
    drawn = [_run(sandbox(), "sh", "-c", DRAW).stdout for _ in range(3)]
    assert {len(each) for each in drawn} == {37}
    assert len(set(drawn)) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="giving a file away takes root")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("byte", "damaged"),
        ("short", "damaged"),
        ("owner", "other users have access"),
        ("open", "other users have access"),
    ],
)
def test_a_machine_that_is_spoiled_or_anothers_is_refused(
    sandbox: Made, kept: Path, tmp_path: Path, spoil: str, said: str
) -> None:
    place = shutil.copytree(kept, tmp_path / "machine")
    with (place / "memory").open("r+b") as file:
        file.seek(1 << 20)
        byte = file.read(1)
        file.seek(1 << 20)
        match spoil:
            case "byte":
                file.write(bytes([byte[0] ^ 1]))
            case "short":
                file.truncate()
            case "owner":
                os.chown(place, 12345, 12345)
            case _:
                place.chmod(0o770)
    ended = _run(sandbox(place), "true")
    assert (ended.returncode, said in ended.stderr) == (125, True), ended.stderr


def test_a_machine_is_made_again_where_it_is_not_whole(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parents[2]))
    before = (kept / "state").stat().st_ino
    assert machine(MEMORY, "tcg") == kept
    assert (kept / "state").stat().st_ino == before


@pytest.mark.parametrize("how", ["launcher", "both"])
def test_nothing_is_left(sandbox: Made, tmp_path: Path, how: str) -> None:
    made, ready = sandbox(), tmp_path / "project/ready"
    argv = [str(made.launcher), "sh", "-c", "echo >ready; sleep 600"]
    with subprocess.Popen(argv, env=dict(made.environment), cwd=ready.parent) as running:
        assert eventually(ready.exists)
        machines = [each for each in below(running.pid) if program(each) == QEMU]
        assert len(machines) == 1
        words = Path(f"/proc/{machines[0]}/cmdline").read_text().split("\0")
        assert {"-nodefaults", "-no-user-config", "-sandbox"} <= set(words)
        assert [each for each in words if "net" in each or "nic" in each] == ["-nic"]
        status = Path(f"/proc/{machines[0]}/status").read_text()
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status
        for pid in [running.pid] if how != "both" else [*children(running.pid), running.pid]:
            os.kill(pid, signal.SIGKILL)
        running.wait(WAIT)
    assert eventually(lambda: program(machines[0]) != QEMU)


def test_a_machine_that_is_taken_over_meets_the_sandbox(sandbox: Made, tmp_path: Path) -> None:
    """The probes run in place of QEMU, with its descriptors, under its filter, among its mounts."""
    made, project = sandbox(), tmp_path / "project"
    argv = ("cc", "-static", "-w", "-DNAMESPACES", f'-DPROJECT="{project}"', f"-DLAUNCHER={os.getpid()}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:  # no program inside can write there
        subprocess.run([*argv, "-o", f"{outside}/{QEMU}", TAKEOVER], check=True, timeout=WAIT)
        Path(outside).chmod(0o755)
        ended = _run(made, "true", path=outside)
    said = dict(re.findall(r"([\w-]+)=(\w+)", ended.stderr))
    done = {name for name, answer in said.items() if answer == "done"}
    assert {each for each in said if each.startswith("control-")} <= done, ended.stderr
    assert {each for each in done if not each.startswith("control-")} == {
        "denied-list",  # an empty placeholder
        "others",
        "udp",
    }  # its own file, and nowhere else
    assert len(said) > 43
    assert (project / "kept/file").read_text() == (project / ".env").read_text() == "content"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("network: {mode: proxy, allow: [example.com]}", "network.proxy"),
        ("network: {localhost: [8080]}", "network.localhost"),
        ("network: {expose: [8080]}", "network.expose"),
        ("network: {unix_sockets: [/run/a]}", "network.unix-sockets"),
        ("credentials: {shims: {gh: {allow: [auth status]}}}", "credentials.shims"),
    ],
)
def test_what_it_does_not_carry_is_refused(text: str, refused: str, tmp_path: Path) -> None:
    policy = resolver(f"schema: 1\nmethod: vm\n{text}\n", tmp_path / "project")(())
    with pytest.raises(RenderError, match=refused):
        registry.render(policy, QEMU_FORM)


def test_the_trial_decides_and_ends_in_time() -> None:
    """Without working KVM the preflight reports it; with it, a real start has succeeded."""
    begun = time.monotonic()
    found = VmKvm().preflight(collect_host())
    assert time.monotonic() - begun < 60
    assert found.ready or found.code in {"kernel-lacks", "hangs", "not-started", "program-missing"}
    assert found.ready or found.message


@pytest.mark.skipif(
    not THOROUGH, reason="QEMU translates each instruction: `invoke test --thorough` has time"
)
def test_the_probes_hold(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MACHINE, str(kept))
    translate = plan(lambda _, found: translated(found))
    proof = prove(
        resolver(POLICY, tmp_path / "project"), QEMU_FORM, weaken=translate, runs=False, secrets=False
    )
    assert sum(each.verdict is Verdict.PASS for each in proof.outcomes) > 50
    assert {each.probe: each.evidence for each in proof.outcomes if each.verdict is not Verdict.PASS} == {}
