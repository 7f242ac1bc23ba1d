"""Renders the artifacts from which Docker makes a sandbox."""

from __future__ import annotations

from sandwright.methods.shared.engine.render import render_engine
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_docker(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """Render the artifacts as `render_engine` does for any engine."""
    return render_engine(policy, "docker")
