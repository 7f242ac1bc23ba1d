"""Plans the launcher of an account of the project's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sandwright.launcher.plan import UserPlan
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.hostnames import name_plan
from sandwright.render.landlock_backstop import backstop_plan
from sandwright.render.launcher import common_plan, launch_program
from sandwright.render.mounts import MountPlan


def account_launcher(
    policy: ResolvedPolicy,
    plan: MountPlan,
    files: Sequence[Artifact],
    *,
    name: str,
    directory: str,
    start: str,
    settings: Mapping[str, str],
    home: str,
) -> tuple[Artifact, ...]:
    """`launch` and its plan for the account of a name, whose runs have their root at `directory`.

    `files` are the artifacts that it checks and uses.
    """
    common = common_plan(policy, plan, "user")
    launch = dataclasses.replace(
        common,
        repositories=plan.repositories,
        never=(*common.never, "HOME"),
        project=common.project if plan.placeholders else None,
        user=UserPlan(
            account=name,
            root=directory,
            start_directory=start,
            settings=tuple(f"{name}={value}" for name, value in settings.items()),
            network=policy.network.mode == "none",
        ),
        names=name_plan(policy),
        backstop=backstop_plan(policy, root="host", home=home),
    )
    return launch_program(policy, launch, files, "runs a command as the account")
