"""Leftovers of a killed session in an engine are found by the run's directory, and no other object is.

Tests of methods/<name>/backend.py: leftovers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed, HostError
from sandwright.methods.contract import Leftover
from sandwright.methods.registry import backend
from sandwright.methods.shared.engine.backend import LABEL
from sandwright.signalling import started
from support.waiting import until

ENGINES = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("docker", "podman")]


@pytest.fixture
def names() -> list[str]:
    return [
        f"sandwright-{uuid.uuid4()}-inside",
        f"sandwright-{uuid.uuid4()}-inside",
        f"sandwright-{uuid.uuid4()}",
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_networks(engine: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of a recorded run is removed; a similar one, and one without our label, stay."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    method = backend(engine)
    ours, foreign, unlabelled = names
    run = tmp_path / "sandwright" / "runs" / ours.removesuffix("-inside")
    run.mkdir(parents=True)
    (run / "owner").write_text(f"{engine}\n{os.getpid()} {started(os.getpid())}\n1 1\n")
    try:
        for name, labels in ((ours, [f"{LABEL}=1"]), (foreign, [f"{LABEL}=1"]), (unlabelled, [])):
            options = [word for label in labels for word in ("--label", label)]
            process.run(engine, "network", "create", "--internal", *options, name, timeout=60)
        assert list(method.leftovers(())) == [], "somebody looks after it"
        with pytest.raises(HostError, match="not ours"):
            method.remove(Leftover(engine, "network", ours))
        (run / "owner").write_text(f"{engine}\n1 1\n1 1\n")
        found = list(method.leftovers(()))
        assert found == [Leftover(engine, "network", ours), Leftover(engine, "directory", str(run))]
        method.remove(found[0])
        assert ours not in {each.name for each in method.leftovers(())}
        for other in (foreign, unlabelled):
            with pytest.raises(HostError, match="not ours"):
                method.remove(Leftover(engine, "network", other))
        method.remove(found[1])
        assert list(method.leftovers(())) == []
        listed = process.run(engine, "network", "ls", "--format", "{{.Name}}", timeout=60).text.split()
        assert {foreign, unlabelled} <= set(listed)
    finally:
        for name in names:
            process.run(engine, "network", "rm", name, timeout=60, check=False)


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize("fault", ["the container is not removed", "no answer"])
def test_the_directory_of_a_container_that_goes_on_stays(
    engine: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is known by it alone: without it, later runs would remove files that protect missing names."""
    name = "sandwright-0123456789"
    run = tmp_path / "sandwright" / "runs" / name
    run.mkdir(parents=True)
    (run / "owner").write_text(f"{engine}\n1 1\n1 1\n")
    listed = tmp_path / "listed"
    listed.write_text(f"{name}\t0123456789abcdef\n")
    client = f"#!/bin/sh\ncase $1 in ps) cat {listed} ;; rm) echo no >&2; exit 1 ;; esac\n"
    (tmp_path / engine).write_text(client)
    (tmp_path / engine).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    container, directory = backend(engine).leftovers(())
    assert [container.kind, directory.kind] == ["container", "directory"]
    with pytest.raises(CommandFailed):
        backend(engine).remove(container)
    if fault == "no answer":
        listed.unlink()
    with pytest.raises(CommandFailed if fault == "no answer" else HostError, match=r"No such file|goes on"):
        backend(engine).remove(directory)
    assert run.exists()
    listed.write_text("")
    backend(engine).remove(directory)
    assert not run.exists()


MONITOR = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def _runs(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return False


@pytest.mark.parametrize("named", [True, False], ids=["a monitor", "another process"])
def test_a_monitor_that_podman_does_not_know_of(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended with the processes that it waits for; a process that has its number by now is not."""
    run = tmp_path / "sandwright" / "runs" / "sandwright-0123456789"
    run.mkdir(parents=True)
    (run / "owner").write_text("podman\n1 1\n1 1\n")
    (run / "cid").write_text("ab" * 32 + "\n")
    for name, script in {
        "podman": f"echo {tmp_path}/runtime",
        "runtime": f'echo "$@" >> {tmp_path}/asked',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    words = (sys.executable, "-c", MONITOR, "--conmon-pidfile", f"{run}/monitor" if named else "elsewhere")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as monitor:
        assert monitor.stdout is not None
        child = int(monitor.stdout.readline())
        (run / "monitor").write_text(str(monitor.pid))
        try:
            backend("podman").remove(Leftover("podman", "directory", str(run)))
            assert not run.exists()
            assert (tmp_path / "asked").read_text() == f"delete --force {'ab' * 32}\n"
            if named:
                assert monitor.wait(60) == -signal.SIGKILL
                until(lambda: not _runs(child), "its child runs")
            assert named or (_runs(child) and monitor.poll() is None)
        finally:
            for each in (child, monitor.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
