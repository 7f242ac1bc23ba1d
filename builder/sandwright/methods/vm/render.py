"""Renders the start of a separate kernel inside bubblewrap's sandbox.

The sandbox is that of `bwrap` for the same policy, except that it never has a network, and has another
filter: the kernel's process traces (ptrace), and makes no connections. The policy's filter is loaded inside,
by the first process there.
"""

from __future__ import annotations

import dataclasses

from sandwright.errors import RenderError
from sandwright.launcher import GUEST, LAUNCH_VM
from sandwright.launcher.plan import MachinePlan
from sandwright.methods.bwrap.launch import MAX_ARGUMENTS, ignored_places
from sandwright.methods.bwrap.render import SWITCHES, bwrap_arguments
from sandwright.policy.hidden import hidden_paths
from sandwright.policy.limits import is_preset
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.baseline import load_baseline
from sandwright.render.bubblewrap import BwrapArguments
from sandwright.render.filters import architecture, guest_filter, kernel_filter
from sandwright.render.hostnames import placed_name_plan
from sandwright.render.launcher import common_plan, launch_program
from sandwright.render.mount_watch import mounts_artifact
from sandwright.render.mounts import mount_plan

KERNEL = "linux.uml"
"""The program of Debian's package user-mode-linux."""

MEMORY = 2048
"""MiB that the kernel gets at most where only a preset limits memory: it prepares all of it at its start."""

LEAST = 64
"""MiB with which it starts."""

_MEBIBYTE = 1 << 20
OWN_SWITCHES = ("/proc/exitcode", "/proc/sysemu", "/proc/mconsole")
"""The files in /proc that only User-Mode Linux has (arch/um/kernel)."""


def render_vm(
    policy: ResolvedPolicy, *, kernel: str = KERNEL, accelerator: str | None = None
) -> tuple[Artifact, ...]:
    """`args`, both filters, the plan of `mounts`, `guest`, `launch` and its plan. Raise like `render_bwrap`.

    With an `accelerator` it is QEMU's, whose machine has its `guest` already.
    Raise RenderError for another processor than amd64, and for less memory than the kernel starts with.
    """
    needs_amd64(policy)
    plan = mount_plan(policy, root="host", user_namespace=True)
    without_host = BwrapArguments().unshare("net") if policy.network.mode == "host" else BwrapArguments()
    arguments = without_host.add(*bwrap_arguments(policy, plan)).words
    content = b"".join(argument.encode("utf-8", "surrogateescape") + b"\0" for argument in arguments)
    capabilities = load_baseline().capabilities["init" if policy.process.sandbox_root else "none"]
    files = (
        Artifact("args", content, "bubblewrap's arguments, for --args"),
        Artifact("seccomp.bpf", kernel_filter(policy), "the filter of the kernel's process, for --seccomp"),
        Artifact("guest.bpf", guest_filter(policy, caps=capabilities), "the filter of system calls inside"),
        mounts_artifact(plan.mounts, plan.placeholders),
        *(() if accelerator else (guest_program(),)),
    )
    launch = dataclasses.replace(
        common_plan(policy, plan, "bwrap"),
        names=placed_name_plan(policy),
        vm=dataclasses.replace(machine_plan(policy), kernel=kernel, accelerator=accelerator),
        ignored=ignored_places(policy, plan),
        repositories=plan.repositories,
    )
    if len(arguments) > MAX_ARGUMENTS:
        refused = "bubblewrap takes fewer arguments than this policy needs"
        launch = dataclasses.replace(launch, refused=refused)
    purpose = "runs a command with a separate kernel"
    return *files, *launch_program(policy, launch, files, purpose, inside=LAUNCH_VM)


def guest_program() -> Artifact:
    """`guest`, the first process of the kernel inside."""
    program = GUEST.path("linux/amd64").read_bytes()
    return Artifact(GUEST.name, program, "the first process of the kernel inside", executable=True)


def needs_amd64(policy: ResolvedPolicy) -> None:
    """Raise RenderError for any other processor than amd64."""
    if architecture(policy) != "amd64":
        raise RenderError("vm runs on amd64 only")


def machine_plan(policy: ResolvedPolicy) -> MachinePlan:
    """The section `vm` of a launch plan, under any outer sandbox. Raise like `render_vm`."""
    cpus = policy.resources.cpus
    return MachinePlan(
        memory=memory(policy),
        cpus=None if cpus is None else int(cpus * 1000),
        hidden=tuple(hidden_paths()),
        readonly=(*load_baseline().readonly, *SWITCHES, *OWN_SWITCHES),
    )


def memory(policy: ResolvedPolicy | None) -> int:
    """MiB of the machine inside, for a policy or for one without limits. Raise RenderError for too little."""
    if policy is None:
        return MEMORY
    limit, source = policy.resources.memory, policy.source("resources.memory")
    if limit is None:
        return MEMORY
    size = limit // _MEBIBYTE
    if is_preset(policy, "memory"):
        size = min(size, MEMORY)
    if size < LEAST:
        raise RenderError(f"{source}: resources.memory: a separate kernel needs {LEAST}MiB")
    return size
