"""Renders the artifacts from which gVisor's runsc makes a sandbox."""

from __future__ import annotations

from sandwright.errors import RenderError
from sandwright.methods.gvisor.outer.render import render_in_engine
from sandwright.methods.gvisor.threads import refuse_few_threads
from sandwright.methods.shared.runtime_spec.render import render_runtime
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_gvisor(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """Render the artifacts with `render_runtime` for runsc, or with `render_in_engine` for `gvisor.engine`.

    With `network.mode: proxy` it runs with `--network=host` in a network namespace that `launch` makes, which
    has a loopback and no other interface: the session passes in the port that leads to the proxy.
    """
    if policy.gvisor_engine != "none":
        return render_in_engine(policy)
    refuse_few_threads(policy, "gVisor")
    _refuse_special_files(policy)
    return render_runtime(policy, gvisor=True)


def _refuse_special_files(policy: ResolvedPolicy) -> None:
    """Raise RenderError for a grant that runsc can't mount, in words that name it."""
    names = {"fifo": "a FIFO", "device": "a device"}
    for rule in policy.filesystem.rules:
        granted = rule.origin == "listed" and rule.readable and not rule.private
        kind = policy.facts.kind(rule.path) if granted else None
        if kind in names:
            raise RenderError(
                f"{rule.source}: {rule.kind} {rule.written or rule.path}: {names[kind]}, "
                "and gVisor mounts files and directories only: choose another method, or leave it out"
            )
