"""Every fault that the linter knows, each beside a profile without it.

Tests of seccomp/lint_answers.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandwright.errors import DocumentError
from sandwright.render.artifact import json_text
from sandwright.seccomp import oci_json, profile, profiles
from sandwright.seccomp.lint import lint_profile

INT = 4294967295


def rule(*names: str, action: str = "ALLOW", **more: Any) -> dict[str, Any]:
    return {"names": list(names), "action": f"SCMP_ACT_{action}", **more}


def arg(index: int, op: str, value: int, two: int = 0) -> dict[str, Any]:
    return {"index": index, "op": f"SCMP_CMP_{op}", "value": value, "valueTwo": two}


def of(*rules: dict[str, Any], default: str = "ERRNO", **more: Any) -> dict[str, Any]:
    clone3 = rule("clone3", action="ERRNO", errnoRet=38)
    return {"defaultAction": f"SCMP_ACT_{default}", "syscalls": [*rules, clone3], **more}


def codes(data: dict[str, Any], **options: Any) -> set[str]:
    return {fault.code for fault in lint_profile(json.dumps(data), "p", **options)}


@pytest.mark.parametrize(
    ("code", "faulty", "sound"),
    [
        (
            "argument-twice",
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1), arg(0, "MASKED_EQ", INT, 2)])),
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1), arg(1, "MASKED_EQ", INT, 2)])),
        ),
        (
            "wide-comparison",
            of(rule("socket", args=[arg(0, "NE", 40)])),
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)])),
        ),
        (
            "wide-comparison",
            of(rule("ioctl", action="ERRNO", args=[arg(1, "EQ", 0x5412)]), default="ALLOW"),
            of(rule("ioctl", action="ERRNO", args=[arg(1, "MASKED_EQ", INT, 0x5412)]), default="ALLOW"),
        ),
        (
            "wide-comparison",
            of(rule("socket", args=[arg(0, "EQ", 1)])),
            of(rule("mmap", args=[arg(0, "EQ", 1)])),
        ),
        ("unknown-name", of(rule("reed")), of(rule("read"))),
        ("unknown-name", of(rule("reed", action="KILL"), default="ALLOW"), of(rule("riscv_hwprobe"))),
        ("no-names", of(rule()), of(rule("read"))),
        ("errno-without-error", of(rule("read", errnoRet=1)), of(rule("read", action="ERRNO", errnoRet=2))),
        (
            "errno-zero",
            of(rule("read", action="ERRNO", errnoRet=0)),
            of(rule("read", action="ERRNO", errnoRet=2)),
        ),
        (
            "errno-large",
            of(rule("read", action="ERRNO", errnoRet=5000)),
            of(rule("read", action="ERRNO", errnoRet=2)),
        ),
        ("same-as-default", of(rule("read", action="ERRNO")), of(rule("read"))),
        ("unknown-key", of(rule("read", errno_ret=1)), of(rule("read", errnoRet=1))),
        ("unknown-key", of(rule("read"), defaultErrno_ret=1), of(rule("read"), defaultErrnoRet=1)),
        (
            "unknown-key",
            of(rule("read", includes={"cap": ["X"]})),
            of(rule("read", includes={"caps": ["X"]})),
        ),
        (
            "undone",
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)]), rule("socket", action="LOG")),
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)]), rule("read", action="LOG")),
        ),
        ("undone", of(rule("read"), rule("read", action="LOG")), of(rule("read"), rule("read"))),
        (
            "ordered-comparisons",
            of(rule("mmap", args=[arg(0, "LT", 3)]), rule("mmap", args=[arg(0, "GT", 9)])),
            of(rule("mmap", args=[arg(0, "LT", 3)]), rule("mmap", args=[arg(0, "EQ", 9)])),
        ),
        (
            "clash",
            of(rule("mmap", args=[arg(0, "EQ", 3)]), rule("mmap", action="LOG", args=[arg(0, "EQ", 3)])),
            of(rule("mmap", args=[arg(0, "EQ", 3)]), rule("mmap", action="LOG", args=[arg(0, "EQ", 4)])),
        ),
        ("clone3", {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [rule("read")]}, of(rule("read"))),
        (
            "clone3",
            {
                "defaultAction": "SCMP_ACT_ERRNO",
                "syscalls": [rule("clone3"), rule("clone", args=[arg(0, "MASKED_EQ", 0x7E020000, 0)])],
            },
            {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [rule("clone3", "clone")]},
        ),
        ("wide-open", of(default="ALLOW"), of()),
        ("wide-open", of(default="LOG"), of()),
        (
            "terminal-input",
            of(rule("ioctl")),
            of(rule("ioctl", args=[arg(1, "MASKED_EQ", 0x10, 0)])),
        ),
        (
            "io-uring",
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)]), rule("io_uring_setup")),
            of(rule("socket"), rule("io_uring_setup")),
        ),
        (
            "multiplexed",
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)]), architectures=["SCMP_ARCH_X86"]),
            of(rule("socket", args=[arg(0, "MASKED_EQ", INT, 1)]), architectures=["SCMP_ARCH_X86_64"]),
        ),
        ("grants", of(rule("bpf")), of(rule("read"))),
        (
            "grants",
            of(rule("bpf", includes={"caps": ["CAP_BPF"]}), rule("mount")),
            of(rule("bpf", includes={"caps": ["CAP_BPF"]})),
        ),
    ],
)
def test_a_fault_is_found_and_only_where_it_is(
    code: str, faulty: dict[str, Any], sound: dict[str, Any]
) -> None:
    assert code in codes(faulty)
    assert code not in codes(sound)


def test_what_depends_on_capabilities_is_judged_for_them() -> None:
    data = of(rule("bpf", includes={"caps": ["CAP_BPF"]}))
    assert "grants" not in codes(data)
    assert "grants" in codes(data, caps=["CAP_BPF"])


def test_faults_come_in_order_with_position_and_words() -> None:
    text = (
        '{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,\n'
        ' "syscalls": [\n'
        '  {"names": ["socket"], "action": "SCMP_ACT_ALLOW",'
        ' "args": [{"index": 0, "op": "SCMP_CMP_GT", "value": 40}]},\n'
        '  {"names": ["bpf", "raed"], "action": "SCMP_ACT_ALLOW", "arg": []}]}'
    )
    assert [fault.render("p.json") for fault in lint_profile(text, "p.json")] == [
        "p.json:3:3: error: socket compares all 64 bits of argument 0, of which the kernel sees 32: a caller"
        " that sets upper bits gets past it; use SCMP_CMP_MASKED_EQ with the mask 4294967295"
        " [wide-comparison]",
        "p.json:4:3: note: allows bpf: Loads programs into the kernel. [grants]",
        "p.json:4:3: warning: raed is not a known system call: the rule is left out, as engines do with names"
        " they do not know; did you mean read? [unknown-name]",
        "p.json:4:58: warning: arg is no key that an engine knows, so it does nothing; did you mean args?"
        " [unknown-key]",
    ]


def test_the_direction_of_a_wide_comparison_decides_how_bad_it_is() -> None:
    def severity(data: dict[str, Any]) -> set[str]:
        faults = lint_profile(json.dumps(data), "p")
        return {fault.severity.value for fault in faults if fault.code == "wide-comparison"}

    assert severity(of(rule("socket", args=[arg(0, "EQ", 1)]))) == {"note"}
    assert severity(of(rule("socket", args=[arg(0, "GT", 1)]))) == {"error"}
    assert severity(of(rule("socket", action="KILL", args=[arg(0, "EQ", 1)]), default="ALLOW")) == {"error"}
    assert severity(of(rule("socket", args=[arg(0, "MASKED_EQ", (1 << 33) - 1, 1)]))) == {"note"}


@pytest.mark.parametrize("name", list(profiles()))
def test_our_own_profiles_have_nothing_but_notes(name: str) -> None:
    faults = lint_profile(json_text(oci_json(profile(name).expand(), comments=True)), name)
    assert {fault.severity.value for fault in faults} <= {"note"}
    assert {fault.code for fault in faults} <= {"same-as-default", "grants"}


def test_what_is_no_profile_is_not_linted() -> None:
    with pytest.raises(DocumentError):
        lint_profile("[]", "p")
