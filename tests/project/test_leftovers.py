"""The check for leftovers of a test run detects each kind of leftover."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from pathlib import Path

import pytest

from sandwright import process
from support.leftovers import RUN_MARK, leftovers
from support.waiting import until


def test_a_process_of_this_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = uuid.uuid4().hex
    monkeypatch.setenv(RUN_MARK, run)
    with process.start("sh", "-c", "echo runs; exec sleep 60") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"runs\n"  # before exec's end, /proc shows no environment
        assert any(line.startswith(f"process {child.pid}: ") for line in leftovers(run))
    assert not any(line.startswith(f"process {child.pid}: ") for line in leftovers(run))


def test_a_scratch_file_is_seen() -> None:
    scratch = Path("/tmp") / f"sandwright-{uuid.uuid4().hex}"
    scratch.touch()
    try:
        assert f"file {scratch}" in leftovers("")
    finally:
        scratch.unlink()
    assert f"file {scratch}" not in leftovers("")


@pytest.mark.skipif(os.geteuid() == 0, reason="for root, Podman keeps no user namespace")
@pytest.mark.needs("podman")
def test_what_keeps_a_user_namespace_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)  # otherwise Podman uses the one of the user's store
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:  # a short path: Podman accepts 50 characters
        stores = [f"--{name}={folder}/{name}" for name in ("root", "runroot", "tmpdir")]
        process.run("podman", *stores, "ps", timeout=60)
        pid = Path(folder, "tmpdir/pause.pid").read_text()
        try:
            assert f"process {pid}: podman pause" in leftovers("")
        finally:
            os.kill(int(pid), signal.SIGKILL)
        until(lambda: f"process {pid}: podman pause" not in leftovers(""), within=20)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_is_seen(tmp_path: Path) -> None:
    process.run("mount", "-t", "tmpfs", "tmpfs", tmp_path)
    try:
        assert f"mount {tmp_path}" in leftovers("")
    finally:
        process.run("umount", tmp_path)
    assert f"mount {tmp_path}" not in leftovers("")
