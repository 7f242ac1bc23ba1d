"""The filter around the kernel process of method vm permits no more than the policy's own.

Tests of render/filters.py.
"""

from __future__ import annotations

import pytest

from sandwright import HostFacts, Policy
from sandwright.evaluate.bpf import SystemCall, read_program, run_program
from sandwright.render.filters import guest_filter, kernel_filter
from sandwright.seccomp.abi import Abi, numbers
from sandwright.seccomp.action import ALLOW, EPERM

CALLS = {
    "chmod": (0, 0o4755),
    "fchmod": (3, 0o4755),
    "fchmodat": (3, 0, 0o4755),
    "creat": (0, 0o4755),
    "open": (0, 0o101, 0o4755),
    "openat": (3, 0, 0o101, 0o4755),
    "mknod": (0, 0o104755, 0),
    "mknodat": (3, 0, 0o104755, 0),
}


@pytest.mark.parametrize("profile", ["strict", "default", "build"])
def test_set_user_id_files(profile: str) -> None:
    policy = Policy.from_text(f"schema: 1\nmethod: vm\nprocess: {{seccomp: {profile}}}\n")
    resolved = policy.resolve(
        HostFacts(os="linux", home="/home/u", project="/home/u/p", platform="linux/amd64")
    )
    expected = ALLOW if profile == "build" else EPERM
    for content in (kernel_filter(resolved), guest_filter(resolved)):
        program = read_program(content)
        for name, arguments in CALLS.items():
            number = numbers(Abi.AMD64)[name]
            for given, answer in (
                (arguments, expected),
                (tuple(each & ~0o4000 for each in arguments), ALLOW),
            ):
                whole = (*given, 0, 0, 0, 0, 0)[:6]
                call = SystemCall(number, Abi.AMD64.audit, whole)  # type: ignore[arg-type]
                assert run_program(program, call) == answer, (name, given)
    traced = SystemCall(numbers(Abi.AMD64)["ptrace"], Abi.AMD64.audit, (0, 0, 0, 0, 0, 0))
    assert run_program(read_program(kernel_filter(resolved)), traced) == ALLOW, "it traces its programs"
