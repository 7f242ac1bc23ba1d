"""The effect of the shipped profiles, written by hand: beside each refused call stands an allowed one.

Tests of seccomp/decide.py.
Tests of seccomp/groups.py.
Tests of seccomp/groups.yaml.
Tests of seccomp/profiles.yaml.
"""

from __future__ import annotations

import functools

import pytest

from sandwright.evaluate.bpf import Instruction, read_program, run_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import (
    SeccompCall,
    compile_profile,
    decide,
    decide_by_name,
    load_profile_json,
    oci_json,
    profile,
    resolve,
)
from sandwright.seccomp.abi import NATIVE, Abi, Architecture, numbers
from sandwright.seccomp.decide import Arguments
from sandwright.seccomp.model import SeccompFilter
from support.seccomp_calls import as_seen

ALLOW, EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT = "ALLOW", 1, 22, 38, 93
F_GETLEASE, F_SETLEASE, F_SETDELEG = 1025, 1024, 1040
UPPER = 1 << 40
TIOCSTI, TIOCLINUX, TCGETS = 0x5412, 0x541C, 0x5401
BTRFS_SUBVOL_CREATE, BTRFS_SNAP_CREATE, BTRFS_SNAP_CREATE_V2 = 0x5000940E, 0x50009401, 0x50009417
FICLONE, FICLONERANGE, BTRFS_DEFRAG_RANGE = 0x40049409, 0x4020940D, 0x40309410
NEWUSER, NEWNS, NEWPID, THREAD = 0x10000000, 0x20000, 0x20000000, 0x10000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK = 1, 2, 10, 16, 17, 38, 40
STREAM, DGRAM, RAW, CLOEXEC = 1, 2, 3, 0x80000
O_CREAT, O_TMPFILE = 0o100, 0o20000000
S_IFIFO, S_IFCHR, S_IFREG, S_IFBLK, S_IFSOCK = 0x1000, 0x2000, 0x8000, 0x6000, 0xC000

DECISIONS = [
    # Calls that every profile allows, and calls that none allows.
    *[
        ("*", name, (), ALLOW)
        for name in ("read", "openat", "execve", "futex", "mmap", "wait4", "connect", "prctl")
    ],
    *[("*", name, (), ALLOW) for name in ("seccomp", "landlock_restrict_self", "getrandom", "statx")],
    *[
        ("*", name, (), EPERM)
        for name in ("io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd")
    ],
    *[
        ("*", name, (), EPERM)
        for name in ("bpf", "perf_event_open", "keyctl", "add_key", "request_key", "reboot")
    ],
    *[
        ("*", name, (), EPERM)
        for name in ("init_module", "finit_module", "kexec_load", "swapon", "acct", "quotactl")
    ],
    *[
        ("*", name, (), EPERM)
        for name in ("open_by_handle_at", "fanotify_init", "syslog", "settimeofday", "kcmp")
    ],
    *[("*", name, (), EPERM) for name in ("setns", "mbind", "memfd_secret", "vmsplice", "vhangup")],
    *[
        ("*", name, (), ENOSYS)
        for name in ("clone3", "fsopen", "mount_setattr", "statmount", "lookup_dcookie")
    ],
    # Terminals.
    ("*", "ioctl", (0, TCGETS), ALLOW),
    ("*", "ioctl", (0, TIOCSTI), EPERM),
    ("*", "ioctl", (0, TIOCSTI | UPPER), EPERM),
    ("*", "ioctl", (0, TIOCLINUX), EPERM),
    ("*", "ioctl", (0, TIOCLINUX | UPPER), EPERM),
    ("*", "ioctl", (0, TIOCSTI + 1), ALLOW),
    ("*", "ioctl", (0, TIOCSTI | 0x80000000), ALLOW),
    *[
        ("*", "ioctl", (0, request), ALLOW)
        for request in range(0x5410, 0x5420)
        if request not in (TIOCSTI, TIOCLINUX)
    ],
    # A snapshot of Btrfs has the files of a subvolume, and none of the mounts that hide them.
    *[
        ("*", "ioctl", (3, request | high), EPERM)
        for request in (BTRFS_SUBVOL_CREATE, BTRFS_SNAP_CREATE, BTRFS_SNAP_CREATE_V2)
        for high in (0, UPPER)
    ],
    *[("*", "ioctl", (3, request), ALLOW) for request in (FICLONE, FICLONERANGE, BTRFS_DEFRAG_RANGE)],
    # Leases, with which a reader of a file makes others wait.
    ("*", "fcntl", (3, F_GETLEASE), ALLOW),
    ("*", "fcntl", (3, F_SETLEASE), EINVAL),
    ("*", "fcntl", (3, F_SETLEASE | UPPER), EINVAL),
    ("*", "fcntl", (3, F_SETDELEG), EINVAL),
    # Namespaces.
    ("*", "clone", (THREAD,), ALLOW),
    ("*", "clone", (THREAD | UPPER,), ALLOW),
    *[(name, "clone", (NEWUSER,), EPERM) for name in ("default", "strict", "build")],
    *[(name, "clone", (NEWUSER | UPPER,), EPERM) for name in ("default", "strict", "build")],
    *[
        (name, "clone", (NEWNS | THREAD,), EPERM)
        for name in ("default", "strict", "build", "bwrap-in-container")
    ],
    ("bwrap-in-container", "clone", (NEWUSER | NEWNS | NEWPID | 17,), ALLOW),
    ("runsc-in-container", "clone", (NEWNS,), ALLOW),
    *[(name, "unshare", (NEWUSER,), EPERM) for name in ("default", "strict", "build", "runsc-in-container")],
    ("bwrap-in-container", "unshare", (NEWUSER,), ALLOW),
    ("bwrap-in-container", "unshare", (NEWUSER | NEWNS,), EPERM),
    ("bwrap-in-container", "unshare", (0x400,), ENOSYS),
    # Mounts.
    *[(name, "mount", (), EPERM) for name in ("default", "strict", "build")],
    *[(name, "pivot_root", (), EPERM) for name in ("default", "strict", "build")],
    *[(name, "mount", (), ALLOW) for name in ("bwrap-in-container", "runsc-in-container")],
    *[(name, "pivot_root", (), ALLOW) for name in ("bwrap-in-container", "runsc-in-container")],
    *[("bwrap-in-container", "setns", (9, kind), ALLOW) for kind in (NEWUSER, NEWNS, 0x40000000)],
    *[("bwrap-in-container", "setns", (9, kind), EPERM) for kind in (0, NEWPID, NEWUSER | NEWNS, 0x80)],
    ("bwrap-in-container", "pidfd_getfd", (), ALLOW),
    ("bwrap-in-container", "socket", (AF_NETLINK, RAW, 4), ALLOW),
    *[
        (name, *row)
        for name in ("default", "strict", "build", "runsc-in-container")
        for row in (("pidfd_getfd", (), EPERM), ("socket", (AF_NETLINK, RAW, 4), EPROTONOSUPPORT))
    ],
    ("bwrap-in-container", "umount2", (0, 2), ALLOW),
    ("bwrap-in-container", "umount2", (0, 2 | UPPER), ALLOW),
    ("bwrap-in-container", "umount2", (0, 1), EPERM),
    ("bwrap-in-container", "sethostname", (), ALLOW),
    ("bwrap-in-container", "setdomainname", (), EPERM),
    ("bwrap-in-container", "chroot", (), EPERM),
    ("runsc-in-container", "chroot", (), ALLOW),
    # Sockets.
    *[("*", "socket", (family, STREAM), ALLOW) for family in (AF_UNIX, AF_INET, AF_INET6)],
    ("*", "socket", (AF_INET | UPPER, DGRAM | CLOEXEC), ALLOW),
    *[("*", "socket", (family, STREAM), EPERM) for family in (0, 3, 4, 15, AF_ALG, AF_VSOCK, 44, 45)],
    ("*", "socket", (AF_VSOCK | UPPER, STREAM), EPERM),
    ("*", "socket", (64, STREAM), EPERM),
    ("*", "socket", (64 + AF_INET, STREAM), ENOSYS),
    ("*", "socket", (AF_NETLINK, RAW, 0), ALLOW),
    ("*", "socket", (AF_NETLINK, RAW, 9), EPROTONOSUPPORT),
    ("*", "socket", (AF_NETLINK, RAW, 12 | UPPER), EPROTONOSUPPORT),
    ("default", "socket", (AF_PACKET, RAW), EPERM),
    ("runsc-in-container", "socket", (AF_PACKET, RAW), EPERM),
    *[
        ("runsc-in-container", name, (), EPERM)
        for name in ("process_vm_readv", "process_vm_writev", "setns", "unshare", "sethostname", "bpf")
    ],
    ("default", "socket", (AF_INET, RAW, 1), ALLOW),
    ("strict", "socket", (AF_INET, RAW, 1), EPERM),
    ("strict", "socket", (AF_INET6, STREAM | CLOEXEC), ALLOW),
    ("*", "socketpair", (AF_UNIX, STREAM), ALLOW),
    ("*", "socketpair", (30, STREAM), EPERM),
    # Devices, personalities.
    *[("*", "mknodat", (0, 0, kind | 0o644), ALLOW) for kind in (0, S_IFIFO, S_IFREG, S_IFSOCK)],
    *[(n, "mknodat", (0, 0, kind), EPERM) for n in ("default", "strict") for kind in (S_IFCHR, S_IFBLK)],
    ("default", "mknodat", (0, 0, S_IFCHR | 0x10000), EPERM),
    ("build", "mknodat", (0, 0, S_IFCHR), ALLOW),
    ("*", "personality", (0xFFFFFFFF,), ALLOW),
    *[("default", "personality", (value,), ALLOW) for value in (0, 8, 0x20000, 0x20008)],
    ("default", "personality", (0x40000,), EPERM),
    ("default", "personality", (0x400000,), EPERM),
    ("default", "personality", (6,), ENOSYS),
    ("build", "personality", (0x40000,), ALLOW),
    ("build", "personality", (0x440000,), EPERM),
    ("strict", "personality", (0,), ENOSYS),
    # Set-user-id files: also with bits above the mode's 16, and only where a file is created.
    *[
        (name, *row)
        for name, may in (("default", EPERM), ("strict", EPERM), ("kernel-of-vm", EPERM), ("build", ALLOW))
        for mode in (0o4755, 0o4000, 0o6755 | UPPER, 0o4755 | 0x10000)
        for row in (
            ("chmod", (0, mode), may),
            ("creat", (0, mode), may),
            ("fchmod", (3, mode), may),
            ("fchmodat", (3, 0, mode), may),
            ("open", (0, O_CREAT, mode), may),
            ("open", (0, O_TMPFILE | UPPER, mode), may),
            ("openat", (3, 0, O_CREAT | 0x80001, mode), may),
            ("openat", (3, 0, O_TMPFILE, mode), may),
            ("mknod", (0, S_IFREG | mode), may),
            ("mknodat", (0, 0, mode), may),
        )
    ],
    *[
        ("*", *row)
        for mode in (0o755, 0o2775, 0o1777, 0o7777 & ~0o4000, 0o755 | UPPER)
        for row in (
            ("chmod", (0, mode), ALLOW),
            ("creat", (0, mode), ALLOW),
            ("fchmod", (3, mode), ALLOW),
            ("fchmodat", (3, 0, mode), ALLOW),
            ("open", (0, O_CREAT, mode), ALLOW),
            ("openat", (3, 0, O_TMPFILE, mode), ALLOW),
            ("mknodat", (0, 0, mode), ALLOW),
            ("mkdirat", (0, 0, mode), ALLOW),
        )
    ],
    # Without one of these flags the kernel ignores the mode, which is then the register's old value.
    *[("*", "open", (0, flags, 0xFFFFFFFF), ALLOW) for flags in (0, 0x80000, 0x10000)],
    *[("*", "openat", (0, 0, flags, 0xFFFFFFFF), ALLOW) for flags in (0, 0x80000, O_CREAT << 32)],
    # Directories: the kernel itself drops both bits in mkdir(2).
    ("*", "mkdir", (0, 0o6755), ALLOW),
    *[(name, "openat2", (), ENOSYS) for name in ("default", "strict", "kernel-of-vm")],
    *[(name, "openat2", (), ALLOW) for name in ("build", "bwrap-in-container", "runsc-in-container")],
    ("*", "fchmodat2", (3, 0, 0o755), ENOSYS),
    # Differences between the profiles.
    *[(name, "ptrace", (), EPERM) for name in ("default", "strict", "bwrap-in-container")],
    *[(name, "ptrace", (), ALLOW) for name in ("build", "runsc-in-container")],
    *[
        ("strict", name, (), EPERM)
        for name in ("setuid", "setgroups", "shmget", "mq_open", "io_setup", "memfd_create")
    ],
    *[
        ("default", name, (), ALLOW)
        for name in ("setuid", "setgroups", "shmget", "mq_open", "io_setup", "memfd_create")
    ],
    ("build", "chroot", (), ALLOW),
    ("default", "chroot", (), EPERM),
]
PROFILES = ("default", "strict", "build", "bwrap-in-container", "runsc-in-container", "kernel-of-vm")
ROWS = [
    pytest.param(one, name, arguments, answer, id=f"{one}-{name}-{'-'.join(map(hex, arguments))}")
    for which, name, arguments, answer in DECISIONS
    for one in (PROFILES if which == "*" else (which,))
]


@functools.cache
def artifacts(
    name: str, arch: Architecture, caps: tuple[str, ...] = ()
) -> tuple[SeccompFilter, tuple[Instruction, ...]]:
    document = load_profile_json(json_text(oci_json(profile(name).expand(arch=[arch], caps=caps))), name)
    program = read_program(compile_profile(profile(name).expand(caps=caps), arch=arch))
    return resolve(document, arch=arch, caps=caps), program


def full(arguments: tuple[int, ...]) -> Arguments:
    first, second, third, fourth, fifth, sixth = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    return first, second, third, fourth, fifth, sixth


def answers(name: str, call: SeccompCall, arch: Architecture, caps: tuple[str, ...] = ()) -> set[str | int]:
    """The answers of the JSON, the BPF and the groups."""
    filter_, program = artifacts(name, arch, caps)
    given = [
        decide(filter_, call).action,
        run_program(program, as_seen(call)),
        decide_by_name(profile(name), call.name, call.arguments, caps=caps).action,
    ]
    return {action.data or action.kind.name for action in given}


@pytest.mark.parametrize(("name", "syscall", "arguments", "answer"), ROWS)
def test_decisions(name: str, syscall: str, arguments: tuple[int, ...], answer: str | int) -> None:
    compared = 0
    for arch in ("amd64", "arm64"):
        if syscall in numbers(NATIVE[arch]):
            call = SeccompCall(NATIVE[arch], numbers(NATIVE[arch])[syscall], full(arguments))
            assert answers(name, call, arch) == {answer}, arch
            compared += 1
    assert compared


CAPABILITIES = [
    ("default", "CAP_SYS_ADMIN", "mount", (), ALLOW),
    ("default", "CAP_SYS_ADMIN", "umount2", (), ALLOW),
    ("default", "CAP_SYS_ADMIN", "clone", (NEWNS,), ALLOW),
    ("default", "CAP_SYS_ADMIN", "unshare", (NEWNS,), ALLOW),
    ("default", "CAP_SYS_ADMIN", "fsopen", (), ALLOW),
    ("default", "CAP_SYS_ADMIN", "clone3", (), ENOSYS),
    ("default", "CAP_SYS_ADMIN", "pivot_root", (), EPERM),
    ("default", "CAP_SYS_ADMIN", "bpf", (), EPERM),
    ("default", "CAP_SYS_CHROOT", "chroot", (), ALLOW),
    ("default", "CAP_SYS_PTRACE", "ptrace", (), ALLOW),
    ("default", "CAP_SYS_PTRACE", "kcmp", (), ALLOW),
    ("default", "CAP_SYS_NICE", "mbind", (), ALLOW),
    ("default", "CAP_SYS_TIME", "clock_settime", (), ALLOW),
    ("default", "CAP_SYSLOG", "syslog", (), ALLOW),
    ("default", "CAP_SYS_CHROOT", "mount", (), EPERM),
    ("default", "CAP_SYS_MODULE", "init_module", (), EPERM),
    ("default", "CAP_DAC_READ_SEARCH", "open_by_handle_at", (), EPERM),
    ("strict", "CAP_SYS_ADMIN", "mount", (), EPERM),
    ("bwrap-in-container", "CAP_SYS_ADMIN", "umount2", (0, 1), ALLOW),
]


@pytest.mark.parametrize(("name", "cap", "syscall", "arguments", "answer"), CAPABILITIES)
def test_capabilities(
    name: str, cap: str, syscall: str, arguments: tuple[int, ...], answer: str | int
) -> None:
    call = SeccompCall(Abi.AMD64, numbers(Abi.AMD64)[syscall], full(arguments))
    assert answers(name, call, "amd64", (cap,)) == {answer}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("abi", "number"), [(Abi.I386, 20), (Abi.X32, 39), (Abi.I386, 102)])
def test_other_abis_are_stopped(name: str, abi: Abi, number: int) -> None:
    filter_, program = artifacts(name, "amd64")
    call = SeccompCall(abi, number)
    assert decide(filter_, call).action.kind.name == "KILL_THREAD"
    assert run_program(program, as_seen(call)).kind.name == "KILL_PROCESS"


def test_a_32_bit_program_of_arm_is_stopped() -> None:
    filter_, program = artifacts("default", "arm64")
    call = SeccompCall(Abi.ARM, 20)
    assert decide(filter_, call).action.kind.name == "KILL_THREAD"
    assert run_program(program, as_seen(call)).kind.name == "KILL_PROCESS"


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_what_a_profile_does_not_know_does_not_exist(arch: Architecture) -> None:
    for number in (500, 511, 600, 0x3FFFFFFF, 0xFFFFFFFF):
        filter_, program = artifacts("default", arch)
        call = SeccompCall(NATIVE[arch], number)
        assert decide(filter_, call).action.data == ENOSYS
        assert run_program(program, as_seen(call)).data == ENOSYS
    assert decide_by_name(profile("default"), "no_such_call").action.data == ENOSYS


def test_a_reason_comes_with_every_answer() -> None:
    said = decide_by_name(profile("default"), "socket", full((AF_VSOCK,)))
    assert said.group == "socket-families"
    assert said.reason.startswith("AF_VSOCK reaches the hypervisor")
    assert decide_by_name(profile("default"), "socket", full((64 + AF_INET,))).reason == (
        "None of the group's cases holds for these arguments."
    )
