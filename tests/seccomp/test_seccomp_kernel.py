"""The kernel answers like the evaluator: for our profiles, for random programs, and for foreign ABIs.

Tests of seccomp/bpf.py.
"""

from __future__ import annotations

import random
import signal
import struct
import sys
from collections.abc import Callable
from typing import cast

import pytest

from sandwright import process
from sandwright.evaluate.bpf import Instruction, SystemCall, read_program, run_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import (
    compile_profile,
    decide,
    load_profile_json,
    oci_json,
    profile,
    profiles,
    resolve,
)
from sandwright.seccomp.abi import NATIVE, Abi, Architecture
from sandwright.seccomp.action import KILL_PROCESS, KILL_THREAD
from support.seccomp_calls import as_seen, calls
from support.seccomp_kernel import ask_kernel, guarded, machine, run_filters

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or machine() not in NATIVE, reason="asks the kernel of Linux on amd64 or arm64"
)


UNFILTERED = ("uretprobe", "uprobe")
"""Newer kernels exempt these from any filter, and end a caller other than their own trampoline."""


@pytest.mark.parametrize("name", list(profiles()))
def test_the_kernel_answers_as_the_profile_says(name: str) -> None:
    arch = cast("Architecture", machine())
    filter_ = resolve(load_profile_json(json_text(oci_json(profile(name).expand())), name), arch=arch)
    program = read_program(compile_profile(profile(name).expand(), arch=arch))
    asked = [
        call
        for call in calls(filter_, arch=arch)
        if call.abi in (NATIVE[arch], Abi.X32) and call.name not in UNFILTERED
    ]
    seen = [as_seen(call) for call in asked]
    answers = ask_kernel(program, [(call.number, call.arguments) for call in seen])
    for call, answer in zip(asked, answers, strict=True):
        assert (KILL_THREAD if answer == KILL_PROCESS else answer) == decide(filter_, call).action, call


Instructions = list[Instruction]


def random_program(choose: random.Random) -> Instructions:
    """Loads (not of the instruction pointer), arithmetic, memory, jumps; the answer is an error to 2047."""
    code: Instructions = [Instruction(0x00, 0, 0, choose.getrandbits(32)), Instruction(0x02, 0, 0, 0)]
    length = choose.randrange(5, 40)
    for index in range(length):
        left = length - index - 1
        kinds: list[Callable[[], Instruction]] = [
            lambda: Instruction(0x20, 0, 0, choose.choice([0, 4, *range(16, 64, 4)])),
            lambda: Instruction(choose.choice([0x00, 0x01]), 0, 0, choose.getrandbits(32)),
            lambda: Instruction(
                choose.choice([0x04, 0x14, 0x24, 0x44, 0x54, 0xA4]), 0, 0, choose.getrandbits(32)
            ),
            lambda: Instruction(choose.choice([0x0C, 0x1C, 0x2C, 0x4C, 0x5C, 0xAC, 0x6C, 0x7C]), 0, 0, 0),
            lambda: Instruction(0x34, 0, 0, choose.randrange(1, 1000)),
            lambda: Instruction(choose.choice([0x64, 0x74]), 0, 0, choose.randrange(32)),
            lambda: Instruction(choose.choice([0x84, 0x07, 0x87, 0x80, 0x81]), 0, 0, 0),
            lambda: Instruction(choose.choice([0x02, 0x03, 0x60, 0x61]), 0, 0, 0),
            lambda: Instruction(
                choose.choice([0x15, 0x25, 0x35, 0x45, 0x1D, 0x2D, 0x3D, 0x4D]),
                choose.randrange(left + 1),  # noqa: B023 - called before the loop goes on
                choose.randrange(left + 1),  # noqa: B023
                choose.choice([0, 1, 5, 1 << 31, choose.getrandbits(32)]),
            ),
        ]
        code.append(choose.choice(kinds)())
    return [
        *code,
        Instruction(0x54, 0, 0, 0x7FF),
        Instruction(0x44, 0, 0, 0x00050000),
        Instruction(0x16, 0, 0, 0),
    ]


def test_the_kernel_runs_any_program_as_the_interpreter_does() -> None:
    choose = random.Random(20260801)
    programs = [random_program(choose) for _ in range(80)]
    filters, asked, expected = [], [], []
    for index, program in enumerate(programs):
        magic = 0x5A000000 + index
        filters.append(guarded(program, magic))
        checked = read_program(b"".join(struct.pack("<HBBI", i.code, i.true, i.false, i.k) for i in program))
        for _ in range(20):
            arguments = tuple(choose.choice([0, 1, 5, 1 << 31, choose.getrandbits(64)]) for _ in range(5))
            number = choose.randrange(300)
            asked.append((number, (*arguments, magic)))
            seen = SystemCall(number, NATIVE["amd64"].audit, (*arguments, magic))  # type: ignore[arg-type]
            expected.append(run_program(checked, seen).data)
    answers = run_filters(filters, asked)
    assert [-1 if error == 0 else error for error in expected] == answers
    assert len(set(answers)) > 100


RAW_CALL = r"""
import ctypes, mmap, sys
code = bytes.fromhex(sys.argv[2])
length = int(sys.argv[1])
data = sys.stdin.buffer.read()
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(length // 8, ctypes.cast(ctypes.create_string_buffer(data, length), ctypes.c_void_p))
if length:
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
print("answer", call(), flush=True)
"""
GETPID_I386 = "b814000000cd80c3"
"""mov eax, 20 (getpid of i386); int 0x80; ret"""
GETPID_X32 = "b8270000400f05c3"
"""mov eax, 0x40000027 (getpid of x32); syscall; ret"""
GETPID_AMD64 = "b8270000000f05c3"
"""mov eax, 39 (getpid); syscall; ret"""


@pytest.mark.skipif(machine() != "amd64", reason="machine code of amd64")
@pytest.mark.parametrize(
    ("code", "stopped"),
    [(GETPID_AMD64, False), (GETPID_I386, True), (GETPID_X32, True)],
    ids=["amd64", "i386", "x32"],
)
@pytest.mark.parametrize("name", ["default", "build"])
def test_programs_of_other_abis_are_stopped_for_real(name: str, code: str, stopped: bool) -> None:
    program = compile_profile(profile(name).expand(), arch="amd64")
    without = process.run(sys.executable, "-c", RAW_CALL, "0", code, stdin=b"", timeout=30)
    assert without.text.startswith("answer"), "the call is possible without a filter"
    under = process.run(
        sys.executable, "-c", RAW_CALL, str(len(program)), code, stdin=program, timeout=30, check=False
    )
    if stopped:
        assert under.status == -signal.SIGSYS
    else:
        assert under.status == 0
        assert int(under.text.split()[1]) > 0
