"""Renders the method that enforces nothing: its launcher prints a warning at each start."""

from __future__ import annotations

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.shell import plain_script, variables
from sandwright.visible import visible


def render_noop(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The launcher, which sets the policy's variables and nothing else, and these variables."""
    values = variables(
        {
            "reason": visible(policy.reason) or "no reason is given",
            "settings": [f"{name}={value}" for name, value in policy.environment.set.items()],
        }
    )
    purpose = "runs a command with no sandbox at all, and says so"
    return values, plain_script("oci", "launchers/noop.sh", name="launch", values=values, purpose=purpose)
