"""The launcher's sources, built by this machine's compiler to end at the first access that is wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH

FLAGS = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all")


def sanitized(main: Path, made: Path, *names: str) -> Path:
    """A program of `main` and of sources of the launcher, by name. Skip where there are no sanitizers."""
    sources = [LAUNCH.source / name for name in names]
    words = ["cc", *FLAGS, "-fsanitize=address,undefined", f"-I{LAUNCH.source}"]
    words += [str(each) for each in (main, *sources, "-o", made)]
    built = subprocess.run(words, capture_output=True, timeout=120, check=False)
    if b"cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr.decode()
    return made


def fed(harness: Path, kind: bytes, inputs: list[bytes]) -> list[str]:
    """What the harness says of each input."""
    sent = b"".join(kind + len(each).to_bytes(4, "little") + each for each in inputs)
    ended = subprocess.run(
        [harness],
        input=sent,
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},  # the launcher frees nothing
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode("utf-8", "replace").splitlines()
