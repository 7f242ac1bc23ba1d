"""Building C programs for several platforms, with the real compiler.

Tests of crossbuild.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from sandwright import crossbuild, process
from sandwright.errors import BuildError, ToolMissing

PROGRAM = '#include "word.h"\n#include <stdio.h>\nint main(void) { puts(WORD " " __FILE__); return 7; }\n'


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    files = {"program.c": PROGRAM, "word.h": '#define WORD "hello"\n'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return [tmp_path / name for name in files]


def test_it_runs_and_names_no_path(sources: list[Path], tmp_path: Path) -> None:
    made = crossbuild.build(sources, target="linux/amd64", output=tmp_path / "out" / "p")
    result = process.run(made, check=False)
    assert (result.status, result.stdout) == (7, b"hello program.c\n")
    assert str(tmp_path).encode() not in made.read_bytes()


@pytest.mark.parametrize(("target", "machine"), [("linux/amd64", 62), ("linux/arm64", 183)])
def test_linux_programs_are_static(sources: list[Path], tmp_path: Path, target: str, machine: int) -> None:
    content = crossbuild.build(sources, target=target, output=tmp_path / "p").read_bytes()
    assert content[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", content, 18)[0] == machine
    offset, size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    kinds = {struct.unpack_from("<I", content, offset + index * size)[0] for index in range(count)}
    assert 1 in kinds, "something is loaded"
    assert not kinds & {2, 3}, "neither a dynamic section nor an interpreter"


@pytest.mark.parametrize(("target", "cpu"), [("darwin/amd64", 0x01000007), ("darwin/arm64", 0x0100000C)])
def test_macos_programs(sources: list[Path], tmp_path: Path, target: str, cpu: int) -> None:
    content = crossbuild.build(sources, target=target, output=tmp_path / "p").read_bytes()
    assert struct.unpack_from("<II", content) == (0xFEEDFACF, cpu)


def test_what_was_built_is_kept_until_something_changes(sources: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for word in ("hello", "hello", "bye"):
        sources[1].write_text(f'#define WORD "{word}"\n')
        made = crossbuild.build(sources, target="linux/amd64", output=tmp_path / "p", cache=cache)
        assert process.run(made, check=False).text.split()[0] == word
    assert len(list((cache / "programs").iterdir())) == 2


def test_what_the_compiler_refuses(sources: list[Path], tmp_path: Path) -> None:
    sources[0].write_text("int main(void) { return missing; }\n")
    with pytest.raises(BuildError, match=r"program\.c.*missing"):
        crossbuild.build(sources, target="linux/amd64", output=tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_an_unknown_target(sources: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no compiler for plan9/mips"):
        crossbuild.build(sources, target="plan9/mips", output=tmp_path / "p")


def test_without_the_compiler(sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolMissing, match="ziglang is not installed"):
        crossbuild.build(sources, target="linux/amd64", output=tmp_path / "p")
