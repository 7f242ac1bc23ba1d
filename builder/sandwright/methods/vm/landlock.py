"""Renders the start of a separate kernel under Landlock, where no namespace can be made.

The plan of mounts is the same as inside bubblewrap. It is made by the first process in that kernel, and held
outside by the launcher's supervisor, which makes each call of the kernel's process that names a path
(launcher/source/paths.c). Landlock's rules stand behind both.
"""

from __future__ import annotations

import dataclasses

from sandwright.launcher.plan import LandlockPlan, SocketPlan
from sandwright.methods.bwrap.launch import ignored_places
from sandwright.methods.bwrap.render import start_directory
from sandwright.methods.landlock.grants import encode_grants, grants
from sandwright.methods.vm.render import KERNEL, guest_program, machine_plan, needs_amd64
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import authority_environment
from sandwright.render.baseline import load_baseline
from sandwright.render.filters import guest_filter, kernel_filter
from sandwright.render.hostnames import placed_name_plan
from sandwright.render.launcher import common_plan, launch_program
from sandwright.render.mount_watch import mounts_artifact
from sandwright.render.mounts import mount_plan
from sandwright.render.proxy_env import sandbox_environment
from sandwright.seccomp.closing import closing_filter


def render_vm_landlock(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`rules`, three filters, the plan of `mounts`, `guest`, `launch`, its plan. Raise like `render_vm`."""
    needs_amd64(policy)
    plan = mount_plan(policy, root="host")
    files = (
        Artifact(
            "rules", encode_grants(grants(policy)), "what the launcher may read and write for that kernel"
        ),
        Artifact("seccomp.bpf", kernel_filter(policy), "the filter of the kernel's process"),
        Artifact(
            "closed.bpf",
            closing_filter("amd64", network=False, listens=False, named=True),
            "the filter of what Landlock doesn't hold, and of what the launcher does for that process",
        ),
        Artifact("guest.bpf", guest_filter(policy, caps=()), "the filter of system calls inside"),
        mounts_artifact(plan.mounts, plan.placeholders),
        guest_program(),
    )
    settings = {**authority_environment(policy), **sandbox_environment(policy)}
    launch = dataclasses.replace(
        common_plan(policy, plan, "landlock"),
        names=placed_name_plan(policy),
        ignored=ignored_places(policy, plan),
        repositories=plan.repositories,
        sockets=SocketPlan(supervised=True),
        landlock=LandlockPlan(
            settings=tuple(f"{name}={value}" for name, value in settings.items()),
            start_directory=start_directory(policy, plan),
            temporary=policy.filesystem.tmp_path,
            ports_closed=True,
        ),
        vm=dataclasses.replace(
            machine_plan(policy),
            kernel=KERNEL,
            hostname=load_baseline().hostname,
            links=tuple((each.target, each.source) for each in plan.mounts if each.kind == "symlink"),
        ),
    )
    return *files, *launch_program(policy, launch, files, "runs a command with a separate kernel")
