"""The program inside the sandbox's own kernel: an artifact that does nothing anywhere else.

Tests of launcher/guest/source/guest.c.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.launcher import GUEST, LAUNCH
from sandwright.launcher.plan import LaunchPlan, MachinePlan, parse_plan, plan_bytes
from sandwright.methods import registry
from sandwright.methods.vm import LANDLOCK, QEMU_FORM
from sandwright.verify.sandbox import materialize, probe_environment
from support.proving import resolver

WAIT = 60
POLICY = """\
schema: 1
method: vm
filesystem: {write: [$PROJECT]}
resources: {memory: 128MiB}
"""
FORMS = pytest.mark.parametrize("form", ["vm", LANDLOCK])

Made = Callable[[str], Path]


@pytest.fixture
def launcher(tmp_path: Path) -> Made:
    """A launcher of one form, in the directory to which it was moved."""

    def made(form: str) -> Path:
        artifacts = registry.render(resolver(POLICY, tmp_path / "project")(()), form).artifacts
        here = materialize(artifacts, tmp_path / "out").parent
        return here.rename(tmp_path / "moved") / "launch"

    return made


def _run(launcher: Path, *words: str) -> tuple[int, str]:
    state = probe_environment(launcher.parent.parent / "state")
    ended = subprocess.run(
        [launcher, *words], capture_output=True, text=True, timeout=WAIT, check=False, env=dict(state)
    )
    return ended.returncode, ended.stdout + ended.stderr


def _without_guest(launcher: Path) -> None:
    path = launcher.with_name("launch.plan")
    plan = parse_plan(path.read_bytes())
    kept = tuple(each for each in plan.artifacts if each[0] != "guest")
    path.write_bytes(plan_bytes(dataclasses.replace(plan, artifacts=kept)))


def _change(launcher: Path) -> None:
    launcher.with_name("guest").write_bytes(GUEST.path("linux/amd64").read_bytes() + b"x")


CHANGES: tuple[tuple[Callable[[Path], None], str], ...] = (
    (_change, "{here}/guest was changed after it was rendered: render it again"),
    (lambda launcher: launcher.with_name("guest").unlink(), "cannot read {here}/guest"),
    (_without_guest, "{here}/launch.plan: artifacts: guest is missing"),
)


@FORMS
@pytest.mark.needs("bwrap", "linux.uml")
def test_it_moves_with_the_sandbox_and_is_looked_at(launcher: Made, form: str, tmp_path: Path) -> None:
    made = launcher(form)
    assert _run(made, "sh", "-c", "test -e /dev/pts/ptmx && uname -m") == (0, "x86_64\n")
    whole = {name: made.with_name(name).read_bytes() for name in ("guest", "launch.plan")}
    for change, said in CHANGES:
        change(made)
        assert _run(made, "true") == (125, f"sandbox: {said.format(here=tmp_path / 'moved')}\n")
        for name, content in whole.items():
            made.with_name(name).write_bytes(content)


@pytest.mark.parametrize("words", [(), ("--machine",), ("/dev/null",)])
def test_elsewhere_it_does_nothing(words: tuple[str, ...]) -> None:
    """As root it would cover /dev, and stop the machine."""
    without_rights = ["setpriv", "--bounding-set=-all"] if os.getuid() == 0 else []
    ended = subprocess.run(
        [*without_rights, GUEST.path("linux/amd64"), *words], capture_output=True, text=True, timeout=WAIT,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (125, "sandbox: only the kernel of a sandbox starts this\n")


def test_qemus_machine_has_it_already(tmp_path: Path) -> None:
    policy = resolver(POLICY, tmp_path / "project")(())
    assert "guest" not in {each.name for each in registry.render(policy, QEMU_FORM).artifacts}


@pytest.mark.needs("qemu-aarch64-static")
def test_a_launcher_without_such_kernels_says_so(tmp_path: Path) -> None:
    (tmp_path / "launch").write_bytes(LAUNCH.path("linux/arm64").read_bytes())
    (tmp_path / "launch").chmod(0o755)
    for plan in (
        LaunchPlan(method=name, vm=MachinePlan(kernel="linux.uml")) for name in ("bwrap", "landlock")
    ):
        (tmp_path / "launch.plan").write_bytes(plan_bytes(plan))
        ended = subprocess.run(
            ["qemu-aarch64-static", tmp_path / "launch", "true"], capture_output=True, text=True,
            timeout=WAIT, check=False, env=dict(probe_environment(tmp_path / "state")),
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (125, "sandbox: vm runs on amd64 only\n")
