"""The tables of numbers are the kernel's, and every call has a group.

Tests of seccomp/groups.yaml.
Tests of seccomp/tables.py.
"""

from __future__ import annotations

import errno
import sys

import pytest

from sandwright.seccomp import profiles
from sandwright.seccomp.abi import Abi, SyscallTarget, guess, known_names, numbers, syscall_names, targets
from sandwright.seccomp.action import Action, ActionKind, errno_name, errno_numbers, from_value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read", (0, 63, 3, 0, 3)),
        ("ioctl", (16, 29, 54, 514, 54)),
        ("socket", (41, 198, 359, 41, 281)),
        ("clone", (56, 220, 120, 56, 120)),
        ("open", (2, None, 5, 2, 5)),
        ("mmap2", (None, None, 192, None, 192)),
        ("newfstatat", (262, 79, None, 262, None)),
        ("clone3", (435, 435, 435, 435, 435)),
        ("io_uring_setup", (425, 425, 425, 425, 425)),
        ("mseal", (462, 462, 462, 462, 462)),
    ],
)
def test_numbers(name: str, expected: tuple[int | None, ...]) -> None:
    abis = (Abi.AMD64, Abi.ARM64, Abi.I386, Abi.X32, Abi.ARM)
    assert tuple(numbers(abi).get(name) for abi in abis) == expected


def test_no_number_has_two_names() -> None:
    for abi in Abi:
        assert len(syscall_names(abi)) == len(numbers(abi)), abi


def test_a_socket_of_i386_has_two_ways_in() -> None:
    assert targets(Abi.I386, "socket") == (SyscallTarget(102, 1), SyscallTarget(359))
    assert targets(Abi.I386, "send") == (SyscallTarget(102, 9),)
    assert targets(Abi.I386, "shmget") == (SyscallTarget(117, 23), SyscallTarget(395))
    assert targets(Abi.AMD64, "socket") == (SyscallTarget(41),)
    assert targets(Abi.AMD64, "socketcall") == ()


@pytest.mark.usefixtures("libseccomp")
@pytest.mark.parametrize("abi", [Abi.AMD64, Abi.ARM64, Abi.I386, Abi.X32, Abi.ARM])
def test_libseccomp_knows_the_same_numbers(abi: Abi) -> None:
    import pyseccomp  # noqa: PLC0415

    token = getattr(pyseccomp.Arch, abi.oci.removeprefix("SCMP_ARCH_"))
    compared = 0
    for name, number in numbers(abi).items():
        try:
            found = pyseccomp.resolve_syscall(token, name)
        except ValueError:
            continue
        if found < 0 or (abi is Abi.I386 and targets(abi, name)[0].selector):
            continue
        assert found & ~0x40000000 == number, name
        compared += 1
    assert compared > 270


def test_each_call_of_64_bits_has_a_group() -> None:
    grouped = set(profiles()["default"].rules())
    assert {name for abi in (Abi.AMD64, Abi.ARM64) for name in numbers(abi)} == grouped


def test_names_of_other_architectures_are_known_without_a_number() -> None:
    assert "riscv_hwprobe" in known_names()
    assert targets(Abi.AMD64, "riscv_hwprobe") == ()


def test_a_misspelt_call_is_guessed() -> None:
    assert guess("ptrac") == "ptrace"
    assert guess("zzzzzzzz") is None


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers of errors are those of Linux")
def test_error_numbers_are_those_of_this_system() -> None:
    assert {name: getattr(errno, name) for name in errno_numbers() if hasattr(errno, name)} == {
        name: number for name, number in errno_numbers().items() if hasattr(errno, name)
    }


def test_errors_have_names() -> None:
    assert (errno_name(1), errno_name(38), errno_name(93), errno_name(95)) == (
        "EPERM",
        "ENOSYS",
        "EPROTONOSUPPORT",
        "EOPNOTSUPP",
    )
    assert errno_name(4000) == "4000"


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (0x7FFF0000, Action(ActionKind.ALLOW)),
        (0x00050026, Action(ActionKind.ERRNO, 38)),
        (0x7FF00007, Action(ActionKind.TRACE, 7)),
        (0x00000000, Action(ActionKind.KILL_THREAD)),
        (0x80000000, Action(ActionKind.KILL_PROCESS)),
        (0x12345678, Action(ActionKind.KILL_PROCESS)),
        (0x7FFF0001, Action(ActionKind.ALLOW)),
    ],
    ids=["allow", "errno", "trace", "kill-thread", "kill-process", "unknown", "allow-with-data"],
)
def test_values_of_programs(value: int, action: Action) -> None:
    assert from_value(value) == action
