"""Finds faults of a seccomp profile: entries that engines refuse, ignore, or read differently."""

from __future__ import annotations

from collections.abc import Collection

from sandwright.seccomp.abi import Architecture
from sandwright.seccomp.document import load_profile_json
from sandwright.seccomp.fault import SeccompFault
from sandwright.seccomp.lint_answers import answer_faults
from sandwright.seccomp.lint_rules import rule_faults
from sandwright.seccomp.resolve import applies, resolve


def lint_profile(
    text: str | bytes, file: str, *, arch: Architecture = "amd64", caps: Collection[str] = ()
) -> tuple[SeccompFault, ...]:
    """The faults of a profile, given as JSON text, in the order of its lines, each once.

    Entries that depend on the machine and on capabilities are judged for `arch` and `caps`. Raise
    DocumentError if it is not a profile.
    """
    profile = load_profile_json(text, file)
    chosen = [rule for rule in profile.rules if applies(rule, arch, caps, None)]
    found = {*rule_faults(profile), *answer_faults(resolve(profile, arch=arch, caps=caps), chosen, arch)}
    return tuple(sorted(found, key=lambda fault: (fault.line, fault.column, fault.code, fault.message)))
