"""System calls that are denied, and others, for tests of their reports.

They are listed here, and not taken from the renderer.
"""

from __future__ import annotations

import csv
import platform
from collections.abc import Sequence
from pathlib import Path

from sandwright import process
from sandwright.resources import data_path
from sandwright.session.events import DeniedCall, RunDenied, RunOmitted, decode_event

CALLS = [
    "acct",
    "add_key",
    "bpf",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_load",
    "keyctl",
    "mount",
    "name_to_handle_at",
    "open_by_handle_at",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_readv",
    "ptrace",
    "quotactl",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
]
"""The profile `default` refuses them with EPERM, whatever their arguments are."""

SAFE = [
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getpgrp",
    "times",
    "sched_yield",
    "sync",
    "getpgid",
    "getsid",
    "umask",
    "uname",
    "getcwd",
    "getrusage",
    "gettimeofday",
    "sysinfo",
    "capget",
    "getpriority",
    "sched_getparam",
    "sched_getscheduler",
    "getitimer",
    "sched_get_priority_max",
    "inotify_init1",
    "epoll_create1",
    "eventfd2",
    "timerfd_create",
    "pipe2",
    "dup",
    "statfs",
    "access",
    "readlink",
    "fstat",
    "lseek",
    "fcntl",
    "flock",
    "madvise",
    "getrandom",
]
"""Allowed; they fail by themselves, or do no harm."""

NO_CALLS = ["clone3", "cachestat"]
"""ENOSYS, with which a filter reports that there is no such call."""


def numbers(names: Sequence[str]) -> list[str]:
    """The numbers of the calls that this processor has."""
    column = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    with data_path("seccomp", "syscalls.csv").open(encoding="utf-8") as file:
        known = {row["name"]: row[column] for row in csv.DictReader(each for each in file if each[0] != "#")}
    return [known[name] for name in names if known.get(name)]


PLANTED = [each for each in CALLS if numbers([each])]


def arguments() -> list[str]:
    """The program's arguments: all three tables."""
    return numbers([*CALLS, *SAFE, *NO_CALLS])


def build(program: Path) -> None:
    """The program that makes the calls: static, so that it runs on any root."""
    source = Path(__file__).with_name("plantedcalls.c")
    process.run("cc", "-O1", "-static", "-Wall", "-Werror", "-o", str(program), str(source), timeout=120)


def check(file: Path) -> int:
    """Check a launcher's record: each planted call once, with the policy's EPERM, and no other. Return their
    number."""
    *told, last = map(decode_event, file.read_bytes().splitlines())
    found = [(each.what, each.count) for each in told if isinstance(each, RunDenied)]
    calls = [
        (each.number, each.error, each.filter, count) for each, count in found if isinstance(each, DeniedCall)
    ]
    assert sorted(calls) == sorted((int(number), 1, 0, 1) for number in numbers(CALLS))
    assert (last, len(calls)) == (RunOmitted(count=0), len(told))
    return len(told)
