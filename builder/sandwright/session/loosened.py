"""Finds accesses that a policy allows on this machine, and the user's own policy does not."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.policy.collect import collect_facts
from sandwright.policy.loosening import Loosening, loosenings, without_command_line, without_project
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolve import resolve
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.trust import Loosened
from sandwright.visible import one_line


def loosened(
    policy: MergedPolicy,
    file: Path | str,
    *,
    cwd: Path | str | None = None,
    inputs: LiveHost | None = None,
) -> Loosened:
    """The grants of the policy in the project's file `file`. Raise the errors of resolving a policy.

    `cwd` and `inputs` are those of `collect_facts`.
    """
    project = Path(file).parent

    def here(each: MergedPolicy) -> ResolvedPolicy:
        facts = collect_facts(each, project=project, cwd=cwd, inputs=inputs, compared=mine)
        return resolve(each.settings, facts, compared=each is not mine)

    mine, baseline = without_command_line(policy), without_project(policy)
    found: tuple[Loosening, ...] = ()
    if mine.layers != baseline.layers:  # nothing is looser than itself
        ours, limit = here(mine), here(baseline)
        methods = (*ours.methods, *limit.methods)
        found = loosenings(
            ours, limit, remote=registry.remote(ours.methods), image_root=registry.image_root(methods)
        )
    project_data = [layer.document.data for layer in policy.layers if layer.kind == "project"]
    digest = hashlib.sha256(
        json.dumps(project_data, sort_keys=True).encode("utf-8", "surrogateescape")
    ).hexdigest()
    policy_path = os.path.join(os.path.realpath(project), Path(file).name)  # noqa: PTH118 - not where it leads
    return Loosened(policy_path, digest, tuple(one_line(str(each)) for each in found))
