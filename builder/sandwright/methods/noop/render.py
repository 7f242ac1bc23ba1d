"""Renders the method that enforces nothing, for those who named it: a launcher that says so each time."""

from __future__ import annotations

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.templates import render_template
from sandwright.visible import visible


def render_noop(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The launcher, which sets the policy's variables and nothing else."""
    text = render_template(
        "oci",
        "launchers/noop.sh.j2",
        set=[f"{name}={value}" for name, value in policy.environment.set.items()],
        reason=visible(policy.reason) or "no reason is given",
    )
    purpose = "runs a command with no sandbox at all, and says so"
    return (Artifact("launch", text.encode(), purpose, executable=True),)
