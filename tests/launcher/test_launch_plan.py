"""The launcher's plan: C reads the fields that Python wrote; a wrong byte is refused with its field's name.

Tests of launcher/plan.py.
Tests of launcher/source/document.c: unknown fields and other versions.
Tests of launcher/source/fields.h.
Tests of launcher/source/plan.c.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandwright.errors import RenderError
from sandwright.launcher import LAUNCH
from sandwright.launcher.plan import FIELDS, MOST, EnginePlan, LaunchPlan, ShimPlan, parse_plan, plan_bytes
from support.sanitized import fed

HEAD = b"sandwright-launch\x002\x00"
METHOD = b"method\x001\x00bwrap\x00"
END = b"end\x00"

FULL = LaunchPlan(
    method="bwrap",
    artifacts=(("args", "0" * 64), ("a b", "1" * 64)),
    absent=("/a", "/b\udcff"),
    uid=0,
    time=MOST,
    project="",
    proxy=True,
    engine=EnginePlan(client="docker", owner=0, files_inside=(("hosts", "dst=/etc/hosts"),)),
    shims=ShimPlan(enabled=True),
)

WRONG = {
    b"": "it is not a plan of a launcher",
    HEAD[:-1]: "it is not a plan of a launcher",
    b"x\x002\x00" + METHOD + END: "it is not a plan of a launcher",
    HEAD.replace(b"2", b"1") + METHOD + END: "it has version 1, and this program reads version 2",
    HEAD: "end: missing",
    HEAD + METHOD: "end: missing",
    HEAD + METHOD + END[:-1]: "end: missing",
    HEAD + END: "method: missing",
    HEAD + METHOD + END + b"x": "end: followed by more data",
    HEAD + METHOD + END + END: "end: followed by more data",
    HEAD + METHOD + b"other\x001\x00x\x00" + END: "other: unknown field",
    HEAD + METHOD + b"engine\x001\x00x\x00" + END: "engine: unknown field",
    HEAD + METHOD + b"engine.other\x001\x00x\x00" + END: "engine.other: unknown field",
    HEAD + METHOD + b"other.client\x001\x00x\x00" + END: "other.client: unknown field",
    HEAD + METHOD + b"shims.enabled\x000\x00shims.enabled\x000\x00" + END: "shims.enabled: given twice",
    HEAD + METHOD + METHOD + END: "method: given twice",
    HEAD + METHOD + b"absent": "end: missing",
    HEAD + METHOD + b"absent\x00": "absent: it is truncated",
    HEAD + METHOD + b"absent\x003": "absent: it is truncated",
    HEAD + METHOD + b"absent\x001\x00": "absent: wrong number of values",
    HEAD + METHOD + b"absent\x001\x00/a": "absent: it is truncated",
    HEAD + METHOD + b"absent\x00999999999999999\x00/a\x00" + END: "absent: wrong number of values",
    HEAD + METHOD + b"artifacts\x001\x00a\x00" + END: "artifacts: wrong number of values",
    HEAD + METHOD + b"proxy\x001\x00a\x00" + END: "proxy: wrong number of values",
    HEAD + METHOD + b"project\x002\x00a\x00b\x00" + END: "project: wrong number of values",
    HEAD + METHOD + b"project\x000\x00" + END: "project: wrong number of values",
    **{
        HEAD + METHOD + b"absent\x00" + count + b"\x00/a\x00" + END: "absent: wrong number of values"
        for count in (b"", b"-1", b"+1", b" 1", b"01", b"1 ", b"x", b"18446744073709551617")
    },
    **{
        HEAD + METHOD + b"time\x001\x00" + time + b"\x00" + END: "time: not a number, or out of range"
        for time in (b"", b"-1", b"+1", b" 1", b"01", b"1 ", b"x", b"1" + b"0" * 15)
    },
}


def test_both_have_the_same_fields() -> None:
    header = (LAUNCH.source / "fields.h").read_text()
    found = re.findall(r"^(?:FIELD\(|IN\((\w+), )([A-Z]+), (\w+)\)", header, re.MULTILINE)
    named = [(".".join(filter(None, (section, name))), kind) for section, kind, name in found]
    assert named == list(FIELDS.items())


def test_what_is_written_is_read() -> None:
    assert parse_plan(plan_bytes(FULL)) == FULL
    assert plan_bytes(LaunchPlan(method="bwrap")) == HEAD + METHOD + END


@pytest.mark.parametrize("wrong", list(WRONG))
def test_python_refuses_the_same(wrong: bytes) -> None:
    with pytest.raises(RenderError):
        parse_plan(wrong)


@pytest.mark.parametrize(
    "plan",
    [
        LaunchPlan(method="a\0b"),
        LaunchPlan(method="a", absent=("a", "\0")),
        LaunchPlan(method="a", artifacts=(("a", "\0"),)),
        LaunchPlan(method="a", time=-1),
        LaunchPlan(method="a", time=MOST + 1),
    ],
)
def test_what_no_plan_can_say(plan: LaunchPlan) -> None:
    with pytest.raises(RenderError, match=r"method|absent|artifacts|time"):
        plan_bytes(plan)


@pytest.mark.needs("cc")
def test_c_reads_what_python_writes(harness: Path) -> None:
    told = fed(harness, [b"p" + plan_bytes(FULL).replace(b"\xff", b"?")])
    artifacts = f"artifacts=args artifacts={'0' * 64} artifacts=a b artifacts={'1' * 64}"
    common = f"method=bwrap {artifacts} absent=/a absent=/b? uid=0 project= time={MOST} proxy"
    files = "engine.files_inside=hosts engine.files_inside=dst=/etc/hosts"
    assert told == [f"right: {common} shims.enabled engine.client=docker {files} engine.owner=0"]


@pytest.mark.needs("cc")
def test_a_wrong_byte_is_refused_with_its_field(harness: Path) -> None:
    assert fed(harness, [b"p" + each for each in WRONG]) == list(WRONG.values())
