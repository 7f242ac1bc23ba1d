"""Renders the input of macOS' sandbox-exec: a profile, and the launcher that starts a command under it.

`seatbelt/README.md` lists the facts about Seatbelt. Nothing here was run on a Mac: profiles are
proved with the evaluator in `sandwright.evaluate.sbpl`.
"""

from __future__ import annotations

from sandwright.methods.seatbelt.launch import seatbelt_launcher
from sandwright.methods.seatbelt.profile import seatbelt_profile
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact


def render_seatbelt(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`profile.sb`, `variables.sh` and `launch`.

    The profile's parameter PROXY_PORT is the proxy's port on localhost. Facts of a Linux host give a profile
    too, for a look at it: paths keep their Linux names, but for those that lie elsewhere on every macOS
    (`/tmp`). Raise RenderError for a path that SBPL can't hold.
    """
    profile = seatbelt_profile(policy)
    return profile, *seatbelt_launcher(policy, profile)


__all__ = ["render_seatbelt"]
