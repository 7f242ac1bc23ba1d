"""One question to a seccomp profile, as the command line asks it: `sandwright seccomp-eval`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.documents.document import field_name
from sandwright.errors import UsageError
from sandwright.seccomp.abi import (
    MINUS_ONE,
    RUNS,
    X32_BIT,
    Abi,
    Architecture,
    guess,
    known_names,
    numbers,
    targets,
)
from sandwright.seccomp.action import Action, ActionKind, errno_name
from sandwright.seccomp.decide import DecisionStage, SeccompCall, SeccompDecision, decide
from sandwright.seccomp.document import kernel_version, load_profile_json
from sandwright.seccomp.model import U64, SeccompFilter, SeccompRule
from sandwright.seccomp.resolve import resolve

_CAPABILITIES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
    SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
    AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ
    PERFMON BPF CHECKPOINT_RESTORE
"""
CAPABILITIES = tuple(f"CAP_{name}" for name in _CAPABILITIES.split())
"""By number (include/uapi/linux/capability.h)."""

ABI_NAMES: Mapping[str, tuple[Architecture, Abi]] = {
    **{abi.value: (arch, abi) for arch, abis in RUNS.items() for abi in abis},
    "i386": ("amd64", Abi.I386),
    "x86_64": ("amd64", Abi.AMD64),
    "aarch64": ("arm64", Abi.ARM64),
}
"""The values of `--arch`: a machine's own ABI, or another that it runs besides."""


_UNSURE = (
    "libseccomp before 2.6.1 merges rules such as this call's wrongly (GHSA-4q85-33p6-j5g6); its filter may"
    " answer otherwise, or never be done"
)


@dataclass(frozen=True)
class SeccompAnswer:
    """The decision on one call. `clashes` are faults for which an engine refuses the whole profile."""

    file: str
    decision: SeccompDecision
    arch: str
    clashes: tuple[str, ...]

    def text(self) -> str:
        """The action in the first line, then the call, the deciding rule, and remarks."""
        call = self.decision.call
        arguments = " ".join(f"{value:#x}" if value > 9 else str(value) for value in call.arguments)
        lines = [
            str(self.decision.action),
            f"call: {call.name} ({call.number}) of {call.abi.value}, arguments {arguments}",
            f"{self.decision.stage.value}: {self._stage_reason()}",
        ]
        if self.decision.unsure:
            lines.append(f"unsure: {_UNSURE}")
        if self.decision.runc:
            lines.append(f"runc: {self.decision.runc}, as the number is above all that the profile names")
        lines += [
            f"overlaps: {_rule_location(self.file, rule)}: {rule.action}" for rule in self.decision.others
        ]
        lines += [f"refused by engines: {clash}" for clash in self.clashes]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data: keys are always there, None where there is nothing to say."""
        decision = self.decision
        rule = decision.rule
        return {
            **_action_json(decision.action),
            "arch": self.arch,
            "abi": decision.call.abi.value,
            "syscall": decision.call.name,
            "number": decision.call.number,
            "arguments": list(decision.call.arguments),
            "stage": decision.stage.value,
            "reason": self._stage_reason(),
            "rule": _seccomp_rule_json(self.file, rule) if rule else None,
            "overlapping": [
                _seccomp_rule_json(self.file, other) | _action_json(other.action) for other in decision.others
            ],
            "unsure": decision.unsure,
            "runc": _action_json(decision.runc) if decision.runc else None,
            "refused_by_engines": list(self.clashes),
        }

    def _stage_reason(self) -> str:
        rule = self.decision.rule
        match self.decision.stage:
            case DecisionStage.RULE:
                assert rule is not None
                return _rule_location(self.file, rule) + (f": {rule.comment}" if rule.comment else "")
            case DecisionStage.DEFAULT if rule is not None:
                return (
                    f"{_rule_location(self.file, rule)} says the same as the default, so engines leave it out"
                )
            case DecisionStage.DEFAULT:
                return "no rule of the profile holds; this is its default action"
            case DecisionStage.ARCHITECTURE:
                oci = self.decision.call.abi.oci
                return f"the profile has no architecture {oci}; libseccomp stops such calls"


def evaluate_command(
    text: str | bytes,
    file: str,
    syscall: str,
    arguments: Sequence[str] = (),
    *,
    arch: str = "amd64",
    caps: Collection[str] = (),
    kernel: str | None = None,
) -> SeccompAnswer:
    """Ask a profile, given as JSON text, for its answer to one call.

    `syscall` is a name or a number; `arguments` are up to six numbers, decimal or with 0x, 0o or 0b, negative
    ones as the kernel gets them; those left out are 0. `caps` is the bounding set of the container, with or
    without `CAP_`. `kernel` is the version for `minKernel`. Raise DocumentError for a profile that is none,
    UsageError for a question that is none.
    """
    machine, abi = _parse_abi(arch)
    call = SeccompCall(abi, _parse_syscall(syscall, abi), _parse_arguments(arguments))
    version = None if kernel is None else kernel_version(kernel)
    if kernel is not None and version is None:
        raise UsageError(f"{kernel} is not a version of a kernel")
    filter_ = resolve(
        load_profile_json(text, file), arch=machine, caps=frozenset(map(capability, caps)), kernel=version
    )
    return SeccompAnswer(file, decide(filter_, call), arch, _clash_messages(filter_, file))


def capability(name: str) -> str:
    """A capability's full name. Raise UsageError when there is none of this name."""
    full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
    if full not in CAPABILITIES:
        raise UsageError(f"{name} is not a capability{_suggestion(full, CAPABILITIES)}")
    return full


def _parse_abi(name: str) -> tuple[Architecture, Abi]:
    if name not in ABI_NAMES:
        raise UsageError(f"{name} is not one of the architectures {', '.join(ABI_NAMES)}")
    return ABI_NAMES[name]


def _parse_syscall(syscall: str, abi: Abi) -> int:
    """The number of a call given by name or number; that of x32 without its bit."""
    if re.fullmatch(r"-?[0-9].*", syscall):
        number = _integer(syscall, "the number of a call")
        if number not in (-1, MINUS_ONE) and not 0 <= number <= MINUS_ONE:
            raise UsageError(f"{syscall} is not the number of a call: they have 32 bits")
        number &= MINUS_ONE
        if abi is Abi.X32 and number != MINUS_ONE:
            number &= ~X32_BIT
        return number
    found = [target.number for target in targets(abi, syscall) if target.selector is None]
    if found:
        return found[0]
    if syscall not in known_names():
        best = guess(syscall)
        raise UsageError(f"{syscall} is not a system call" + (f"; did you mean {best}?" if best else ""))
    others = ", ".join(other.value for other in Abi if syscall in numbers(other))
    where = f"is one of {others}" if others else "belongs to other architectures"
    raise UsageError(f"{abi.value} has no {syscall}; it {where}")


def _parse_arguments(words: Sequence[str]) -> tuple[int, int, int, int, int, int]:
    if len(words) > 6:
        raise UsageError(f"a call has at most 6 arguments, not {len(words)}")
    values = [_integer(text, "a number") for text in words]
    for text, value in zip(words, values, strict=True):
        if not -(1 << 63) <= value <= U64:
            raise UsageError(f"{text} does not fit into 64 bits")
    first, second, third, fourth, fifth, sixth = [value & U64 for value in values] + [0] * (6 - len(values))
    return first, second, third, fourth, fifth, sixth


def _integer(text: str, what: str) -> int:
    digits = text.removeprefix("-")
    try:
        value = int(digits, 0) if len(digits) <= 70 and digits[:1].isdigit() else None
    except ValueError:
        value = None
    if value is None:
        raise UsageError(f"{text} is not {what}: write decimal digits, or 0x and hexadecimal ones")
    return -value if text.startswith("-") else value


def _clash_messages(filter_: SeccompFilter, file: str) -> tuple[str, ...]:
    return tuple(
        f"{_rule_location(file, one)} and {_rule_location(file, other)}"
        " compare the same and answer differently"
        for one, other in filter_.clashes
    )


def _rule_location(file: str, rule: SeccompRule) -> str:
    line, column = rule.position
    return f"{file}:{line}:{column}: {field_name(rule.path)}"


def _seccomp_rule_json(file: str, rule: SeccompRule) -> dict[str, Any]:
    line, column = rule.position
    return {
        "file": file,
        "line": line,
        "column": column,
        "path": field_name(rule.path),
        "comment": rule.comment,
    }


def _action_json(action: Action) -> dict[str, Any]:
    numbered = action.kind in (ActionKind.ERRNO, ActionKind.TRACE)
    return {
        "action": action.kind.oci,
        "errno": action.data if numbered else None,
        "errno_name": errno_name(action.data) if action.kind is ActionKind.ERRNO else None,
    }


def _suggestion(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""
