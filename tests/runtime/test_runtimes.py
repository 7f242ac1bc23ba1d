"""Real images under real runtimes: a good one passes every check, and each weakness fails its own check.

Tests of runtime/bundles.py.
Tests of runtime/crun.py.
Tests of runtime/oci.py.
Tests of runtime/runc.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.runtime.contract import Session, Start, StartableImage
from sandwright.runtime.engine import LABEL
from sandwright.runtime.preflight import MissingRuntime, ReadyRuntime, check_runtime
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import scratch_directory
from sandwright.runtime.sessions import Sessions
from sandwright.verify.canary import CanaryListener
from sandwright.verify.smoke.expected import ImageProgram
from sandwright.verify.smoke.start import judge
from sandwright.verify.verdict import ProbeFinding, Verdict
from sandwright.watchdog import runtime_environment
from support.processtrees import naming
from support.small_image import PYTHON, SmallImage
from support.thorough import representative
from support.waiting import eventually

P, F = Verdict.PASS, Verdict.FAIL


def _marked(*names: str) -> list[Any]:
    """Each runtime, marked with its program."""
    return [
        pytest.param(name, id=name, marks=pytest.mark.needs("dockerd" if name == "docker" else name))
        for name in names
    ]


ALL = _marked(*RUNTIMES)
FEW = representative(ALL, "runc", "bwrap", "podman")
"""One of bundles, bubblewrap, and one engine: each of these three has its own code."""
BY_BUNDLE = _marked("runc", "crun", "runsc", "bwrap")


@contextlib.contextmanager
def _sessions(host: MachineFacts, stop: threading.Event) -> Iterator[Sessions]:
    """Sessions; any leftover of them is a failure."""
    with scratch_directory() as scratch, Sessions(host, scratch, stop) as opened:
        yield opened
    assert _left_of(scratch) == []


@pytest.fixture
def sessions(host: MachineFacts) -> Iterator[Sessions]:
    with _sessions(host, threading.Event()) as opened:
        yield opened


def _left_of(scratch: Path) -> list[str]:
    """The leftovers of a run: all its files lie in its directory, or have its name or label."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if scratch.name in line]
    files = [str(path) for path in scratch.parent.glob(f"{scratch.name}*")]
    containers = ""
    if process.find("docker") is not None:
        chosen = ("--all", "--quiet", "--filter", f"label={LABEL}={scratch.name}")
        containers = process.run("docker", "ps", *chosen, check=False).text
    return [*map(str, naming(scratch.name).items()), *mounts, *files, *containers.split()]


def _session(sessions: Sessions, name: str, platform: str) -> Session:
    ready = sessions.check(RUNTIMES[name], platform)
    if isinstance(ready, MissingRuntime):
        complain = pytest.fail if os.environ.get("SANDWRIGHT_REQUIRE") else pytest.skip
        complain(f"{name}: {ready.describe()}")
    assert isinstance(ready, ReadyRuntime)
    if ready.variant.only_root:
        pytest.skip(f"{name}: {ready.variant.note} it can't run as the image's user; root can")
    return sessions.session(ready)


def _judge(
    session: Session, subject: StartableImage, image: SmallImage, listening: CanaryListener, **expected: Any
) -> Mapping[str, ProbeFinding]:
    judged = judge(session, subject, image.expected(**expected), python=PYTHON, canary=listening, limit=120)
    return {finding.check: finding for finding in judged.findings}


def _not_passed(findings: Mapping[str, ProbeFinding]) -> dict[str, Verdict]:
    return {name: finding.verdict for name, finding in findings.items() if finding.verdict is not P}


@pytest.mark.parametrize("name", ALL)
def test_a_good_image_passes(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    session = _session(sessions, name, small_image.platform)
    findings = _judge(session, small_image.subject(tmp_path / "bundle"), small_image, listening)
    assert _not_passed(findings) == {}
    assert len(findings) == 12


@pytest.mark.parametrize("name", representative(ALL, "bwrap", "runc", "docker"))
def test_a_writable_root_fails(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    before = sorted(small_image.rootfs.rglob("*"))
    subject = small_image.subject(tmp_path / "bundle", root__readonly=False)
    findings = _judge(_session(sessions, name, small_image.platform), subject, small_image, listening)
    if name == "runsc" and os.geteuid() != 0:  # its root is this user's, and the image's user isn't
        assert findings["read-only root"].verdict is Verdict.INCONCLUSIVE
    else:
        assert findings["read-only root"].verdict is F
        assert "a file could be made in" in findings["read-only root"].detail
    assert sorted(small_image.rootfs.rglob("*")) == before, "what was made is removed again"


@pytest.mark.parametrize("name", BY_BUNDLE)
def test_another_user_fails(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    subject = small_image.subject(tmp_path / "bundle", process__user={"uid": 0, "gid": 0})
    findings = _judge(_session(sessions, name, small_image.platform), subject, small_image, listening)
    assert findings["identity"] == ProbeFinding("identity", F, "runs as 0:0, not 65532:65532")


@pytest.mark.parametrize("name", _marked("runc", "crun"))
def test_privileges_fail(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    chown = {kind: ["CAP_CHOWN"] for kind in ("bounding", "permitted", "effective", "inheritable", "ambient")}
    subject = small_image.subject(
        tmp_path / "bundle", process__capabilities=chown, process__noNewPrivileges=False
    )
    findings = _judge(_session(sessions, name, small_image.platform), subject, small_image, listening)
    assert findings["privileges"] == ProbeFinding("privileges", F, "it holds capabilities: 0x1")


@pytest.mark.parametrize("name", _marked("runc", "crun"))
def test_the_hosts_network_fails(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    """The canary listener on the host is reached, which alone is a failure."""
    namespaces = [{"type": kind} for kind in ("mount", "pid", "ipc", "uts")]
    subject = small_image.subject(tmp_path / "bundle", linux__namespaces=namespaces)
    findings = _judge(_session(sessions, name, small_image.platform), subject, small_image, listening)
    assert findings["no network"] == ProbeFinding("no network", F, "a listener on the host was reached")


@pytest.mark.parametrize("name", FEW)
def test_programs_that_fail_or_are_not_there(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    programs = (
        ImageProgram("good", (PYTHON, "-c", "print('yes')"), prints="yes"),
        ImageProgram("absent", ("/usr/bin/absent",)),
        ImageProgram("fails", (PYTHON, "-c", "raise SystemExit(3)")),
        ImageProgram("wanted to fail", (PYTHON, "-c", "raise SystemExit(3)"), status=3),
        ImageProgram("says something else", (PYTHON, "-c", "print('no')"), prints="yes"),
    )
    session = _session(sessions, name, small_image.platform)
    subject = small_image.subject(tmp_path / "bundle")
    findings = _judge(session, subject, small_image, listening, programs=programs)
    assert _not_passed(findings) == {
        "program: absent": F,
        "program: fails": F,
        "program: says something else": F,
    }


@pytest.mark.parametrize("name", representative(ALL, "bwrap", "runc", "docker"))
def test_an_image_without_python_runs_its_programs(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path, listening: CanaryListener
) -> None:
    programs = (
        ImageProgram("good", (PYTHON, "-c", "print('yes')"), prints="yes"),
        ImageProgram("status", (PYTHON, "-c", "raise SystemExit(42)"), status=42),
        ImageProgram("absent", ("/usr/bin/absent",)),
    )
    judged = judge(
        _session(sessions, name, small_image.platform),
        small_image.subject(tmp_path / "bundle"),
        small_image.expected(programs=programs),
        python=None,
        canary=listening,
        limit=120,
    )
    verdicts = {finding.check: finding.verdict for finding in judged.findings}
    assert verdicts.pop("program: absent") is F
    assert [verdicts.pop(f"program: {name}") for name in ("good", "status")] == [P, P]
    assert set(verdicts.values()) == {Verdict.SKIPPED}


@pytest.mark.parametrize("name", FEW)
def test_a_container_that_hangs_is_ended(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path
) -> None:
    """The fixture then checks that nothing of it is left: process, container, state, mount."""
    session = _session(sessions, name, small_image.platform)
    subject = small_image.subject(tmp_path / "bundle")
    mark = f"hangs-{uuid.uuid4().hex}"
    script = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)  # {mark}"
    quick = Start(subject, (PYTHON, "-c", "print('started')"), 120, runtime_environment())
    assert session.run(quick).stdout == b"started\n"
    started = time.monotonic()
    ended = session.run(dataclasses.replace(quick, argv=(PYTHON, "-c", script), limit=3))
    assert (ended.how, ended.status) == ("timeout", None)
    assert time.monotonic() - started < 60
    eventually(lambda: not naming(mark), within=5)
    assert naming(mark) == {}


@pytest.mark.parametrize("name", representative(ALL, "bwrap", "crun", "podman"))
def test_a_run_that_is_called_off_leaves_nothing(
    name: str, host: MachineFacts, small_image: SmallImage, tmp_path: Path
) -> None:
    stop = threading.Event()
    with _sessions(host, stop) as sessions:
        session = _session(sessions, name, small_image.platform)
        subject = small_image.subject(tmp_path / "bundle")
        start = Start(subject, (PYTHON, "-c", "import time; time.sleep(600)"), 600, runtime_environment())
        threading.Timer(2, stop.set).start()
        assert session.run(start).how == "stopped"


@pytest.mark.parametrize("name", BY_BUNDLE)
def test_the_exit_status_and_output_come_through(
    name: str, sessions: Sessions, small_image: SmallImage, tmp_path: Path
) -> None:
    session = _session(sessions, name, small_image.platform)
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    subject = small_image.subject(tmp_path / "bundle")
    ended = session.run(Start(subject, (PYTHON, "-c", script), 120, runtime_environment()))
    assert (ended.status, ended.stdout, "err" in ended.stderr) == (7, b"out\n", True)


@pytest.mark.needs("runc")
def test_a_runtime_that_swallows_the_exit_status_fails(
    host: MachineFacts,
    small_image: SmallImage,
    tmp_path: Path,
    listening: CanaryListener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fake: runc behind a script that loses its exit status. Preflight and the checks notice that."""
    real = process.which("runc")
    ready = check_runtime(RUNTIMES["runc"], small_image.platform, host, threading.Event())
    assert isinstance(ready, ReadyRuntime)
    if ready.variant.only_root:
        pytest.skip(ready.variant.note)
    _fake(tmp_path, "runc", f'{real} "$@"; exit 0', monkeypatch)
    with _sessions(host, threading.Event()) as sessions:
        subject = small_image.subject(tmp_path / "bundle")
        findings = _judge(sessions.session(ready), subject, small_image, listening)
    assert _not_passed(findings) == {"exit status": F}
    assert findings["exit status"].detail == "it ended with 42, and the runtime gave 0"
    seen = check_runtime(RUNTIMES["runc"], small_image.platform, host, threading.Event())
    assert isinstance(seen, MissingRuntime)
    assert "the probe ended with 42, and the sandbox with 0" in seen.reason


@pytest.mark.needs("bwrap")
def test_what_bwrap_was_started_with_is_not_seen(
    sessions: Sessions,
    small_image: SmallImage,
    tmp_path: Path,
    listening: CanaryListener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: with a fake `env` that clears nothing, planted variables appear in /proc/1/environ."""
    session = _session(sessions, "bwrap", small_image.platform)
    subject = small_image.subject(tmp_path / "bundle")
    assert _judge(session, subject, small_image, listening)["environment"].verdict is P
    _fake(tmp_path, "env", 'shift; exec "$@"', monkeypatch)
    found = _judge(session, subject, small_image, listening)["environment"]
    assert (found.verdict, "/proc/1/environ" in found.detail) == (F, True)


def _fake(directory: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = directory / "fake"
    folder.mkdir()
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
