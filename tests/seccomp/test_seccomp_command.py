"""One question and its answer by `sandwright seccomp-eval`."""

from __future__ import annotations

import json

import pytest

from sandwright.errors import DocumentError, UsageError
from sandwright.seccomp.command import CAPABILITIES, evaluate_command

PROFILE = """{
 "defaultAction": "SCMP_ACT_ERRNO",
 "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
 "syscalls": [
  {"names": ["read", "open", "clone3"], "action": "SCMP_ACT_ALLOW", "comment": "files"},
  {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
  {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
  {"names": ["socket"], "action": "SCMP_ACT_ALLOW",
   "args": [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 4294967295, "valueTwo": 1}]},
  {"names": ["socket"], "action": "SCMP_ACT_LOG",
   "args": [{"index": 1, "op": "SCMP_CMP_MASKED_EQ", "value": 15, "valueTwo": 2}]},
  {"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}
 ]
}
"""


@pytest.mark.parametrize(
    ("syscall", "arguments", "options", "lines"),
    [
        (
            *("read", [], {}),
            [
                "SCMP_ACT_ALLOW",
                "call: read (0) of amd64, arguments 0 0 0 0 0 0",
                "rule: p.json:5:3: syscalls[0]: files",
            ],
        ),
        ("0", [], {}, ["SCMP_ACT_ALLOW"]),
        (
            "read",
            [],
            {"arch": "arm64"},
            ["SCMP_ACT_ALLOW", "call: read (63) of arm64, arguments 0 0 0 0 0 0"],
        ),
        ("63", [], {"arch": "aarch64"}, ["SCMP_ACT_ALLOW"]),
        (
            *("mount", [], {}),
            [
                "SCMP_ACT_ERRNO 1 (EPERM)",
                "call: mount (165) of amd64, arguments 0 0 0 0 0 0",
                "default: no rule of the profile holds; this is its default action",
            ],
        ),
        ("mount", [], {"caps": ["CAP_SYS_ADMIN"]}, ["SCMP_ACT_ALLOW"]),
        ("mount", [], {"caps": ["sys_admin"]}, ["SCMP_ACT_ALLOW"]),
        ("ptrace", [], {"kernel": "4.4"}, ["SCMP_ACT_ERRNO 1 (EPERM)"]),
        ("ptrace", [], {"kernel": "6.1.0-28-amd64"}, ["SCMP_ACT_ALLOW"]),
        ("socket", ["1"], {}, ["SCMP_ACT_ALLOW", "call: socket (41) of amd64, arguments 1 0 0 0 0 0"]),
        ("socket", ["0x100000001"], {}, ["SCMP_ACT_ALLOW"]),
        ("socket", ["-4294967295"], {}, ["SCMP_ACT_ALLOW"]),
        ("socket", ["0b10"], {}, ["SCMP_ACT_ERRNO 1 (EPERM)"]),
        ("socket", ["2", "2"], {}, ["SCMP_ACT_LOG"]),
        (
            *("socket", ["1", "2"], {}),
            [
                "SCMP_ACT_LOG",
                "call: socket (41) of amd64, arguments 1 2 0 0 0 0",
                "rule: p.json:10:3: syscalls[4]",
                "overlaps: p.json:8:3: syscalls[3]: SCMP_ACT_ALLOW",
            ],
        ),
        (
            *("bpf", [], {}),
            [
                "SCMP_ACT_ERRNO 1 (EPERM)",
                "call: bpf (321) of amd64, arguments 0 0 0 0 0 0",
                "default: p.json:12:3: syscalls[5] says the same as the default, so engines leave it out",
            ],
        ),
        (
            *("500", [], {}),
            [
                "SCMP_ACT_ERRNO 1 (EPERM)",
                "call: 500 (500) of amd64, arguments 0 0 0 0 0 0",
                "default: no rule of the profile holds; this is its default action",
                "runc: SCMP_ACT_ERRNO 38 (ENOSYS), as the number is above all that the profile names",
            ],
        ),
        ("read", [], {"arch": "i386"}, ["SCMP_ACT_ALLOW", "call: read (3) of x86, arguments 0 0 0 0 0 0"]),
        (
            *("read", [], {"arch": "x32"}),
            [
                "SCMP_ACT_KILL_THREAD",
                "call: read (0) of x32, arguments 0 0 0 0 0 0",
                "architecture: the profile has no architecture SCMP_ARCH_X32; libseccomp stops such calls",
            ],
        ),
        ("0x40000000", [], {}, ["SCMP_ACT_KILL_THREAD"]),
        ("-1", [], {}, ["SCMP_ACT_ERRNO 1 (EPERM)"]),
    ],
)
def test_answers(syscall: str, arguments: list[str], options: dict[str, object], lines: list[str]) -> None:
    answer = evaluate_command(PROFILE, "p.json", syscall, arguments, **options)  # type: ignore[arg-type]
    assert answer.text().splitlines()[: len(lines)] == lines


def test_the_answer_as_data() -> None:
    answer = evaluate_command(PROFILE, "p.json", "socket", ["1", "2"]).as_json()
    assert json.loads(json.dumps(answer)) == {
        "action": "SCMP_ACT_LOG",
        "errno": None,
        "errno_name": None,
        "arch": "amd64",
        "abi": "amd64",
        "syscall": "socket",
        "number": 41,
        "arguments": [1, 2, 0, 0, 0, 0],
        "stage": "rule",
        "reason": "p.json:10:3: syscalls[4]",
        "unsure": False,
        "rule": {"file": "p.json", "line": 10, "column": 3, "path": "syscalls[4]", "comment": ""},
        "overlapping": [
            {
                "file": "p.json",
                "line": 8,
                "column": 3,
                "path": "syscalls[3]",
                "comment": "",
                "action": "SCMP_ACT_ALLOW",
                "errno": None,
                "errno_name": None,
            }
        ],
        "runc": None,
        "refused_by_engines": [],
    }


def test_an_error_has_its_number_and_name() -> None:
    answer = evaluate_command(PROFILE, "p.json", "mount").as_json()
    assert (answer["action"], answer["errno"], answer["errno_name"]) == ("SCMP_ACT_ERRNO", 1, "EPERM")


def test_a_profile_that_engines_refuse_is_answered_and_says_so() -> None:
    args = '"args": [{"index": 0, "op": "SCMP_CMP_EQ", "value": 1}]'
    text = (
        '{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [\n'
        f'{{"names": ["socket"], "action": "SCMP_ACT_ALLOW", {args}}},\n'
        f'{{"names": ["socket"], "action": "SCMP_ACT_LOG", {args}}}]}}'
    )
    lines = evaluate_command(text, "p", "socket", ["1"]).text().splitlines()
    assert lines[0] == "SCMP_ACT_ALLOW"
    assert lines[-1] == (
        "refused by engines: p:2:1: syscalls[0] and p:3:1: syscalls[1] compare the same"
        " and answer differently"
    )


@pytest.mark.parametrize(
    ("syscall", "arguments", "options", "message"),
    [
        ("ptrac", [], {}, "ptrac is not a system call; did you mean ptrace?"),
        ("zzzzzzz", [], {}, "zzzzzzz is not a system call"),
        ("mmap2", [], {}, "amd64 has no mmap2; it is one of x86, arm"),
        ("open", [], {"arch": "arm64"}, "arm64 has no open; it is one of amd64, x86, x32, arm"),
        ("riscv_hwprobe", [], {}, "amd64 has no riscv_hwprobe; it belongs to other architectures"),
        ("99999999999", [], {}, "99999999999 is not the number of a call: they have 32 bits"),
        ("-2", [], {}, "-2 is not the number of a call: they have 32 bits"),
        ("1x", [], {}, "1x is not the number of a call: write decimal digits, or 0x and hexadecimal ones"),
        ("read", ["x"], {}, "x is not a number: write decimal digits, or 0x and hexadecimal ones"),
        ("read", ["012"], {}, "012 is not a number: write decimal digits, or 0x and hexadecimal ones"),
        ("read", ["0x10000000000000000"], {}, "0x10000000000000000 does not fit into 64 bits"),
        ("read", ["1"] * 7, {}, "a call has at most 6 arguments, not 7"),
        (
            "read",
            [],
            {"arch": "mips"},
            "mips is not one of the architectures amd64, x86, x32, arm64, arm, i386, x86_64, aarch64",
        ),
        (
            "read",
            [],
            {"caps": ["CAP_SYS_ADMINN"]},
            "CAP_SYS_ADMINN is not a capability; did you mean CAP_SYS_ADMIN?",
        ),
        ("read", [], {"kernel": "new"}, "new is not a version of a kernel"),
    ],
    ids=[
        *(
            "misspelt",
            "unknown",
            "32-bit",
            "not-on-arm64",
            "elsewhere",
            "large",
            "negative",
            "half-a-number",
            "word",
        ),
        *("octal", "wide", "seven", "architecture", "capability", "kernel"),
    ],
)
def test_questions_that_are_none(
    syscall: str, arguments: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate_command(PROFILE, "p.json", syscall, arguments, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_profile_that_is_none() -> None:
    with pytest.raises(DocumentError, match=r"^p\.json:1:1: defaultAction: defaultAction is required$"):
        evaluate_command("{}", "p.json", "read")


def test_the_capabilities_are_those_of_the_kernel() -> None:
    assert len(CAPABILITIES) == 41
    assert CAPABILITIES.index("CAP_SYS_ADMIN") == 21
    assert CAPABILITIES.index("CAP_BPF") == 39
