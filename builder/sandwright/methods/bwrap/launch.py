"""Renders bubblewrap's launcher."""

from __future__ import annotations

import dataclasses

from sandwright.methods.shared.shims import shim_fields
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.hostnames import name_fields, resolver_place
from sandwright.render.launcher import common_plan, launch_program, supervision
from sandwright.render.mounts import MountPlan

BPF = 5
"""The descriptor under which bwrap finds its filter."""

MAX_ARGUMENTS = 8900
"""bwrap refuses more than 9000 arguments, those of files included (bubblewrap.c, MAX_ARGS); some are the
launcher's."""


def bwrap_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], *, count: int
) -> tuple[Artifact, ...]:
    """`launch` for bubblewrap, and its plan.

    `files` are what it checks and uses: the arguments, `count` of them, the filter, the plan of mounts.
    """
    launch = dataclasses.replace(
        common_plan(policy, plan, "bwrap"),
        **supervision(policy),
        **shim_fields(policy, "bwrap"),
    )
    if any(each.name == "resolv.conf" for each in files):
        place = resolver_place(policy)
        launch = dataclasses.replace(launch, **name_fields(policy), resolver_place=place)
    if count > MAX_ARGUMENTS:
        refused = (
            f"bubblewrap takes {MAX_ARGUMENTS} arguments, and this policy needs {count}: "
            "name fewer paths, or take another method"
        )
        launch = dataclasses.replace(launch, refused=refused)
    return launch_program(policy, launch, files, "runs a command in the sandbox")
