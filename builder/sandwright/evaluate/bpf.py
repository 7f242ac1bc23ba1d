"""Runs seccomp filters as the kernel does: a verifier and an interpreter of classic BPF, and a listing.

It accepts the instructions that the kernel accepts in a seccomp filter and refuses all others
(kernel/seccomp.c, seccomp_check_filter; net/core/filter.c, bpf_check_classic), so it answers about any
program, not only ours.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem
from sandwright.seccomp.action import Action, from_value

MAX_INSTRUCTIONS = 4096
DATA_SIZE = 64
"""The size of `struct seccomp_data`."""
SCRATCH_WORDS = 16

_U32 = 0xFFFFFFFF
_DATA = struct.Struct("<iIQ6Q")
_INSTRUCTION = struct.Struct("<HBBI")

_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_IMM, _ABS, _MEM, _LEN = 0x00, 0x20, 0x60, 0x80
_SOURCE_X = 0x08
_RETURN_A = 0x10
_ALU_NAMES = dict(
    zip(range(0x00, 0xB0, 0x10), "add sub mul div or and lsh rsh neg mod xor".split(), strict=True)  # noqa: SIM905
)
_OPERATIONS: Mapping[int, Callable[[int, int], int]] = {
    0x00: operator.add,
    0x10: operator.sub,
    0x20: operator.mul,
    0x30: operator.floordiv,
    0x40: operator.or_,
    0x50: operator.and_,
    0x60: lambda a, other: a << (other & 31),
    0x70: lambda a, other: a >> (other & 31),
    0x80: lambda a, _: -a,
    0xA0: operator.xor,
}
_JUMP_NAMES = {0x00: "ja", 0x10: "jeq", 0x20: "jgt", 0x30: "jge", 0x40: "jset"}
_FIELDS = {0: "nr", 4: "arch", 8: "ip", 12: "ip.high"} | {
    16 + 8 * index + 4 * half: f"arg{index}{'.high' * half}" for index in range(6) for half in (0, 1)
}


@dataclass(frozen=True)
class Instruction:
    """One instruction, as `struct sock_filter` holds it."""

    code: int
    true: int
    false: int
    k: int


@dataclass(frozen=True)
class SystemCall:
    """The data of a system call that a filter can read.

    `audit`: the AUDIT_ARCH_* of its ABI; arguments are unsigned.
    """

    number: int
    audit: int
    arguments: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)
    instruction_pointer: int = 0

    def words(self) -> tuple[int, ...]:
        """`struct seccomp_data`, as the 32-bit words that a filter can load."""
        number = (self.number & _U32) - (1 << 32 if self.number & 0x80000000 else 0)
        packed = _DATA.pack(number, self.audit, self.instruction_pointer, *self.arguments)
        return struct.unpack("<16I", packed)


def read_program(raw: bytes, *, file: str = "filter") -> tuple[Instruction, ...]:
    """The instructions of a filter for little-endian machines. `file` is its name in messages.

    Raise DocumentError when the kernel would refuse it.
    """
    if not raw or len(raw) % _INSTRUCTION.size or len(raw) // _INSTRUCTION.size > MAX_INSTRUCTIONS:
        counts = f"1 to {MAX_INSTRUCTIONS} instructions of {_INSTRUCTION.size} bytes"
        raise DocumentError(file, [Problem(0, 0, "", f"must have {counts}; it has {len(raw)} bytes")])
    program = tuple(Instruction(*fields) for fields in _INSTRUCTION.iter_unpack(raw))
    for index, instruction in enumerate(program):
        fault = _instruction_fault(instruction, index, len(program))
        if fault:
            raise DocumentError(file, [Problem(0, 0, f"instruction {index}", fault)])
    unset = _reads_unset_memory(program)
    if unset is not None:
        raise DocumentError(
            file, [Problem(0, 0, f"instruction {unset}", "reads a scratch word never written")]
        )
    return program


def run_program(program: Sequence[Instruction], call: SystemCall) -> Action:
    """The action of a filter on a call. `program` comes from `read_program`, which ensures that it ends."""
    return from_value(_Machine(program, call.words()).run())


def listing(program: Sequence[Instruction]) -> str:
    """The program as text: a line for each instruction, jumps by the lines they lead to."""
    return "".join(
        f"{index:4}  {_disassemble(instruction, index)}\n" for index, instruction in enumerate(program)
    )


class _Machine:
    def __init__(self, program: Sequence[Instruction], data: tuple[int, ...]) -> None:
        self._program = program
        self._data = data
        self._a = 0
        self._x = 0
        self._memory = [0] * SCRATCH_WORDS

    def run(self) -> int:
        at = 0
        while True:
            instruction = self._program[at]
            at += 1
            kind = instruction.code & 0x07
            if kind == _RET:
                return self._a if instruction.code & 0x18 == _RETURN_A else instruction.k
            if kind == _JMP:
                at += self._jump(instruction)
            elif kind == _ALU:
                if not self._calculate(instruction):
                    return 0
            else:
                self._run_move(instruction, kind)

    def _jump(self, instruction: Instruction) -> int:
        test = instruction.code & 0xF0
        if test == 0x00:
            return instruction.k
        other = self._x if instruction.code & _SOURCE_X else instruction.k
        if test == 0x10:
            holds = self._a == other
        elif test == 0x20:
            holds = self._a > other
        elif test == 0x30:
            holds = self._a >= other
        else:
            holds = bool(self._a & other)
        return instruction.true if holds else instruction.false

    def _calculate(self, instruction: Instruction) -> bool:
        """Do the arithmetic; False for a division by zero, which ends a program with 0."""
        other = self._x if instruction.code & _SOURCE_X else instruction.k
        operation = instruction.code & 0xF0
        if operation == 0x30 and other == 0:
            return False
        self._a = _OPERATIONS[operation](self._a, other) & _U32
        return True

    def _run_move(self, instruction: Instruction, kind: int) -> None:
        if kind == _MISC:
            if instruction.code & 0xF8 == 0x80:
                self._a = self._x
            else:
                self._x = self._a
        elif kind in (_ST, _STX):
            self._memory[instruction.k] = self._a if kind == _ST else self._x
        elif kind == _LD:
            self._a = self._load_value(instruction)
        else:
            self._x = self._load_value(instruction)

    def _load_value(self, instruction: Instruction) -> int:
        mode = instruction.code & 0xE0
        if mode == _ABS:
            return self._data[instruction.k // 4]
        if mode == _MEM:
            return self._memory[instruction.k]
        return instruction.k if mode == _IMM else DATA_SIZE


def _instruction_fault(instruction: Instruction, index: int, length: int) -> str:
    """The reason why the kernel would refuse an instruction; empty when it would not."""
    if instruction.code not in _TAKEN:
        return f"code {instruction.code:#06x} is not taken in a seccomp filter"
    kind = instruction.code & 0x07
    if kind == _LD and instruction.code & 0xE0 == _ABS and (instruction.k % 4 or instruction.k >= DATA_SIZE):
        return f"offset {instruction.k} is not a word of the {DATA_SIZE} bytes of input"
    if kind in (_ST, _STX) or (kind in (_LD, _LDX) and instruction.code & 0xE0 == _MEM):
        return "" if instruction.k < SCRATCH_WORDS else f"there is no scratch word {instruction.k}"
    if instruction.code == 0x34 and instruction.k == 0:
        return "divides by zero"
    if instruction.code in (0x64, 0x74) and instruction.k >= 32:
        return f"shifts by {instruction.k} bits"
    if kind == _JMP and index + 1 + max(_jump_distances(instruction)) >= length:
        return "jumps behind the end"
    if index == length - 1 and kind != _RET:
        return "is the last one and does not return"
    return ""


def _jump_distances(instruction: Instruction) -> list[int]:
    """The numbers of instructions that an instruction may skip."""
    if instruction.code & 0x07 == _RET:
        return []
    if instruction.code & 0x07 != _JMP:
        return [0]
    return [instruction.k] if instruction.code == 0x05 else [instruction.true, instruction.false]


def _reads_unset_memory(program: Sequence[Instruction]) -> int | None:
    """The first instruction that reads a scratch word which some way to it has not written."""
    written = [0xFFFF] * (len(program) + 1)
    written[0] = 0
    for index, instruction in enumerate(program):
        kind, have = instruction.code & 0x07, written[index]
        if kind in (_ST, _STX):
            have |= 1 << instruction.k
        elif kind in (_LD, _LDX) and instruction.code & 0xE0 == _MEM and not have >> instruction.k & 1:
            return index
        for step in _jump_distances(instruction):
            written[index + 1 + step] &= have
    return None


_TAKEN = frozenset(
    {
        *(0x20, 0x00, 0x01, 0x60, 0x61, 0x80, 0x81, 0x02, 0x03, 0x07, 0x87, 0x06, 0x16, 0x05, 0x84),
        *(
            _ALU | operation | source
            for operation in _ALU_NAMES
            if operation not in (0x80, 0x90)
            for source in (0, _SOURCE_X)
        ),
        *(_JMP | test | source for test in (0x10, 0x20, 0x30, 0x40) for source in (0, _SOURCE_X)),
    }
)


def _disassemble(instruction: Instruction, index: int) -> str:
    kind = instruction.code & 0x07
    if kind == _RET:
        return "ret a" if instruction.code & 0x18 == _RETURN_A else f"ret {from_value(instruction.k)}"
    if kind == _JMP:
        name = _JUMP_NAMES[instruction.code & 0xF0]
        if name == "ja":
            return f"ja {index + 1 + instruction.k}"
        other = "x" if instruction.code & _SOURCE_X else f"{instruction.k:#x}"
        return f"{name} {other}, {index + 1 + instruction.true}, {index + 1 + instruction.false}"
    if kind == _ALU:
        other = "x" if instruction.code & _SOURCE_X else f"{instruction.k:#x}"
        return f"{_ALU_NAMES[instruction.code & 0xF0]} {other}"
    if kind == _MISC:
        return "txa" if instruction.code & 0xF8 == 0x80 else "tax"
    if kind in (_ST, _STX):
        return f"{'st' if kind == _ST else 'stx'} [{instruction.k}]"
    places = {_IMM: f"{instruction.k:#x}", _ABS: _FIELDS.get(instruction.k, ""), _MEM: f"[{instruction.k}]"}
    return f"{'ld' if kind == _LD else 'ldx'} {places.get(instruction.code & 0xE0, 'size')}"
