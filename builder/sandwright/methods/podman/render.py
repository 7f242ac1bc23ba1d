"""Renders the artifacts from which Podman makes a sandbox."""

from __future__ import annotations

from sandwright.methods.shared.engine.render import render_engine
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_podman(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """Render the artifacts as `render_engine` does; callers keep their IDs inside, also without root."""
    return render_engine(policy, "podman")
