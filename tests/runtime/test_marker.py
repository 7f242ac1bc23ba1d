"""The marker program: what it says, what it tries, and how it ends, on the processors it is written for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sandwright import process
from sandwright.host import collect_host
from sandwright.runtime.marker import ARCHITECTURES, marker_program

HOST = collect_host()
MACHINES = {"amd64": 62, "arm64": 183}


def _runnable(architecture: str) -> bool:
    platform = f"linux/{architecture}"
    return platform == HOST.platform or HOST.emulator(platform) is not None


def _write(directory: Path, architecture: str, path: bytes, word: bytes = b"a word\n") -> Path:
    program = directory / f"marker-{architecture}"
    program.write_bytes(marker_program(architecture, word, path))
    program.chmod(0o755)
    return program


def test_architectures() -> None:
    assert frozenset(MACHINES) == ARCHITECTURES


@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_is_a_small_static_elf_file(architecture: str) -> None:
    content = marker_program(architecture, b"word", b"/path")
    assert content[:7] == b"\x7fELF\x02\x01\x01"
    assert int.from_bytes(content[16:18], "little") == 2, "an executable"
    assert int.from_bytes(content[18:20], "little") == MACHINES[architecture]
    assert int.from_bytes(content[56:58], "little") == 1, (
        "one program header: no interpreter, no dynamic section"
    )
    assert len(content) < 300


@pytest.mark.parametrize("architecture", sorted(MACHINES))
@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param(b"/proc/none", errno.ENOENT, id="nothing-can-be-made-in-proc"),
        pytest.param(b"/dev/null/x", errno.ENOTDIR, id="not-a-directory"),
    ],
)
def test_exits_with_the_errno(tmp_path: Path, architecture: str, path: bytes, status: int) -> None:
    if not _runnable(architecture):
        pytest.skip(f"linux/{architecture} does not run here: no interpreter registered")
    result = process.run(_write(tmp_path, architecture, path), check=False)
    assert (result.stdout, result.status) == (b"a word\n", status)


@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_a_write_that_succeeds_shows(tmp_path: Path, architecture: str) -> None:
    if not _runnable(architecture):
        pytest.skip(f"linux/{architecture} does not run here: no interpreter registered")
    made = tmp_path / "made"
    result = process.run(_write(tmp_path, architecture, bytes(made)), check=False)
    assert made.exists()
    assert result.status > 200, "256 less a small file descriptor: no errno"


def test_another_architecture_is_an_error() -> None:
    with pytest.raises(KeyError):
        marker_program("riscv64", b"", b"")
