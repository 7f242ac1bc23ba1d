"""Renders the artifacts from which runc and crun make a sandbox."""

from __future__ import annotations

from sandwright.methods.shared.runtime_spec.render import render_runtime
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_oci(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """Render the artifacts as `render_runtime` does for any runtime."""
    return render_runtime(policy, gvisor=False)
