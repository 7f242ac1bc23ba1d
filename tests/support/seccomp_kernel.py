"""Gets a filter's answers from the kernel itself, without executing any of the calls.

A process loads the filter with its answers changed into errors and behind a test of the sixth argument, so
that its own calls pass and the tried calls return an error that represents the filter's answer.
"""

from __future__ import annotations

import json
import platform
import struct
import sys
from collections.abc import Sequence

from sandwright import process
from sandwright.evaluate.bpf import Instruction
from sandwright.seccomp.action import Action, ActionKind, from_value

MAGIC = 0x5A4D1C
_LOAD, _EQUAL, _RETURN, _RETURN_A = 0x20, 0x15, 0x06, 0x16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ARGUMENT_5 = 16 + 8 * 5
_KINDS = {
    ActionKind.ALLOW: 3000,
    ActionKind.KILL_THREAD: 3001,
    ActionKind.KILL_PROCESS: 3002,
    ActionKind.LOG: 3003,
    ActionKind.TRAP: 3004,
}
"""Errors that represent other actions; no filter answers with these."""

_SCRIPT = r"""
import ctypes, json, mmap, struct, sys
data = sys.stdin.buffer.read()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
at = 4
for _ in range(struct.unpack_from("<I", data)[0]):
    length = struct.unpack_from("<I", data, at)[0]
    code = ctypes.create_string_buffer(data[at + 4:at + 4 + length], length)
    at += 4 + length
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(length // 8, ctypes.cast(code, ctypes.c_void_p))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        sys.exit(f"the kernel refuses the filter: errno {ctypes.get_errno()}")
found = []
for number, *arguments in struct.iter_unpack("<I6Q", data[at:]):
    ctypes.set_errno(0)
    signed = number - (1 << 32) if number >> 31 else number
    answer = libc.syscall(ctypes.c_long(signed), *map(ctypes.c_ulong, arguments))
    found.append(ctypes.get_errno() if answer == -1 else -1)
print(json.dumps(found))
"""


def ask_kernel(program: Sequence[Instruction], calls: Sequence[tuple[int, tuple[int, ...]]]) -> list[Action]:
    """The filter's answers to calls of this machine: numbers, with the bit of x32, and arguments 0 to 4."""
    asked = [(number, (*arguments[:5], MAGIC)) for number, arguments in calls]
    return [_action(error) for error in run_filters([guarded(program, MAGIC)], asked)]


def run_filters(filters: Sequence[bytes], calls: Sequence[tuple[int, tuple[int, ...]]]) -> list[int]:
    """The errors of calls under filters that answer them with errors only."""
    payload = struct.pack("<I", len(filters))
    payload += b"".join(struct.pack("<I", len(code)) + code for code in filters)
    payload += b"".join(struct.pack("<I6Q", number, *arguments) for number, arguments in calls)
    result = process.run(sys.executable, "-c", _SCRIPT, stdin=payload, timeout=120)
    errors = json.loads(result.stdout)
    assert isinstance(errors, list)
    assert len(errors) == len(calls)
    return errors


def guarded(program: Sequence[Instruction], magic: int) -> bytes:
    """A filter that applies only to calls with `magic` in the sixth argument, and answers with errors."""
    head = [
        Instruction(_LOAD, 0, 0, _ARGUMENT_5),
        Instruction(_EQUAL, 1, 0, magic),
        Instruction(_RETURN, 0, 0, _ALLOW),
    ]
    code = [*head, *(_disarmed(instruction) for instruction in program)]
    return b"".join(struct.pack("<HBBI", one.code, one.true, one.false, one.k) for one in code)


def _disarmed(instruction: Instruction) -> Instruction:
    if instruction.code != _RETURN:
        return instruction
    action = from_value(instruction.k)
    answer = instruction.k if action.kind is ActionKind.ERRNO else _ERRNO | _KINDS[action.kind]
    return Instruction(_RETURN, 0, 0, answer)


def _action(error: int) -> Action:
    for kind, stands_for in _KINDS.items():
        if error == stands_for:
            return Action(kind)
    return Action(ActionKind.ERRNO, error)


def machine() -> str:
    """This machine's architecture by its name in profiles."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
