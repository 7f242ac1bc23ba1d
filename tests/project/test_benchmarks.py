"""Benchmarks report what they can't measure, and go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import session


def test_an_engine_without_a_daemon_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Docker's client prints the real message for a missing daemon."""
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon. Is it running?' >&2\nexit 1\n")
    (tmp_path / "busybox").write_text("#!/bin/sh\n")
    for program in (client, tmp_path / "busybox"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert session._fault("docker") == "Cannot connect to the Docker daemon. Is it running?"
    assert session._fault("no-engine-of-this-name") == "it is not installed"
    client.write_text("#!/bin/sh\n")
    assert not session._fault("docker")
    (tmp_path / "busybox").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert session._fault("docker").startswith("busybox")
