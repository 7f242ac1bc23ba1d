"""No command waits at a named pipe that lies in place of a file to read or write.

Tests of reading.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.standby import COMMAND as SANDWRIGHT

CALLS = {
    "a record": ("learn", "--merge", "PIPE", "--once", "--", "true"),
    "facts": ("explain", "write", "x", "--facts", "PIPE"),
    "facts for lint": ("lint", "--facts", "PIPE"),
    "facts for render": ("render", "--facts", "PIPE"),
    "a policy": ("explain", "write", "x", "--policy", "PIPE"),
    "a policy by its name": ("lint", "PIPE.yaml"),
    "a profile": ("lint", "PIPE.json"),
    "a profile of seatbelt": ("lint", "PIPE.sb"),
    "seccomp": ("seccomp-eval", "PIPE", "read"),
    "seatbelt": ("sbpl-eval", "PIPE", "file-read-data"),
    "queries": ("sbpl-eval", "--batch", "PIPE"),
    "an audit log": ("verify-audit", "PIPE"),
    "claims": ("verify", "--claims", "PIPE"),
    "a key": ("verify-image", f"registry.invalid/x@sha256:{'0' * 64}", "--key", "PIPE"),
    "authorities": ("pull-image", "registry.invalid/x", "--ca-file", "PIPE"),
    "logins": ("pull-image", "registry.invalid/x", "--authfile", "PIPE"),
    "rows": ("fleet", "--rows", "PIPE", "--", "true"),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_waits(call: str, tmp_path: Path) -> None:
    words = [word.replace("PIPE", "pipe") for word in CALLS[call]]
    name = next(word for word in words if word.startswith("pipe"))
    os.mkfifo(tmp_path / name)
    (tmp_path / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n") if "PIPE.yaml" not in CALLS[
        call
    ] else None
    ended = subprocess.run(
        [*SANDWRIGHT, *words],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "SANDWRIGHT_TRUST": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode not in (0, 1), ended.stderr
    assert name in ended.stderr
    assert "pipe" in ended.stderr or "regular file" in ended.stderr
    assert (tmp_path / name).is_fifo()


def _rendered(tmp_path: Path) -> Path:
    """A directory of artifacts that came with the project, without its manifest."""
    rendered = tmp_path / "p/.sandbox/bwrap"
    rendered.mkdir(parents=True)
    (rendered / "launch").write_text("#!/bin/sh\necho ran\n")
    (rendered / "launch").chmod(0o755)
    (tmp_path / "p/sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    return rendered


@pytest.mark.parametrize(
    "words", [("render",), ("render", "--check"), ("bridge", "--", ".sandbox/bwrap/launch")], ids=" ".join
)
@pytest.mark.parametrize("kind", ["pipe", "large", "many"])
def test_artifacts_of_others_are_no_burden(words: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    rendered = _rendered(tmp_path)
    if kind == "pipe":
        os.mkfifo(rendered / "manifest.json")
    for name in {"large": ["manifest.json"], "many": [f"f{number}" for number in range(9)]}.get(kind, []):
        (rendered / name).touch()
        os.truncate(rendered / name, 1 << 40 if kind == "large" else 10 << 20)  # sparse
    if kind == "many":
        (rendered / "manifest.json").write_text('{"method": "bwrap", "artifacts": {}}')
    ended = subprocess.run(
        [*SANDWRIGHT, *words],
        cwd=tmp_path / "p",
        env={**os.environ, "HOME": str(tmp_path), "SANDWRIGHT_TRUST": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode not in (0, 1), ended.stderr
    assert ".sandbox/bwrap" in ended.stderr
    assert "ran" not in ended.stdout.split()
