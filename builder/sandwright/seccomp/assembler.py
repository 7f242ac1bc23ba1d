"""Puts together programs of classic BPF, with labels in place of distances.

A conditional jump of classic BPF reaches 255 instructions; one that has to go further is given two
unconditional ones, which reach everything. An instruction is 8 bytes: code, two short jumps, and a number
(filter.h).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

MAX_INSTRUCTIONS = 4096
"""The longest program the kernel takes (BPF_MAXINSNS)."""

LOAD = 0x20
"""ld [k]: a word of the input, absolute."""
AND = 0x54
"""and #k"""
JUMP = 0x05
"""ja k"""
JUMP_EQUAL = 0x15
JUMP_GREATER = 0x25
JUMP_AT_LEAST = 0x35
RETURN = 0x06
"""ret #k"""

_REACH = 255
_FORMAT = "<HBBI"


class ProgramTooLong(ValueError):
    """A filter needs more instructions than the kernel takes."""


class Label:
    """A place in a program."""


@dataclass(frozen=True)
class _Instruction:
    code: int
    number: int
    when_true: Label | None = None
    when_false: Label | None = None
    """None: the next instruction."""


class Assembler:
    """Collects instructions and labels in the order in which they run."""

    def __init__(self) -> None:
        self._items: list[_Instruction | Label] = []

    def load(self, offset: int) -> None:
        """Load a word of the input."""
        self._items.append(_Instruction(LOAD, offset))

    def mask(self, mask: int) -> None:
        """Keep some bits of the loaded value."""
        self._items.append(_Instruction(AND, mask))

    def jump(
        self, code: int, number: int, *, when_true: Label | None = None, when_false: Label | None = None
    ) -> None:
        """Compare the loaded value, and go on at one of the labels; None is the next instruction."""
        self._items.append(_Instruction(code, number, when_true, when_false))

    def give(self, value: int) -> None:
        """End with an answer."""
        self._items.append(_Instruction(RETURN, value))

    def bind(self, label: Label) -> None:
        """Bind `label` to the next instruction."""
        self._items.append(label)

    def assemble(self) -> bytes:
        """The program. Raise ProgramTooLong when the kernel would not take it."""
        long: set[int] = set()
        while True:
            places = self._label_positions(long)
            further = self._out_of_reach(places, long)
            if not further:
                break
            long |= further
        code = b"".join(self._encode_instruction(index, places, long) for index, _ in enumerate(self._items))
        if len(code) // 8 > MAX_INSTRUCTIONS:
            raise ProgramTooLong(
                f"the filter has {len(code) // 8} instructions; {MAX_INSTRUCTIONS} are possible"
            )
        return code

    def _label_positions(self, long: set[int]) -> Mapping[object, int]:
        """The position of each label, and under its index that of each instruction."""
        places: dict[object, int] = {}
        at = 0
        for index, item in enumerate(self._items):
            if isinstance(item, Label):
                places[item] = at
            else:
                places[index] = at
                at += 3 if index in long else 1
        return places

    def _out_of_reach(self, places: Mapping[object, int], long: set[int]) -> set[int]:
        return {
            index
            for index, item in enumerate(self._items)
            if isinstance(item, _Instruction)
            and index not in long
            and any(
                _jump_distance(label, index, places) > _REACH for label in (item.when_true, item.when_false)
            )
        }

    def _encode_instruction(self, index: int, places: Mapping[object, int], long: set[int]) -> bytes:
        item = self._items[index]
        if isinstance(item, Label):
            return b""
        true, false = (_jump_distance(label, index, places) for label in (item.when_true, item.when_false))
        if index not in long:
            return struct.pack(_FORMAT, item.code, true, false, item.number)
        # The two jumps that follow stand between this instruction and the start of a distance.
        true_jump = struct.pack(_FORMAT, JUMP, 0, 0, true - 1 if item.when_true else 1)
        false_jump = struct.pack(_FORMAT, JUMP, 0, 0, false - 2 if item.when_false else 0)
        return struct.pack(_FORMAT, item.code, 0, 1, item.number) + true_jump + false_jump


def _jump_distance(label: Label | None, index: int, places: Mapping[object, int]) -> int:
    """The number of instructions between one and a label."""
    if label is None:
        return 0
    return places[label] - places[index] - 1
