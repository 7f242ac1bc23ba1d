"""The hardening of the launcher's programs: position-independent, without writable code or relocations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1

from sandwright.launcher import GUEST, LAUNCH, LAUNCH_INIT, LAUNCH_VM
from sandwright.runtime.probe import PROBE

BUILT = [
    pytest.param(program.path(platform), id=f"{program.name}-{platform}")
    for program in (LAUNCH, LAUNCH_INIT, LAUNCH_VM, GUEST)
    for platform in program.platforms
]
GUARD = b"\x64\x48\x8b\x04\x25\x28\x00\x00\x00"
"""mov %fs:0x28,%rax: a function of amd64 reads the stack's guard."""


def _lacks(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        elf = ELFFile(file)
        segments = {each["p_type"]: each for each in elf.iter_segments()}
        dynamic = segments.get("PT_DYNAMIC")
        tags = (
            {each.entry.d_tag: each.entry.d_val for each in dynamic.iter_tags()}
            if isinstance(dynamic, DynamicSegment)
            else {}
        )
        if elf["e_type"] != "ET_DYN" or not tags.get("DT_FLAGS_1", 0) & ENUM_DT_FLAGS_1["DF_1_PIE"]:
            yield "position-independent"
        if "PT_INTERP" in segments or "DT_NEEDED" in tags:
            yield "static"
        if "PT_GNU_RELRO" not in segments or not tags.get("DT_FLAGS", 0) & ENUM_DT_FLAGS["DF_BIND_NOW"]:
            yield "relocations that are read-only"
        flags = [(each["p_type"], each["p_flags"]) for each in elf.iter_segments()]
        both = P_FLAGS.PF_W | P_FLAGS.PF_X
        if any(each & both == both for kind, each in flags if kind in ("PT_LOAD", "PT_GNU_STACK")):
            yield "no writable code"
        if "PT_GNU_STACK" not in segments:
            yield "a stack that isn't executable"
        if elf.get_machine_arch() == "x64" and path.read_bytes().count(GUARD) < 10:
            yield "the stack's guard"


@pytest.mark.parametrize("path", BUILT)
def test_programs_are_hardened(path: Path) -> None:
    assert list(_lacks(path)) == []


def test_the_check_sees_what_is_missing() -> None:
    assert set(_lacks(PROBE.path("linux/amd64"))) == {
        "position-independent",
        "relocations that are read-only",
    }
