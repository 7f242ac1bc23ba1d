"""The seccomp filter for the gaps of Landlock, beside the policy's own: the stricter answer counts.

It allows all calls except the listed ones, each with its reason. The limits of Landlock are in the kernel's
documentation (userspace-api/landlock, "Current limitations"), and was measured on Linux 6.18.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from sandwright.seccomp import compile_profile
from sandwright.seccomp.abi import NATIVE, Architecture
from sandwright.seccomp.action import ALLOW, ENOSYS, EPERM, KILL_PROCESS, Action, refusal
from sandwright.seccomp.model import (
    ArgumentComparison,
    ComparisonOperator,
    SeccompProfile,
    SeccompRule,
    masked_comparison,
)

NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME (linux/sched.h)."""

FAST_OPEN = 0x20000000
"""MSG_FASTOPEN (linux/socket.h)."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
TYPE, STREAM = 0xF, 1
TCP = 6
SET_USER_ID = 0o4000
FLAGS = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR (linux/fs.h)."""


def closing_filter(
    arch: Architecture, *, network: bool, listens: bool, sockets: bool = False, named: bool = False
) -> bytes:
    """Compile the program.

    `network`: the host's network is allowed; `listens`: a server may be one of the policy's.

    `sockets`: Unix sockets may be made, as the launcher binds and connects them. `named`: the launcher makes
    the calls that name a path.
    """
    return _compile_rules(arch, network, listens, sockets, named)


@functools.cache
def _compile_rules(arch: Architecture, network: bool, listens: bool, sockets: bool, named: bool) -> bytes:
    rules = tuple(closing_rules(network=network, listens=listens, sockets=sockets, named=named))
    profile = SeccompProfile(
        "closed", ALLOW, rules, (NATIVE[arch].oci,), first_wins=True, foreign=KILL_PROCESS
    )
    return compile_profile(profile, arch=arch)


def closing_rules(
    *, network: bool, listens: bool, sockets: bool = False, named: bool = False
) -> Iterator[SeccompRule]:
    """The rules of the program. The first one that applies decides."""
    yield from _path_call_rules() if named else ()
    yield from _attributes(owners=named)
    yield from _process_rules()
    yield from _bypass_rules()
    yield from _socket_rules(made=sockets)
    if not network:
        yield from _tcp_alone()
        if not listens:
            yield _deny("listen", why="On a socket that was not bound it opens a port that no rule names.")


def _deny(names: str, *when: ArgumentComparison, why: str, action: Action = EPERM) -> SeccompRule:
    return SeccompRule(tuple(names.split()), action, when, comment=why)


def _but(argument: int, *values: int, mask: int = (1 << 32) - 1) -> ArgumentComparison:
    return ArgumentComparison(argument, ComparisonOperator.NONE_OF, values, mask)


def _path_call_rules() -> Iterator[SeccompRule]:
    """The calls that the launcher makes for the sandbox's own kernel (launcher/source/paths.c)."""
    yield _deny(
        "chmod chown creat fchmodat fchownat lchown link linkat mkdir mkdirat mknod mknodat open openat "
        "rename renameat renameat2 rmdir symlink symlinkat truncate unlink unlinkat utime utimensat utimes",
        why="The launcher judges the path by the plan of mounts, and makes the call.",
    )
    yield _deny("fchmodat2 openat2", why="Other names for these.", action=ENOSYS)
    yield _deny("futimesat name_to_handle_at", why="Programs don't need them.")


def _attributes(*, owners: bool = False) -> Iterator[SeccompRule]:
    """Of files that may not be written. Other modes and times stay: builds and Git change those of theirs."""
    if not owners:
        yield _deny("chown fchown fchownat lchown", why="No right of Landlock's holds owners.")
    yield _deny(
        "fremovexattr fsetxattr lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat",
        why="No right of Landlock's holds extended attributes and access lists.",
        action=refusal("EOPNOTSUPP"),
    )
    yield _deny("file_setattr", why="The same of a file's flags.", action=ENOSYS)
    for names, argument in (("chmod fchmod", 1), ("fchmodat fchmodat2", 2)):
        yield _deny(
            names,
            masked_comparison(argument, SET_USER_ID, SET_USER_ID),
            why="Such a file gives its caller the rights of its owner, and may be any file of this user.",
        )
    for request in FLAGS:
        yield _deny(
            "ioctl",
            masked_comparison(1, request),
            why="The same of a file's flags, also where it is only read.",
        )


def _process_rules() -> Iterator[SeccompRule]:
    """Of this user, outside: nothing but signals and tracing is held."""
    yield _deny("prlimit64", _but(0, 0), why="Limits of other processes.")
    yield _deny("sched_setaffinity sched_setattr sched_setparam sched_setscheduler", _but(0, 0),
                why="Scheduling of other processes.")  # fmt: skip
    yield _deny("setpriority", _but(0, 0), why="Priorities of a group's or a user's processes.")
    yield _deny("setpriority", _but(1, 0), why="Priorities of other processes.")
    yield _deny("ioprio_set", _but(0, 1), why="Priorities of a group's or a user's processes.")
    yield _deny("ioprio_set", _but(1, 0), why="Priorities of other processes.")
    yield _deny(
        "kcmp migrate_pages move_pages pidfd_getfd process_madvise process_mrelease process_vm_readv "
        "process_vm_writev",
        why="Memory and descriptors of others: a second wall behind Landlock's.",
    )
    yield _deny("msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget",
                why="Memory, semaphores and queues of System V are the host's.")  # fmt: skip
    yield _deny("mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink",
                why="Queues of POSIX are the host's.")  # fmt: skip
    yield _deny("add_key keyctl request_key", why="Keys of the host's user.")


def _bypass_rules() -> Iterator[SeccompRule]:
    """Ways past filters and rules; the shipped profiles refuse them too, a policy's own file may not."""
    yield _deny("io_uring_enter io_uring_register io_uring_setup", why="Calls that no filter sees.")
    yield _deny("clone3", why="Its flags cannot be seen.", action=ENOSYS)
    yield _deny("clone", _but(0, 0, mask=NAMESPACES & ~0x80), why="Rights of a user namespace.")
    yield _deny("unshare", _but(0, 0, mask=NAMESPACES), why="Rights of a user namespace.")
    yield _deny("setns", why="Namespaces of others.")
    yield _deny(
        "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_by_handle_at open_tree "
        "pivot_root umount2",
        why="Mounts; Landlock holds most of them.",
    )
    yield _deny("fanotify_init fanotify_mark", why="Files of others.")
    for request in (0x5412, 0x541C):
        yield _deny("ioctl", masked_comparison(1, request), why="TIOCSTI and TIOCLINUX type into a terminal.")


def _socket_rules(*, made: bool) -> Iterator[SeccompRule]:
    if made:
        yield _deny("socket", masked_comparison(0, AF_UNIX), _but(1, STREAM, 5, mask=TYPE),
                    why="Datagrams bring addresses of their own.")  # fmt: skip
    else:
        yield _deny(
            "socket",
            masked_comparison(0, AF_UNIX),
            why="Sockets by path are held by no right before version 9.",
        )
    yield _deny("socketpair", masked_comparison(0, AF_UNIX), _but(1, STREAM, 5, mask=TYPE),
                why="An end of a pair of datagrams can send to any other address.")  # fmt: skip


def _tcp_alone() -> Iterator[SeccompRule]:
    """Landlock holds `connect` and `bind` of TCP, and nothing else of the network."""
    yield _deny("socket", _but(0, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK), why="Families without rules.")
    for family in (AF_INET, AF_INET6):
        yield _deny(
            "socket", masked_comparison(0, family), _but(1, STREAM, mask=TYPE), why="UDP and raw sockets."
        )
        yield _deny(
            "socket",
            masked_comparison(0, family),
            _but(2, 0, TCP),
            why="MPTCP, SCTP and others without rules.",
        )
    yield _deny(
        "sendto", masked_comparison(3, FAST_OPEN, FAST_OPEN), why="TCP fast open connects without `connect`."
    )
    yield _deny("sendmsg", masked_comparison(2, FAST_OPEN, FAST_OPEN), why="The same.")
    yield _deny("sendmmsg", masked_comparison(3, FAST_OPEN, FAST_OPEN), why="The same.")
    for option in (23, 30, 31):
        yield _deny("setsockopt", masked_comparison(1, TCP), masked_comparison(2, option),
                    why="TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_ULP.")  # fmt: skip
