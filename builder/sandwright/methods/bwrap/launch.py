"""Renders bubblewrap's launcher: the program `launch` and its plan, from the results of `render`."""

from __future__ import annotations

import dataclasses

from sandwright.launcher import LAUNCH_INIT
from sandwright.methods.shared.shims import shim_plan
from sandwright.policy.paths import parent
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.hostnames import placed_name_plan
from sandwright.render.landlock_backstop import backstop_plan
from sandwright.render.launcher import common_plan, launch_program, socket_plan
from sandwright.render.mounts import MountPlan
from sandwright.render.placeholders import ignored_directories

BPF = 5
"""The descriptor under which bwrap finds its filter."""

GITIGNORES = 9
"""The first descriptor from which bwrap copies `.gitignore` into placeholders that Git passes over."""

_MOST_GITIGNORES = 64
_LEAST_FILES = 256
"""The descriptors for which resources.files needs room: bwrap opens some besides."""

MAX_ARGUMENTS = 8900
"""bwrap refuses more than 9000 arguments, those of files included (bubblewrap.c, MAX_ARGS); some are the
launcher's."""


def ignored_places(policy: ResolvedPolicy, plan: MountPlan) -> tuple[str, ...]:
    """The placeholders in which a `.gitignore` lies: few enough that there are descriptors for all."""
    files = policy.resources.files
    return ignored_directories(plan.placeholders)[
        : _MOST_GITIGNORES if files is None or files >= _LEAST_FILES else 0
    ]


def bwrap_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], *, count: int
) -> tuple[Artifact, ...]:
    """`launch` for bubblewrap, and its plan.

    `files` are the files that it checks and uses: the arguments, `count` of them, the filter, the plan of
    mounts.
    """
    launch = dataclasses.replace(
        common_plan(policy, plan, "bwrap"),
        ignored=ignored_places(policy, plan),
        repositories=plan.repositories,
        uncreatable=tuple((parent(each.path), each.path.rpartition("/")[2]) for each in plan.uncreatable),
        sockets=socket_plan(policy),
        shims=shim_plan(policy, "bwrap"),
        backstop=backstop_plan(policy, root="host"),
    )
    if any(each.name == "resolv.conf" for each in files):
        launch = dataclasses.replace(launch, names=placed_name_plan(policy))
    if count > MAX_ARGUMENTS:
        refused = (
            f"bubblewrap takes {MAX_ARGUMENTS} arguments, and this policy needs {count}: "
            "name fewer paths, or choose another method"
        )
        launch = dataclasses.replace(launch, refused=refused)
    purpose = "runs a command in the sandbox"
    return launch_program(policy, launch, files, purpose, inside=LAUNCH_INIT)
