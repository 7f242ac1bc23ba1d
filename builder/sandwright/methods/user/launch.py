"""Renders the launcher of an account of the project's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import common_values, digests, script
from sandwright.render.mounts import MountPlan
from sandwright.render.templates import render_template


def account_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], values: Mapping[str, Any]
) -> tuple[Artifact, ...]:
    """`launch` for an account of the project's own, `enter`, and `watch` where there are covers.

    `files` are the artifacts that they check and use, `values` what their templates use beside the common.
    """
    common = common_values(policy, plan)
    limits = {"pids": policy.resources.pids, "files": policy.resources.files}
    own = {"runtime": False, "watched": bool(plan.covers), "never": [*common["never"], "HOME"]}
    every = {**common, **limits, **values, **own}
    enter = _account_script("enter", every, "becomes root of namespaces, then the account")
    watch: tuple[Artifact, ...] = ()
    if plan.covers:
        timeless = {**every, "time": None}
        watch = (script("watch", "watch", timeless, "cleans up after `launch`"),)
    checked = digests((*files, enter, *watch))
    launch = _account_script("launch", {**every, **checked}, "runs a command as the account")
    return enter, launch, *watch


def _account_script(name: str, values: Mapping[str, Any], purpose: str) -> Artifact:
    text = render_template("oci", f"account/{name}.sh.j2", **values)
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose, executable=True)
