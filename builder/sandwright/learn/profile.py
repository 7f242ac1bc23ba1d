"""The choice of a sufficient seccomp profile among the shipped ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.filters import architecture
from sandwright.seccomp import abi, profile


def candidates(policy: ResolvedPolicy) -> tuple[str, ...]:
    """The profiles that are no looser than the policy's, the strictest first; none for one from a file."""
    current = policy.process.seccomp
    return SECCOMP_PROFILES[: SECCOMP_PROFILES.index(current) + 1] if current in SECCOMP_PROFILES else ()


def watched_calls(policy: ResolvedPolicy) -> Sequence[int]:
    """Numbers of the calls that the policy's profile allows, and the strictest refuses.

    Not those that it refuses by their arguments, which the record hasn't got (every program opens files), nor
    those that it answers with ENOSYS, after which programs go on: a run under it shows whether that is
    enough.
    """
    names = candidates(policy)
    if len(names) < 2:
        return ()
    numbers = abi.numbers(_abi(policy))
    refused = profile(names[0]).refused()
    return sorted(numbers[each] for each in profile(names[-1]).outright() & refused if each in numbers)


def call_names(policy: ResolvedPolicy, numbers: Collection[int]) -> list[str]:
    """The names of system calls on the policy's host."""
    syscalls = abi.syscall_names(_abi(policy))
    return sorted(syscalls.get(each, f"number {each}") for each in numbers)


def sufficient_profiles(policy: ResolvedPolicy, names: Collection[str]) -> tuple[str, ...]:
    """The `candidates` that allow some calls with any arguments, and always the loosest one."""
    found = candidates(policy)
    return tuple(each for each in found if set(names) <= profile(each).outright()) or found[-1:]


def _abi(policy: ResolvedPolicy) -> abi.Abi:
    return abi.Abi(architecture(policy))
