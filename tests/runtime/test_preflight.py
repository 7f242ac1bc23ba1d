"""The runtimes that count as ready: only those that have started a program within the time limit.

Tests of runtime/preflight.py.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path

import pytest

from sandwright.host import Binfmt, MachineFacts
from sandwright.runtime.preflight import MissingRuntime, ReadyRuntime, check_runtime
from sandwright.runtime.registry import RUNTIMES

NEVER = threading.Event()


@pytest.fixture
def foreign(host: MachineFacts) -> str:
    return "linux/arm64" if host.platform == "linux/amd64" else "linux/amd64"


def _fake(directory: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script, a fake runtime, in front of all programs."""
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.needs("dockerd" if n == "docker" else n), id=n) for n in RUNTIMES],
)
def test_a_runtime_that_is_there_is_ready(name: str, host: MachineFacts) -> None:
    if name == "docker" and not Path("/var/run/docker.sock").exists() and "DOCKER_HOST" not in os.environ:
        pytest.skip("no Docker daemon runs")
    if name == "crun" and host.cgroups == "hybrid" and not host.is_root:
        pytest.skip("crun refuses hybrid cgroups, and only root can hide them")
    seen = check_runtime(RUNTIMES[name], host.platform, host, NEVER)
    assert isinstance(seen, ReadyRuntime), seen


@pytest.mark.needs("runc")
def test_a_foreign_platform_needs_its_emulator(host: MachineFacts, foreign: str) -> None:
    seen = check_runtime(RUNTIMES["runc"], foreign, host, NEVER)
    if host.emulator(foreign):
        assert isinstance(seen, ReadyRuntime), seen
    bare = dataclasses.replace(host, binfmt=())
    without = check_runtime(RUNTIMES["runc"], foreign, bare, NEVER)
    assert isinstance(without, MissingRuntime)
    assert "no interpreter for" in without.reason
    assert "sandwright setup" in without.reason


def test_gvisor_runs_no_foreign_programs(host: MachineFacts, foreign: str) -> None:
    seen = check_runtime(RUNTIMES["runsc"], foreign, host, NEVER)
    assert isinstance(seen, MissingRuntime)
    assert "only programs of this machine's own architecture" in seen.reason


def test_what_is_not_installed_says_how_to_get_it(
    host: MachineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandwright.process.find", lambda _: None)
    debian = dataclasses.replace(host, package_manager="apt")
    seen = check_runtime(RUNTIMES["crun"], host.platform, debian, NEVER)
    assert isinstance(seen, MissingRuntime)
    assert seen.describe() == "crun is not installed; get it with: apt-get install crun"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param('echo "runc version 9"', "exit status 0", id="prints-a-version"),
        pytest.param("echo no such thing >&2; exit 1", "exit status 1: no such thing", id="complains"),
        pytest.param("sleep 600", "did not end within 1 s", id="hangs"),
        pytest.param('cat "$5/config.json"', "exit status 0", id="shows-what-it-was-given"),
    ],
)
def test_a_runtime_that_starts_nothing_is_not_ready(
    host: MachineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    _fake(tmp_path, "runc", script, monkeypatch)
    started = time.monotonic()
    seen = check_runtime(RUNTIMES["runc"], host.platform, host, NEVER, limit=1)
    assert isinstance(seen, MissingRuntime)
    assert reason in seen.reason
    assert time.monotonic() - started < 60


def test_every_way_that_was_tried_is_told(
    host: MachineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake(tmp_path, "runsc", 'echo "unknown platform" >&2; exit 128', monkeypatch)
    seen = check_runtime(RUNTIMES["runsc"], host.platform, host, NEVER)
    assert isinstance(seen, MissingRuntime)
    assert [name for name in ("systrap", "ptrace", "kvm") if name in seen.reason] == [
        "systrap",
        "ptrace",
        "kvm",
    ]
    assert "unknown platform" in seen.reason


@pytest.mark.needs("runsc")
def test_a_platform_that_hangs_is_passed_over(
    host: MachineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake precedes the real one: its first platform hangs, as KVM does in a nested virtual machine."""
    real = check_runtime(RUNTIMES["runsc"], host.platform, host, NEVER)
    assert isinstance(real, ReadyRuntime), real
    script = 'case "$*" in *platform=systrap*) exec sleep 600;; esac; exec /usr/bin/runsc "$@"'
    _fake(tmp_path, "runsc", script, monkeypatch)
    seen = check_runtime(RUNTIMES["runsc"], host.platform, host, NEVER, limit=5)
    assert isinstance(seen, ReadyRuntime)
    assert "systrap" not in seen.variant.note


def test_a_daemon_that_is_not_there(host: MachineFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    user = dataclasses.replace(host, uid=1000)
    seen = check_runtime(RUNTIMES["docker"], host.platform, user, NEVER)
    assert isinstance(seen, MissingRuntime)
    assert seen.reason.startswith("no Docker daemon can be asked")


@pytest.mark.needs("dockerd")
def test_without_a_daemon_root_gets_one(host: MachineFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    if not host.is_root:
        pytest.skip("only root can start a Docker daemon")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    seen = check_runtime(RUNTIMES["docker"], host.platform, host, NEVER)
    assert isinstance(seen, ReadyRuntime), seen
    assert seen.variant.note == "on a separate daemon"


def test_an_emulator_must_be_fixed(host: MachineFacts, foreign: str) -> None:
    """Without the fix-binary flag the kernel searches for the interpreter inside the container."""
    machine = "aarch64" if foreign == "linux/arm64" else "x86_64"
    loose = Binfmt(f"qemu-{machine}", enabled=True, interpreter="/usr/bin/qemu", fix_binary=False)
    seen = check_runtime(RUNTIMES["runc"], foreign, dataclasses.replace(host, binfmt=(loose,)), NEVER)
    assert isinstance(seen, MissingRuntime)
