"""Programs of classic BPF: assembly, refusals, and their answers."""

from __future__ import annotations

import struct

import pytest

from sandwright.errors import DocumentError
from sandwright.evaluate.bpf import Instruction, SystemCall, listing, read_program, run_program
from sandwright.seccomp import compile_filter, compile_profile, load_profile_json, profile, resolve
from sandwright.seccomp.abi import NATIVE, Architecture
from sandwright.seccomp.action import Action, ActionKind
from sandwright.seccomp.assembler import (
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    JUMP_GREATER,
    Assembler,
    Label,
    ProgramTooLong,
)

LD, LD_IMM, LDX_IMM, LD_MEM, LDX_MEM, ST, STX = 0x20, 0x00, 0x01, 0x60, 0x61, 0x02, 0x03
TAX, TXA, RET, RET_A, JA = 0x07, 0x87, 0x06, 0x16, 0x05
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
CALL = SystemCall(
    0x1234, 0xC000003E, (0x1111222233334444, 5, 0, 0, 0, 0xFFFFFFFF00000001), 0xAAAABBBBCCCCDDDD
)


def raw(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def returned(*instructions: tuple[int, int, int, int]) -> int:
    """The errors that a program returns, from the lower 12 bits of the accumulator."""
    tail = ((0x54, 0, 0, 0xFFF), (0x44, 0, 0, ERRNO), (RET_A, 0, 0, 0))
    return run_program(read_program(raw(*instructions, *tail)), CALL).data


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([(LD, 0, 0, 0)], 0x234),
        ([(LD, 0, 0, 4)], 0x03E),
        ([(LD, 0, 0, 8)], 0xDDD),
        ([(LD, 0, 0, 12)], 0xBBB),
        ([(LD, 0, 0, 16)], 0x444),
        ([(LD, 0, 0, 20)], 0x222),
        ([(LD, 0, 0, 24)], 5),
        ([(LD, 0, 0, 60)], 0xFFF),
        ([(0x80, 0, 0, 0)], 64),
        ([(0x81, 0, 0, 0), (TXA, 0, 0, 0)], 64),
        ([(LD_IMM, 0, 0, 7), (0x04, 0, 0, 5)], 12),
        ([(LD_IMM, 0, 0, 7), (0x14, 0, 0, 9), (0x74, 0, 0, 4)], 0xFFF),
        ([(LD_IMM, 0, 0, 7), (0x24, 0, 0, 5)], 35),
        ([(LD_IMM, 0, 0, 37), (0x34, 0, 0, 5)], 7),
        ([(LD_IMM, 0, 0, 5), (0xA4, 0, 0, 3)], 6),
        ([(LD_IMM, 0, 0, 5), (0x64, 0, 0, 3)], 40),
        ([(LD_IMM, 0, 0, 1), (0x84, 0, 0, 0)], 0xFFF),
        ([(LDX_IMM, 0, 0, 3), (LD_IMM, 0, 0, 10), (0x1C, 0, 0, 0)], 7),
        ([(LDX_IMM, 0, 0, 35), (LD_IMM, 0, 0, 1), (0x6C, 0, 0, 0)], 8),
        ([(LD_IMM, 0, 0, 9), (ST, 0, 0, 15), (LD_IMM, 0, 0, 0), (LD_MEM, 0, 0, 15)], 9),
        ([(LD_IMM, 0, 0, 9), (TAX, 0, 0, 0), (STX, 0, 0, 0), (LDX_MEM, 0, 0, 0), (TXA, 0, 0, 0)], 9),
        ([(LD_IMM, 0, 0, 5), (0x15, 0, 1, 5), (LD_IMM, 0, 0, 1)], 1),
        ([(LD_IMM, 0, 0, 5), (0x25, 0, 1, 5), (LD_IMM, 0, 0, 1)], 5),
        ([(LD_IMM, 0, 0, 5), (0x35, 0, 1, 5), (LD_IMM, 0, 0, 1)], 1),
        ([(LD_IMM, 0, 0, 6), (0x45, 0, 1, 2), (LD_IMM, 0, 0, 1)], 1),
        ([(LD_IMM, 0, 0, 6), (0x45, 0, 1, 1), (LD_IMM, 0, 0, 1)], 6),
        ([(LDX_IMM, 0, 0, 5), (LD_IMM, 0, 0, 5), (0x1D, 0, 1, 0), (LD_IMM, 0, 0, 1)], 1),
        ([(LD_IMM, 0, 0, 5), (JA, 0, 0, 1), (LD_IMM, 0, 0, 1)], 5),
    ],
)
def test_instructions(instructions: list[tuple[int, int, int, int]], expected: int) -> None:
    assert returned(*instructions) == expected


def test_a_division_by_zero_ends_with_the_answer_0() -> None:
    program = read_program(raw((LDX_IMM, 0, 0, 0), (0x3C, 0, 0, 0), (RET, 0, 0, ALLOW)))
    assert run_program(program, CALL) == Action(ActionKind.KILL_THREAD)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"", "f: must have 1 to 4096 instructions of 8 bytes; it has 0 bytes"),
        (b"1234567", "f: must have 1 to 4096 instructions of 8 bytes; it has 7 bytes"),
        (raw((RET, 0, 0, 0)) * 4097, "f: must have 1 to 4096 instructions of 8 bytes; it has 32776 bytes"),
        (
            raw((0x28, 0, 0, 0), (RET, 0, 0, 0)),
            "f: instruction 0: code 0x0028 is not taken in a seccomp filter",
        ),
        (
            raw((0x94, 0, 0, 3), (RET, 0, 0, 0)),
            "f: instruction 0: code 0x0094 is not taken in a seccomp filter",
        ),
        (
            raw((LD, 0, 0, 2), (RET, 0, 0, 0)),
            "f: instruction 0: offset 2 is not a word of the 64 bytes of input",
        ),
        (
            raw((LD, 0, 0, 64), (RET, 0, 0, 0)),
            "f: instruction 0: offset 64 is not a word of the 64 bytes of input",
        ),
        (raw((LD, 0, 0, 0)), "f: instruction 0: is the last one and does not return"),
        (raw((JA, 0, 0, 1), (RET, 0, 0, 0)), "f: instruction 0: jumps behind the end"),
        (raw((0x15, 1, 0, 0), (RET, 0, 0, 0)), "f: instruction 0: jumps behind the end"),
        (raw((JA, 0, 0, 0xFFFFFFFF), (RET, 0, 0, 0)), "f: instruction 0: jumps behind the end"),
        (raw((0x34, 0, 0, 0), (RET, 0, 0, 0)), "f: instruction 0: divides by zero"),
        (raw((0x64, 0, 0, 32), (RET, 0, 0, 0)), "f: instruction 0: shifts by 32 bits"),
        (raw((ST, 0, 0, 16), (RET, 0, 0, 0)), "f: instruction 0: there is no scratch word 16"),
        (raw((LD_MEM, 0, 0, 3), (RET, 0, 0, 0)), "f: instruction 0: reads a scratch word never written"),
        (
            raw((0x15, 0, 1, 0), (ST, 0, 0, 3), (LD_MEM, 0, 0, 3), (RET, 0, 0, 0)),
            "f: instruction 2: reads a scratch word never written",
        ),
    ],
    ids=[
        *(
            "empty",
            "odd",
            "long",
            "half-word",
            "modulo",
            "unaligned",
            "outside",
            "no-return",
            "ja",
            "jump",
            "ja-far",
        ),
        *("division", "shift", "scratch", "unwritten", "half-written"),
    ],
)
def test_what_the_kernel_refuses(program: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_program(program, file="f")
    assert str(caught.value) == message


def test_the_longest_program_is_taken() -> None:
    assert len(read_program(raw((RET, 0, 0, 0)) * 4096)) == 4096


def far(distance: int, *, when: int) -> bytes:
    """A program that jumps over `distance` instructions if the number is `when`."""
    assembler = Assembler()
    target = Label()
    assembler.load(0)
    assembler.jump(JUMP_EQUAL, when, when_true=target)
    for _ in range(distance):
        assembler.mask(0xFFFFFFFF)
    assembler.give(ERRNO | 1)
    assembler.bind(target)
    assembler.give(ALLOW)
    return assembler.assemble()


@pytest.mark.parametrize("distance", [0, 1, 253, 254, 255, 256, 257, 1000, 4000])
def test_jumps_reach_as_far_as_they_must(distance: int) -> None:
    program = read_program(far(distance, when=7))
    assert run_program(program, SystemCall(7, 0)) == Action(ActionKind.ALLOW)
    assert run_program(program, SystemCall(8, 0)) == Action(ActionKind.ERRNO, 1)
    assert len(program) == distance + 4 + (2 if distance >= 255 else 0)


def test_both_ways_of_a_jump_may_be_far_and_one_may_lengthen_another() -> None:
    assembler = Assembler()
    high, low, first = Label(), Label(), Label()
    assembler.load(0)
    assembler.jump(JUMP_AT_LEAST, 1000, when_true=first, when_false=low)
    for number in range(130):
        assembler.jump(JUMP_GREATER, number, when_true=low, when_false=high)
    assembler.bind(first)
    for _ in range(130):
        assembler.mask(0xFFFFFFFF)
    assembler.bind(high)
    assembler.give(ALLOW)
    assembler.bind(low)
    assembler.give(ERRNO | 2)
    program = read_program(assembler.assemble())
    assert run_program(program, SystemCall(2000, 0)) == Action(ActionKind.ALLOW)
    assert run_program(program, SystemCall(5, 0)) == Action(ActionKind.ERRNO, 2)


def test_a_program_that_is_too_long_is_refused() -> None:
    assert len(far(4090, when=1)) == 8 * 4096
    with pytest.raises(ProgramTooLong, match="the filter has 4097 instructions; 4096 are possible"):
        far(4091, when=1)


def test_a_profile_that_is_too_long_is_refused() -> None:
    rules = ",".join(
        '{"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args":'
        f' [{{"index": {n % 6}, "op": "SCMP_CMP_EQ", "value": {n}}}]}}'
        for n in range(2000)
    )
    document = load_profile_json(f'{{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{rules}]}}', "p")
    with pytest.raises(ProgramTooLong):
        compile_filter(resolve(document, arch="amd64"), arch="amd64")


def test_the_listing_shows_where_jumps_lead() -> None:
    program = raw((LD, 0, 0, 4), (0x15, 0, 1, 0xC000003E), (RET, 0, 0, ALLOW), (RET, 0, 0, ERRNO | 1))
    assert listing(read_program(program)) == (
        "   0  ld arch\n"
        "   1  jeq 0xc000003e, 2, 3\n"
        "   2  ret SCMP_ACT_ALLOW\n"
        "   3  ret SCMP_ACT_ERRNO 1 (EPERM)\n"
    )


@pytest.mark.parametrize(("arch", "count"), [("amd64", 258), ("arm64", 226)])
def test_what_is_always_allowed_is_decided_by_the_number_alone(arch: Architecture, count: int) -> None:
    """The kernel caches such calls in a bitmap, unless the answer depends on an argument."""
    program = read_program(compile_profile(profile("default").expand(), arch=arch))
    audit = NATIVE[arch].audit
    assert sum(decided_by_number(program, number, audit) == ALLOW for number in range(470)) == count


def decided_by_number(program: tuple[Instruction, ...], number: int, audit: int) -> int | None:
    """The answer, if it is found without loading an argument."""
    at, value = 0, 0
    while True:
        instruction = program[at]
        at += 1
        if instruction.code == RET:
            return instruction.k
        if instruction.code == LD:
            if instruction.k not in (0, 4):
                return None
            value = audit if instruction.k else number
        elif instruction.code == JA:
            at += instruction.k
        else:
            holds = value == instruction.k if instruction.code == JUMP_EQUAL else value >= instruction.k
            at += instruction.true if holds else instruction.false
