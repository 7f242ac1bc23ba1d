"""The shipped binaries: the committed bytes equal a build of their sources.

Tests of crossbuild.py.
Tests of launcher/__init__.py: the sources of each program.
Tests of prebuilt.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sandwright import crossbuild, prebuilt
from sandwright.launcher import GUEST, LAUNCH
from sandwright.prebuilt import PrebuiltProgram
from support.programs import PROGRAMS

PACKAGE = Path(prebuilt.__file__).parent


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_record_is_of_the_programs_and_their_sources(program: PrebuiltProgram) -> None:
    """This test detects a changed byte in either, even without a compiler; then build them again."""
    record = json.loads(program.record.read_text())
    assert record["programs"] == {
        each: _digest(program.path(each).read_bytes()) for each in program.platforms
    }
    assert record["sources"] == program.source_digest()


def test_these_are_all_programs_that_are_built() -> None:
    """A source without a program would never be compiled here, or only on the user's machine."""
    packages = sorted(PACKAGE.parent.glob("sandwright*"))
    sources = {path for each in packages for pattern in ("*.c", "*.h") for path in each.rglob(pattern)}
    assert sources == {path for program in PROGRAMS for path in program.sources()}
    records = {path.parent for each in packages for path in each.rglob("programs.json")}
    assert records == {program.record.parent for program in PROGRAMS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "platform"),
    [
        pytest.param(program, each, id=f"{program.name}-{each}")
        for program in PROGRAMS
        for each in program.platforms
    ],
)
def test_the_sources_give_the_same_bytes(program: PrebuiltProgram, platform: str, tmp_path: Path) -> None:
    """`SANDWRIGHT_UPDATE_GOLDEN=1` builds the committed programs again, with their record."""
    record = json.loads(program.record.read_text())
    if os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1":
        crossbuild.rebuild(program)
    elif record["zig"] != crossbuild.compiler_version():
        pytest.skip(f"ziglang {crossbuild.compiler_version()} is installed, not {record['zig']}")
    made = crossbuild.build(
        program.sources(), target=platform, output=tmp_path / program.name, flags=program.flags
    )
    assert made.read_bytes() == program.path(platform).read_bytes()


def test_what_runs_in_a_kernel_of_its_own_is_in_the_guest_alone() -> None:
    """The program that starts them is in the launcher for processors with such kernels."""
    programs = {each: LAUNCH.path(each).read_bytes() for each in LAUNCH.platforms}
    programs["guest"] = GUEST.path("linux/amd64").read_bytes()
    only = {b"trans=virtio,version=9p2000.L": {"guest"}, b"ssl0=fd:": {"linux/amd64"}}
    for words, those in only.items():
        assert {each for each, content in programs.items() if words in content} == those
