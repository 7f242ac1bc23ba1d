"""Compiles filters to programs of classic BPF, for `bwrap --seccomp` and the kernel.

The numbers of all ABIs of an architecture are cut into ranges with equal treatment, and found by bisection.
A call that is allowed with any arguments is then decided by the number alone, so that the kernel remembers
it in a bitmap when the filter is loaded and does not run it again (since 5.11; kernel/seccomp.c,
seccomp_cache_prepare).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from sandwright.seccomp.abi import MINUS_ONE, RUNS, X32_BIT, Abi, Architecture
from sandwright.seccomp.action import Action
from sandwright.seccomp.assembler import (
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    JUMP_GREATER,
    Assembler,
    Label,
)
from sandwright.seccomp.model import (
    U32,
    ArgumentComparison,
    ComparisonOperator,
    SeccompFilter,
    SeccompProfile,
)
from sandwright.seccomp.resolve import resolve

NUMBER = 0
ARCH = 4
ARGUMENTS = 16
"""The offsets in `struct seccomp_data` of the number, the architecture, and the first argument."""


@dataclass(frozen=True)
class _Clause:
    """The answer when all comparisons hold."""

    when: tuple[ArgumentComparison, ...]
    answer: int


@dataclass(frozen=True)
class _Plan:
    """The treatment of a number: the first clause that holds, else `otherwise`."""

    clauses: tuple[_Clause, ...]
    otherwise: int


def compile_profile(
    profile: SeccompProfile,
    *,
    arch: Architecture,
    caps: Collection[str] = (),
    kernel: tuple[int, int] | None = None,
) -> bytes:
    """The program of a profile, for who has the capabilities `caps`. Raise as `compile_filter` does."""
    return compile_filter(resolve(profile, arch=arch, caps=caps, kernel=kernel), arch=arch)


def compile_filter(filter_: SeccompFilter, *, arch: Architecture) -> bytes:
    """The program of a filter. Raise ProgramTooLong when the kernel would not take it."""
    otherwise = filter_.default.value
    plans = {
        abi: {
            number: _Plan(tuple(_Clause(rule.when, rule.action.value) for rule in rules), otherwise)
            for number, rules in table.items()
        }
        for abi, table in filter_.tables.items()
    }
    return _assemble_program(plans, _Plan((), otherwise), filter_.foreign, arch)


def _assemble_program(
    plans: Mapping[Abi, Mapping[int, _Plan]], default: _Plan, foreign: Action, arch: Architecture
) -> bytes:
    emitter = _Emitter()
    refused = _Plan((), foreign.value)
    sections = {abi.audit: Label() for abi in RUNS[arch] if abi in plans}
    emitter.asm.load(ARCH)
    for audit, section in sections.items():
        emitter.asm.jump(JUMP_EQUAL, audit, when_true=section)
    emitter.asm.give(foreign.value)
    for audit, section in sections.items():
        emitter.asm.bind(section)
        emitter.asm.load(NUMBER)
        tables = {abi: table for abi, table in plans.items() if abi.audit == audit}
        emitter.search(list(_ranges(tables, default, refused)))
    return emitter.asm.assemble()


def _ranges(
    tables: Mapping[Abi, Mapping[int, _Plan]], default: _Plan, refused: _Plan
) -> Iterator[tuple[int, _Plan]]:
    """The first number of each range and how it is treated; together they hold all 32-bit numbers."""
    treated = {0: default}
    if Abi.AMD64 in tables:
        treated |= {X32_BIT: default if Abi.X32 in tables else refused, MINUS_ONE: default}
    for abi, table in tables.items():
        base = X32_BIT if abi is Abi.X32 else 0
        for number in sorted(table):
            treated[base + number] = table[number]
            if number + 1 not in table:
                treated.setdefault(base + number + 1, default)
    before: _Plan | None = None
    for number, plan in sorted(treated.items()):
        if plan != before:
            yield number, plan
        before = plan


class _Emitter:
    """Writes the parts of a program. `_loaded`: the offset and mask of the accumulator's value."""

    def __init__(self) -> None:
        self.asm = Assembler()
        self._loaded: tuple[int, int] | None = None

    def search(self, ranges: Sequence[tuple[int, _Plan]]) -> None:
        """Find the range of the number, which was loaded, and treat it."""
        if len(ranges) == 1:
            self._treat(ranges[0][1])
            return
        middle = len(ranges) // 2
        upper = Label()
        self.asm.jump(JUMP_AT_LEAST, ranges[middle][0], when_true=upper)
        self.search(ranges[:middle])
        self.asm.bind(upper)
        self.search(ranges[middle:])

    def _treat(self, plan: _Plan) -> None:
        self._loaded = None
        for clause in plan.clauses:
            failed = Label()
            for comparison in clause.when:
                self._emit_comparison(comparison, failed)
            self.asm.give(clause.answer)
            self.asm.bind(failed)
            if not clause.when:
                return
            if len(clause.when) > 1:
                self._loaded = None
        self.asm.give(plan.otherwise)

    def _emit_comparison(self, comparison: ArgumentComparison, failed: Label) -> None:
        """Go on when it holds, else to `failed`."""
        passed = Label()
        match comparison.operator:
            case ComparisonOperator.EQ | ComparisonOperator.MASKED_EQ:
                self._emit_equal(comparison, comparison.value, passed, failed)
            case ComparisonOperator.NE:
                self._emit_equal(comparison, comparison.value, failed, passed)
            case ComparisonOperator.NONE_OF:
                for value in comparison.values:
                    self._emit_equal(comparison, value, failed, passed := Label())
                    self.asm.bind(passed)
                return
            case ComparisonOperator.GT:
                self._emit_ordered(comparison, JUMP_GREATER, passed, failed)
            case ComparisonOperator.LE:
                self._emit_ordered(comparison, JUMP_GREATER, failed, passed)
            case ComparisonOperator.GE:
                self._emit_ordered(comparison, JUMP_AT_LEAST, passed, failed)
            case ComparisonOperator.LT:
                self._emit_ordered(comparison, JUMP_AT_LEAST, failed, passed)
            case _:
                assert_never(comparison.operator)
        self.asm.bind(passed)

    def _emit_equal(self, comparison: ArgumentComparison, expected: int, yes: Label, no: Label) -> None:
        halves = [half for half in (0, 1) if comparison.mask >> 32 * half & U32]
        for half in halves:
            last = half == halves[-1]
            self._load_word(comparison.argument, half, comparison.mask >> 32 * half & U32)
            value = expected >> 32 * half & U32
            self.asm.jump(JUMP_EQUAL, value, when_true=yes if last else None, when_false=no)
        if len(halves) > 1:
            self._loaded = None

    def _emit_ordered(self, comparison: ArgumentComparison, code: int, yes: Label, no: Label) -> None:
        """The upper halves decide unless they are equal."""
        wide, value = comparison.mask > U32, comparison.value
        if wide:
            self._load_word(comparison.argument, 1, U32)
            self.asm.jump(JUMP_GREATER, value >> 32, when_true=yes)
            self.asm.jump(JUMP_EQUAL, value >> 32, when_false=no)
        self._load_word(comparison.argument, 0, U32)
        self.asm.jump(code, value & U32, when_true=yes, when_false=no)
        if wide:
            self._loaded = None

    def _load_word(self, argument: int, half: int, mask: int) -> None:
        """Have half an argument in the accumulator, masked."""
        offset = ARGUMENTS + 8 * argument + 4 * half
        if self._loaded not in ((offset, mask), (offset, U32)):
            self.asm.load(offset)
            self._loaded = (offset, U32)
        if self._loaded != (offset, mask):
            self.asm.mask(mask)
        self._loaded = (offset, mask)
