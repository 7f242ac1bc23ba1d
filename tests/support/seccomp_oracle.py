"""Lets libseccomp itself compile a profile, with the calls that runc and crun make."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Collection, Sequence
from typing import Any

from sandwright.evaluate.bpf import Instruction, read_program
from sandwright.seccomp.abi import NATIVE, Abi, Architecture, known_names, targets
from sandwright.seccomp.model import ArgumentComparison, ComparisonOperator, SeccompProfile, SeccompRule
from sandwright.seccomp.resolve import applies

OPERATORS = {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}
"""The comparisons as <seccomp.h> numbers them."""


def compile_with_libseccomp(
    profile: SeccompProfile, *, arch: Architecture, caps: Collection[str] = (), optimize: int = 2
) -> tuple[Instruction, ...]:
    """The program; `optimize` is 1 for a list and 2 for a tree, which runc requests above 32 rules.

    Raise OSError if libseccomp refuses the profile.
    """
    import pyseccomp  # noqa: PLC0415 - importing it needs the library

    context = pyseccomp.SyscallFilter(profile.default.value)
    native = NATIVE[arch]
    listed = set(profile.architectures)
    if native.oci in profile.architecture_map:
        listed |= {native.oci, *profile.architecture_map[native.oci]}
    context.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, optimize)
    wanted = {_token(pyseccomp, name) for name in listed} | {_token(pyseccomp, native.oci)}
    for token in sorted(wanted):
        if not context.exist_arch(token):
            context.add_arch(token)
    if pyseccomp.system_arch() not in wanted:
        context.remove_arch(pyseccomp.system_arch())
    for rule in profile.rules:
        if applies(rule, arch, caps, None) and rule.action != profile.default:
            _add(pyseccomp, context, rule)
    with tempfile.TemporaryFile() as file:
        context.export_bpf(file)
        file.seek(0)
        return read_program(file.read())


def _add(pyseccomp: Any, context: Any, rule: SeccompRule) -> None:
    comparisons = [
        pyseccomp.Arg(one.argument, OPERATORS[one.operator.name], *data_of(one)) for one in rule.when
    ]
    indices = [one.argument for one in rule.when]
    split = len(set(indices)) < len(indices)
    groups: Sequence[Sequence[Any]] = [[one] for one in comparisons] if split else [comparisons]
    for name in rule.names:
        try:
            number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        except ValueError:
            continue
        if number == -1:
            continue
        for group in groups:
            context.add_rule(rule.action.value, number, *group)


def data_of(comparison: ArgumentComparison) -> tuple[int, int]:
    """libseccomp's two numbers for a comparison."""
    if comparison.operator is ComparisonOperator.MASKED_EQ:
        return comparison.mask, comparison.value
    return comparison.value, 0


def _token(pyseccomp: Any, oci_name: str) -> int:
    return int(getattr(pyseccomp.Arch, oci_name.removeprefix("SCMP_ARCH_")))


@functools.cache
def known_to_libseccomp(name: str, abi: Abi) -> bool:
    """Whether this libseccomp has a number for a name. A number in place of a name counts as known."""
    import pyseccomp  # noqa: PLC0415

    if name.isdigit():
        return True
    try:
        return int(pyseccomp.resolve_syscall(_token(pyseccomp, abi.oci), name)) >= 0 or name in _MULTIPLEXED
    except ValueError:
        return False


_MULTIPLEXED = frozenset(name for name in known_names() if len(targets(Abi.I386, name)) > 1)
