"""The launcher's parsers, in a program that ends at the first wrong access (launcher/harness.c)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH
from support import locks

FLAGS = ("-std=gnu11", "-g1", "-O0", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all")
HARNESS = Path(__file__).parents[1] / "launcher" / "harness.c"
MORE = tuple(HARNESS.with_name(name) for name in ("recorder.c", "named.c", "tunnelled.c", "relayed.c"))
INCLUDED = ("main", "utils", "placeholders", "broker", "dns", "record", "paths", "pathnames", "vm_relay")
"""The source files that the harness replaces or includes."""


def built(
    made: Path,
    compiler: str = "cc",
    *flags: str,
    main: Path = HARNESS,
    parts: Sequence[str] = (),
) -> Path:
    """The harness, or another program of parts of the launcher, compiled once for all workers of a run.

    Skip if the compiler has no sanitizers.
    """
    if main == HARNESS:
        flags = (*flags, "-Dfree=free_held")
        parts = [each.name for each in LAUNCH.sources() if each.suffix == ".c" and each.stem not in INCLUDED]
    sources = [main, *(MORE if main == HARNESS else []), *(LAUNCH.source / name for name in parts)]
    words = [compiler, *FLAGS, *flags, f"-I{LAUNCH.source}", *map(str, sources)]
    name = f"built-{sha256(repr(words).encode()).hexdigest()}"
    with locks.alone(f"{name}.lock") as shared:
        if not (shared / name).exists():
            _compile(words, made)
            shutil.copy(made, shared / f"{name}.new")
            (shared / f"{name}.new").rename(shared / name)
    shutil.copy(shared / name, made)
    return made


def _compile(words: Sequence[str], made: Path) -> None:
    ended = subprocess.run([*words, "-o", made], capture_output=True, timeout=600, check=False)
    if b"cannot find" in ended.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert ended.returncode == 0, ended.stderr.decode()


def fed(harness: Path, inputs: Sequence[bytes]) -> list[str]:
    """The harness's answer to each input: a letter for its kind, and its bytes."""
    sent = b"".join(len(each).to_bytes(4, "little") + each for each in inputs)
    ended = subprocess.run([harness], input=sent, capture_output=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode("utf-8", "replace").split("\n")[:-1]
