"""Probes of calls that the seccomp filter refuses, independent of privileges.

Each call is made with arguments for which the kernel itself would return another error, which tells a
filter's EPERM from the kernel's. Numbers and expected errors are constants here, not read from a profile.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step


@dataclass(frozen=True)
class _Call:
    """A system call. With `arguments` the kernel returns `kernel`; 0 means that the call succeeds."""

    name: str
    amd64: int
    arm64: int | None
    arguments: tuple[str | int, ...]
    kernel: str
    why: str
    claim: str = "filtered"


_BAD = 0x10000000
"""A size that is invalid for every structure."""

_CALLS = (
    _Call("bpf", 321, 280, (0, 0, _BAD), "E2BIG", "it loads programs into the kernel"),
    _Call("perf_event_open", 298, 241, (0, 0, -1, -1, 1 << 30), "EINVAL", "it observes other processes"),
    _Call("keyctl", 250, 219, (0, -3, 0), "ok", "keyrings of the host's user are in no namespace"),
    _Call("add_key", 248, 217, (0, 0, 0, 0, 0), "EFAULT", "keyrings of the host's user are in no namespace"),
    _Call("request_key", 249, 218, (0, 0, 0, 0), "EFAULT", "the kernel starts a program of the host for it"),
    _Call("io_uring_setup", 425, 425, (0, 0), "EFAULT", "its operations bypass the filter"),
    _Call("io_uring_enter", 426, 426, (-1, 0, 0, 0), "EBADF", "its operations bypass the filter"),
    _Call("userfaultfd", 323, 282, (_BAD | 1,), "EINVAL", "it can stop the kernel in the middle of a call"),
    _Call("open_by_handle_at", 304, 265, (-100, "page", 0), "EINVAL", "it opens files without path lookup"),
    _Call("mount", 165, 40, ("page", 0, 0, 0, 0), "ENOENT", "it changes mounts"),
    _Call("umount2", 166, 39, (0, _BAD), "EINVAL", "it changes mounts"),
    _Call("pivot_root", 155, 41, (0, 0), "EFAULT", "it changes the root directory"),
    _Call("move_mount", 429, 429, (-1, 0, -1, 0, _BAD), "EINVAL", "it changes mounts", "filtered.nosys"),
    _Call("fsopen", 430, 430, (0, _BAD), "EINVAL", "it changes mounts", "filtered.nosys"),
    _Call("open_tree", 428, 428, (-1, 0, _BAD), "EINVAL", "it changes mounts", "filtered.nosys"),
    _Call("setns", 308, 268, (-1, 0), "EBADF", "it enters other namespaces"),
    _Call("unshare", 272, 97, (1 << 40,), "EINVAL", "it creates namespaces"),
    _Call("ptrace", 101, 117, (0x4206, 1 << 22, 0, 0), "ESRCH", "it controls other processes"),
    _Call(
        "process_vm_readv",
        310,
        270,
        (1 << 22, 0, 0, 0, 0, 1),
        "EINVAL",
        "it reads the memory of other processes",
    ),
    _Call("kexec_load", 246, 104, (0, 0, 0, _BAD), "EINVAL", "it replaces the kernel"),
    _Call("init_module", 175, 105, (0, 0, 0), "EFAULT", "it loads code into the kernel"),
    _Call("reboot", 169, 142, (0, 0, 0, 0), "EINVAL", "it restarts the machine"),
    _Call("swapon", 167, 224, (0, -1), "EINVAL", "it enables swap space"),
    _Call("acct", 163, 89, ("page",), "ENOENT", "it enables process accounting"),
    _Call("settimeofday", 170, 170, (1, 1), "EFAULT", "it sets the clock"),
    _Call("quotactl", 179, 60, (-1, 0, 0, 0), "EINVAL", "it changes the quotas of file systems"),
    _Call("fanotify_init", 300, 262, (_BAD, 0), "EINVAL", "it observes files of other processes"),
)
"""The kernel's errors are those of Linux 5.10 to 6.18, without privileges where those matter."""

_CLONE3, _OPENAT2 = (435, 435), (437, 437)
_MODE, _SET_ID, _CREATES, _UNNAMED = 0o755, 0o4755, 0o102, 0o20240002
"""Modes; O_CREAT and O_TMPFILE with O_RDWR. On arm64 O_DIRECTORY has the value of O_DIRECT here: both are
set."""

_SETTING: tuple[tuple[int | None, int | None, tuple[str | int, ...]], ...] = (
    (90, None, ("page", _SET_ID)),
    (91, 52, (-1, _SET_ID)),
    (268, 53, (-1, "page", _SET_ID)),
    (85, None, ("page", _SET_ID)),
    (2, None, ("page", _CREATES, _SET_ID)),
    (257, 56, (-1, "page", _CREATES, _SET_ID)),
    (257, 56, (-1, "page", _UNNAMED, _SET_ID)),
    (133, None, ("page", 0o100000 | _SET_ID, 0)),
    (259, 33, (-1, "page", 0o100000 | _SET_ID, 0)),
)
"""Calls that take a mode, on amd64 and arm64: chmod, fchmod, fchmodat, creat, open, openat twice, mknod,
mknodat. The kernel itself finds no such file, or no descriptor."""

_F_GETFD, _F_SETLEASE, _F_SETDELEG = 1, 1024, 1040
_TIOCSTI, _TIOCLINUX, _TIOCGWINSZ = 0x5412, 0x541C, 0x5413
_FAMILIES: Mapping[str, tuple[int, int, int]] = {
    "AF_PACKET": (17, 2, 0),
    "AF_VSOCK": (40, 1, 0),
    "AF_ALG": (38, 5, 0),
    "AF_BLUETOOTH": (31, 3, 1),
    "AF_CAN": (29, 3, 1),
    "AF_KEY": (15, 3, 2),
    "AF_TIPC": (30, 1, 0),
    "AF_RDS": (21, 5, 0),
}


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family; none if the sandbox is not on Linux."""
    if not subject.linux or subject.policy.process.sandbox_root:
        return
    if subject.policy.process.seccomp not in SECCOMP_PROFILES:
        reason = "the profile is a file that the policy names, and nothing else says what it should refuse"
        yield Probe("syscalls/profile", Family.SYSCALLS, "the filter refuses what it should", (), skip=reason)
        return
    arm = subject.policy.facts.platform.endswith("arm64")
    for call in _CALLS:
        number = call.arm64 if arm else call.amd64
        if number is None or _is_granted_by_profile(call.name, subject):
            continue
        about = f"{call.name} is refused: {call.why}; without the filter the answer would be {call.kernel}"
        tried = ProbeStep(attempt("syscall", number, *call.arguments), call.claim, breach=(call.kernel,))
        yield _probe(call.name, about, tried)
    yield from _special(subject, arm=arm, fixed=subject.policy.process.seccomp == "build")


def _is_granted_by_profile(name: str, subject: ProofSubject) -> bool:
    """Whether the profile `build` grants the call to test suites that trace."""
    return subject.policy.process.seccomp == "build" and name in ("ptrace", "process_vm_readv")


def _probe(
    name: str,
    about: str,
    *steps: ProbeStep,
    controls: tuple[ProbeStep, ...] = (),
    check: Callable[[], str | None] | None = None,
) -> Probe:
    control = (ProbeStep(attempt("echo", "alive"), "works"), step("works", "clone", 0))
    return Probe(f"syscalls/{name}", Family.SYSCALLS, about, steps, controls or control, check)


def _set_id_probe(file: Path, *, arm: bool) -> Probe:
    """Each call that can make such a file, also with an upper half in the mode; others are the kernel's."""
    calls = [(arm64 if arm else amd64, words) for amd64, arm64, words in _SETTING]
    tried = [(number, words) for number, words in calls if number is not None]
    tried += [
        (number, tuple(each | 1 << 40 if each == _SET_ID else each for each in words))
        for number, words in tried
    ]
    plain = [(number, tuple(_without_bit(each) for each in words)) for number, words in tried]
    return _probe(
        "set-user-id",
        "files cannot get the set-user-ID bit, which would outlive the sandbox",
        step("filtered", "chmod", file, _SET_ID),
        *(
            ProbeStep(attempt("syscall", number, *words), "filtered", breach=_ABSENT)
            for number, words in tried
        ),
        step("filtered.nosys", "syscall", _OPENAT2[arm], -1, "page", "page", 24),
        controls=(
            step("works", "create", file),
            step("works", "chmod", file, _MODE),
            step("works", "chmod", file, 0o2755),
            *(ProbeStep(attempt("syscall", number, *words), "mode.asked") for number, words in plain),
        ),
        check=lambda: _without_set_id(file),
    )


_ABSENT = ("ENOENT", "EBADF")


def _without_bit(word: str | int) -> str | int:
    """An argument of `_SETTING` without the bit."""
    return word & ~0o4000 if isinstance(word, int) and word > 0 and word & 0o4755 == _SET_ID else word


def _without_set_id(file: Path) -> str | None:
    if not file.is_file():
        return f"{file} is not there"
    return f"{file} has the set-user-id bit" if file.stat().st_mode & stat.S_ISUID else None


def _special(subject: ProofSubject, *, arm: bool, fixed: bool) -> Iterator[Probe]:
    """`fixed`: programs may request fixed addresses, as some bootstraps do."""
    yield _probe(
        "clone3",
        "clone3 returns ENOSYS, so that C libraries use clone, whose flags a filter can check",
        step("filtered.nosys", "syscall", _CLONE3[arm], 0, 0),
        controls=(step("works", "clone", 0),),
    )
    yield _probe(
        "terminal",
        "terminal input cannot be injected (CVE-2017-5226, CVE-2023-28100), also through the upper 32 bits",
        *(
            step("terminal.type", "terminal", request | high)
            for request in (_TIOCSTI, _TIOCLINUX)
            for high in (0, 1 << 32)
        ),
        controls=(step("terminal.make", "terminal", _TIOCGWINSZ),),
    )
    if not fixed:
        yield _set_id_probe(subject.fixture.write / "mode", arm=arm)
    number = 25 if arm else 72
    yield _probe(
        "leases",
        "leases cannot block programs of the host that open a file, also through the upper 32 bits",
        *(
            ProbeStep(
                attempt("syscall", number, -1, command | high, 0), "filtered.invalid", breach=("EBADF",)
            )
            for command in (_F_SETLEASE, _F_SETDELEG)
            for high in (0, 1 << 32)
        ),
        controls=(step("works", "syscall", number, 0, _F_GETFD, 0),),
    )
    number = 92 if arm else 135
    yield _probe(
        "personality",
        "personality cannot disable address space randomization or make data executable",
        *(
            step("filtered", "syscall", number, flag)
            for flag in ((0x400000,) if fixed else (0x40000, 0x400000))
        ),
        controls=(step("personality.ask", "syscall", number, 0xFFFFFFFF),),
    )
    yield _probe(
        "socket-families",
        "socket families that network namespaces do not isolate are unavailable",
        *(step("filtered.family", "socket", *words) for words in _FAMILIES.values()),
        step("filtered.netlink", "socket", 16, 3, 9),
        controls=(
            step("net.socket", "socket", 2, 1, 0),
            step("family.six", "socket", 10, 1, 0),
            step("works", "pair"),
        ),
    )
    if not arm:
        yield _probe(
            "other-abi",
            "system calls of the 32-bit and x32 ABIs end the process, because their numbers differ",
            step("foreign-abi", "syscall32", 20),
            step("foreign-abi.x32", "syscall", 0x40000000 | 39),
            controls=(step("works", "syscall", 39),),
        )
