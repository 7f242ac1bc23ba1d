"""Renders bubblewrap's launcher."""

from __future__ import annotations

from sandwright.methods.shared.shims import shim_values
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import common_values, launch_and_watch
from sandwright.render.mounts import MountPlan

BPF = 5
"""The descriptor under which bwrap finds its filter."""

MAX_ARGUMENTS = 8900
"""bwrap refuses more than 9000 arguments, those of files included (bubblewrap.c, MAX_ARGS); some are the
launcher's."""


def bwrap_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], *, count: int
) -> tuple[Artifact, ...]:
    """`launch` for bubblewrap, and `watch` where there is something to watch.

    `files` are what it checks and uses: the arguments, `count` of them, the filter, the plan of mounts.
    """
    values = {
        **common_values(policy, plan),
        "runtime": False,
        "watched": bool(plan.covers) or policy.resources.time is not None,
        "covers_inside": True,
        "pids": policy.resources.pids,
        "files": policy.resources.files,
        "too_many": count if count > MAX_ARGUMENTS else 0,
        "limit": MAX_ARGUMENTS,
        "bpf": BPF,
        "shims": shim_values(policy, "bwrap"),
    }
    return launch_and_watch("bwrap", values, files, "runs a command in the sandbox")
