"""Renders what Podman makes a sandbox of."""

from __future__ import annotations

from sandwright.methods.shared.engine.render import render_engine
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_podman(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """What `render_engine` makes for any engine; callers keep their numbers inside, also without root."""
    return render_engine(policy, "podman")
