"""Probes of identity, privileges (set-user-ID, capabilities, namespaces), and access to other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

NAMESPACES = ("mnt", "pid", "ipc", "uts")
"""Namespaces that every method for Linux makes; the network namespace depends on the policy."""

_MS_BIND, _MS_REMOUNT = 0x1000, 0x20
_CLONE = {"NEWUSER": 0x10000000, "NEWNS": 0x00020000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family."""
    if not subject.linux:
        return
    yield from _kernel_probes(subject)
    yield from _root_probes(subject)
    if not subject.policy.process.sandbox_root:
        yield from _rights_probes(subject)
    yield from _mount_probes(subject)
    yield from _namespace_probes()
    yield from _foreign_process_probes(subject.host_process, traces=subject.policy.process.seccomp == "build")
    yield from _kernel()
    yield from _hidden_path_probes(subject)
    yield from _interface_probes(subject)


def alive() -> ProbeStep:
    """The control of attempts that are always refused: the program can do harmless things."""
    return ProbeStep(attempt("echo", "alive"), "works", value=b"alive")


def _probe(name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...] = ()) -> Probe:
    return Probe(f"processes/{name}", Family.PROCESSES, about, steps, controls or (alive(),))


def _kernel_probes(subject: ProofSubject) -> Iterator[Probe]:
    if subject.properties.own_kernel:
        yield _probe(
            "inside",
            "the kernel inside is another than the host's",
            ProbeStep(attempt("read", "/proc/version"), "works", lacks=(os.uname().release.encode(),)),
        )
        return
    kinds = [*NAMESPACES, *(["net"] if subject.policy.network.mode != "host" else [])]
    yield _probe(
        "inside",
        f"the namespaces ({', '.join(kinds)}) are not the host's",
        *(
            ProbeStep(attempt("readlink", f"/proc/self/ns/{kind}"), "inside", lacks=(_namespace_link(kind),))
            for kind in kinds
        ),
    )


def _root_probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of a run by root, which gVisor's kernel does not show."""
    if subject.policy.facts.uid != 0:
        return
    if subject.properties.own_user_namespace:
        yield _probe(
            "root",
            "root in the sandbox is root of a separate user namespace",
            ProbeStep(
                attempt("readlink", "/proc/self/ns/user"), "root.inside", lacks=(_namespace_link("user"),)
            ),
        )
    elif subject.properties.engine and not subject.policy.process.sandbox_root:
        yield _probe(
            "root",
            "the command is uid 0 of the host, and has no capability",
            ProbeStep(
                attempt("read", "/proc/self/status"), "root.inside", holds=b"CapEff:\t0000000000000000"
            ),
        )


def _namespace_link(kind: str) -> bytes:
    return os.fsencode(Path(f"/proc/self/ns/{kind}").readlink())


def _rights_probes(subject: ProofSubject) -> Iterator[Probe]:
    if subject.properties.own_kernel:
        expected = {"works": [b"CapEff:\t0000000000000000"]}
    else:
        none = [f"{name}:\t0000000000000000".encode() for name in ("CapEff", "CapPrm", "CapInh", "CapBnd")]
        expected = {"works": [*none[:3], b"NoNewPrivs:\t1", b"Seccomp:\t2"], "privilege.bound": none[3:]}
    yield _probe(
        "status",
        "there are no capabilities, none can be gained, and seccomp is active",
        *(
            ProbeStep(attempt("read", "/proc/self/status"), claim, holds=line)
            for claim, lines in expected.items()
            for line in lines
        ),
    )
    yield _probe("raise", "capabilities cannot be raised", step("privilege.none", "raise"))
    yield _probe(
        "identity",
        "the user and group IDs cannot be changed",
        step("privilege.identity", "setuid", 12345),
        step("privilege.identity", "setgid", 12345),
        step("privilege.none", "setgroups"),
    )
    yield _probe(
        "chown",
        "the owner of a file cannot be changed",
        step("privilege.identity", "chown", subject.fixture.write / "plain", 12345),
    )
    yield _probe(
        "host-name", "the host name cannot be changed", step("privilege.none", "sethostname", "other")
    )
    if subject.properties.own_user_namespace:  # engines set no flags, and no-new-privileges does it alone
        yield _probe(
            "set-id",
            "a set-user-ID program gains no privileges: mounts are `nosuid`",
            *(
                ProbeStep(attempt("flags", directory), "works", holds=b"nosuid")
                for directory in _directories_with_programs(subject)
            ),
        )


def _directories_with_programs(subject: ProofSubject) -> Iterator[Path]:
    """Not a denied /tmp: a runtime hides it by an empty read-only file system, with flags of its own."""
    yield from (subject.fixture.write, subject.fixture.read)
    temporary = "/tmp"  # noqa: S108 - inside
    if not any(rule.kind == "deny" for rule in subject.policy.filesystem.tree.deciding(temporary)[:1]):
        yield Path(temporary)


def _mount_probes(subject: ProofSubject) -> Iterator[Probe]:
    write, read = subject.fixture.write, subject.fixture.read
    yield _probe(
        "mount",
        "file systems cannot be mounted, remounted or unmounted",
        step("privilege.none", "mount", read, write, "", _MS_BIND),
        step("privilege.none", "mount", "tmpfs", write, "tmpfs", 0),
        step("privilege.none", "mount", "", read, "", _MS_BIND | _MS_REMOUNT),
        step("privilege.none", "mount", "", "/", "", _MS_BIND | _MS_REMOUNT),
        step("privilege.none", "umount", read / "denied"),
        step("privilege.none", "umount", "/proc"),
    )
    yield _probe(
        "root-change",
        "the root directory cannot be changed",
        step("privilege.none", "chroot", write),
        step("privilege.none", "pivot", write),
    )


def _namespace_probes() -> Iterator[Probe]:
    yield _probe(
        "unshare",
        "namespaces cannot be created, in particular user namespaces",
        *(step("privilege.none", "unshare", flag) for flag in _CLONE.values()),
    )
    yield _probe(
        "clone",
        "processes cannot be created in a new namespace",
        *(step("privilege.none", "clone", flag) for flag in _CLONE.values()),
        controls=(step("works", "clone", 0),),
    )
    yield _probe(
        "enter",
        "namespaces cannot be entered",
        *(step("privilege.enter", "enter", f"/proc/self/ns/{kind}", 0) for kind in ("mnt", "net", "user")),
    )


def _foreign_process_probes(outside: int, *, traces: bool) -> Iterator[Probe]:
    """Probes of other processes; `outside` is one of the host.

    A policy with `traces` allows tracing, for test suites.
    """
    yield _probe(
        "outside",
        "no process of the host is visible",
        step("outside.process", "kill", outside, 0),
        ProbeStep(attempt("list", "/proc"), "outside.list", lacks=(f"\n{outside}\n".encode(),)),
        step("outside.directory", "stat", f"/proc/{outside}"),
        controls=(step("works", "kill", 0, 0), step("works", "stat", "/proc/self/status")),
    )
    if not traces:
        yield _probe(
            "trace",
            "processes cannot be traced, and their memory is unreadable",
            step("privilege.trace", "trace", 0),
            step("privilege.trace", "peek", 0),
        )


def _kernel() -> Iterator[Probe]:
    settings = ("kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory")
    yield _probe(
        "kernel-settings",
        "sysctl settings are read-only: core_pattern would run programs on the host",
        *(_kernel_order_step(f"/proc/sys/{name}") for name in settings),
        controls=(step("works", "list", "/proc/sys/kernel"),),
    )
    yield _probe(
        "kernel-orders",
        "sysrq is unavailable, and the kernel starts no program for the sandbox",
        *(_kernel_order_step(path) for path in ("/proc/sysrq-trigger", "/sys/kernel/uevent_helper")),
        step(
            "kernel.cgroup" if os.access(_release_agent(), os.W_OK) else "kernel.cgroup-rights",
            "write",
            _release_agent(),
        ),
        controls=(step("works", "read", "/proc/self/stat"),),
    )
    yield kernel_memory(has_core=Path("/proc/kcore").exists())


def kernel_memory(*, has_core: bool) -> Probe:
    """The probe of the kernel's memory, on a host that has /proc/kcore or does not."""
    core = attempt("read", "/proc/kcore")
    return _probe(
        "kernel-memory",
        "kernel memory is unreadable",
        ProbeStep(core, "kernel.memory", value=b"") if has_core else ProbeStep(core, "kernel.absent"),
        step("device.none", "read", "/dev/mem"),
        controls=(step("works", "read", "/proc/self/stat"),),
    )


_HIDDEN = (
    "/proc/acpi", "/proc/asound", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip
_HIDDEN_BY_SOME = (
    "/proc/interrupts", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/slabinfo",
    "/proc/vmallocinfo", "/sys/devices/virtual/powercap", "/sys/fs/pstore", "/sys/kernel/debug",
    "/sys/kernel/notes", "/sys/kernel/tracing", "/sys/kernel/vmcoreinfo",
)  # fmt: skip
"""The hidden paths of /proc and /sys, and those of them that current versions of Docker show."""


def _interface_probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probe of network interfaces: each namespace has a loopback, and some drivers add a device."""
    of_all = {"lo", "sit0", "tunl0", "gre0", "gretap0", "erspan0", "ip6tnl0", "ip6gre0", "ip_vti0"}
    found = sorted(each.name for each in Path("/sys/class/net").glob("*") if each.name not in of_all)
    real = (os.path.realpath(f"/sys/class/net/{name}") for name in found)
    physical = [path for path in real if not path.startswith("/sys/devices/virtual/")]
    if found and subject.policy.network.mode == "none":
        yield _probe(
            "host-interfaces",
            "/sys does not show the host's network devices",
            *(step("kernel.interface", "stat", f"/sys/class/net/{name}") for name in found[:_MOST_NAMES]),
            *(step("kernel.interface", "stat", path) for path in physical[:_MOST_NAMES]),
            controls=(step("works", "read", "/proc/self/stat"),),
        )


_MOST_NAMES = 8


def _hidden_path_probes(subject: ProofSubject) -> Iterator[Probe]:
    paths = [
        Path(each)
        for each in (
            *_HIDDEN,
            *(() if subject.declaration.of("process.kernel").level == "partly" else _HIDDEN_BY_SOME),
        )
    ]
    there = [path for path in paths if path.exists()]
    if there:
        yield _probe(
            "kernel-hidden",
            "paths of /proc and /sys that describe the host and other processes are empty or missing",
            *(
                ProbeStep(attempt("list" if path.is_dir() else "read", path), "kernel.hidden", value=b"")
                for path in there
            ),
            controls=(step("works", "read", "/proc/self/stat"), step("works", "list", "/proc")),
        )


def _kernel_order_step(path: str) -> ProbeStep:
    """The step for a file that this kernel may not have; if so, it does not exist inside either."""
    if not Path(path).exists():
        return step("kernel.no-order", "write", path, "h")  # sysrq's help, should it be taken
    return step("kernel.write" if os.access(path, os.W_OK) else "kernel.rights", "write", path)


def _release_agent() -> str:
    """The step for the release_agent of cgroup version 1, a way out of containers (CVE-2022-0492)."""
    found = sorted(Path("/sys/fs/cgroup").glob("*/release_agent"))
    return str(found[0]) if found else "/sys/fs/cgroup/release_agent"
