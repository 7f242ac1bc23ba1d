"""Output that has no reader (SIGPIPE) or can't be written: no traceback, and an exit code of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
COMMANDS = {
    "help": ("--help",),
    "help of one": ("run", "--help"),
    "much": ("schema", "policy"),
}


def _ended(words: tuple[str, ...], out: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*SANDWRIGHT, *words], stdout=out, stderr=subprocess.PIPE, check=False, timeout=60)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_nobody_reads(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = _ended(words, writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_disk_is_full(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = _ended(words, full.fileno())
    said = b"sandwright: cannot write the output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_a_failure_keeps_its_code() -> None:
    with Path("/dev/full").open("wb") as full:
        assert _ended(("render", "--policy", "no-such-file"), full.fileno()).returncode == 64


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_closed_from_the_start(words: tuple[str, ...]) -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$@" <&- >&-', "sh", *SANDWRIGHT, *words], capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
