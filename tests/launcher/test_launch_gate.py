"""The command of a container never starts before the mounts of its sandbox are compared.

Tests of launcher/source/init.c: it waits (--gate).
Tests of launcher/source/watch.c: the first comparison.
"""

from __future__ import annotations

import platform
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH_INIT

WAIT = 30
PLATFORM = "linux/arm64" if platform.machine() == "aarch64" else "linux/amd64"


def _start(gate: Path, *command: str) -> subprocess.Popen[bytes]:
    words: list[str | Path] = [LAUNCH_INIT.path(PLATFORM), "--gate", gate, "--init", "-", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def test_nothing_starts_before_the_gate_is_open(tmp_path: Path) -> None:
    gate, made = tmp_path / "gate", tmp_path / "made"
    gate.touch()
    with _start(gate, "touch", str(made)) as waiting:
        time.sleep(0.5)
        assert (waiting.poll(), made.exists()) == (None, False)
        gate.write_text("\n")
        assert waiting.wait(WAIT) == 0
    assert made.exists()


def test_a_signal_of_that_time_reaches_the_command(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with _start(gate, "sleep", "60") as waiting:
        name = Path(f"/proc/{waiting.pid}/comm")
        deadline = time.monotonic() + WAIT
        while name.read_text() != "init\n":
            assert time.monotonic() < deadline
        waiting.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert waiting.poll() is None
        gate.write_text("\n")
        assert waiting.wait(WAIT) == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", ["missing", "file/below"])
def test_a_gate_that_can_not_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with _start(tmp_path / name, "echo", "ran") as refused:
        out, errors = refused.communicate(timeout=WAIT)
    assert (refused.returncode, out) == (125, b"")
    assert b"so nothing was run" in errors
