"""The programs that ship built: the committed bytes are those that their sources give."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sandwright import crossbuild
from sandwright.launcher import LAUNCH
from sandwright.prebuilt import PrebuiltProgram
from sandwright.runtime.probe import PROBE

PROGRAMS = (LAUNCH, PROBE)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_digests_are_those_of_the_programs(program: PrebuiltProgram) -> None:
    recorded = json.loads(program.record.read_text())["programs"]
    assert recorded == {each: _digest(program.path(each).read_bytes()) for each in program.platforms}


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
    """`SANDWRIGHT_UPDATE_GOLDEN=1` writes what was built, and its digest."""
    record = json.loads(program.record.read_text())
    update = os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1"
    if record["zig"] != crossbuild.compiler_version() and not update:
        pytest.skip(f"ziglang {crossbuild.compiler_version()} is installed, not {record['zig']}")
    made = crossbuild.build(program.sources(), target=platform, output=tmp_path / program.name)
    if update:
        program.path(platform).parent.mkdir(exist_ok=True)
        program.path(platform).write_bytes(made.read_bytes())
        program.path(platform).chmod(0o755)
        record["zig"] = crossbuild.compiler_version()
        record["programs"][platform] = _digest(made.read_bytes())
        program.record.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    assert made.read_bytes() == program.path(platform).read_bytes()


@pytest.mark.parametrize("platform", LAUNCH.platforms)
def test_the_launcher_is_small(platform: str) -> None:
    assert LAUNCH.path(platform).stat().st_size <= 200_000
