"""Makes the plan of a review: the rules of a policy about the project itself (`session.review`).

The policy is loaded and resolved on the project, and has to be approved. The plan goes into the render cache,
with every question to the host that decided it.
"""

from __future__ import annotations

import os
from pathlib import Path

from sandwright import user_dirs
from sandwright.documents.record import encode_record
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.policy.paths import below, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unprotected_names
from sandwright.session import persistent, render_cache, trust
from sandwright.session.entry import CacheEntry, question_words
from sandwright.session.loosened import loosened
from sandwright.session.prepare import RENDERED, ask_program, load_layers, resolved_here
from sandwright.session.request import RunRequest
from sandwright.session.review import ReviewPlan
from sandwright.session.trust import Loosened


def make_plan(request: RunRequest) -> CacheEntry | None:
    """The entry of a request's plan, None for a run that changes the project itself.

    Raise SandwrightError for faults in the policy, and for a project that cannot be reviewed.
    """
    user_dirs.private(user_dirs.cache())  # a sandbox has none: that a run is inside one is its first error
    inputs = LiveHost()
    policy = load_layers(request, inputs)
    if not request.workspace and policy.settings.value("workspace") != "review":
        return None
    found = loosened(policy, request.policy, cwd=request.cwd, inputs=inputs)
    trust.require_approval(found, word=request.trusted)
    if persistent.make_persistent(policy, str(Path(request.policy).parent)):
        return make_plan(request)  # directories were made: the answers recorded so far are stale
    resolved = resolved_here(policy, request, inputs)
    plan = _plan(resolved, found)
    _check_copyable(resolved, plan.project)
    _ask_rendered(Path(request.policy).parent / RENDERED, inputs)
    ask_program(inputs)
    entry = CacheEntry(questions=question_words(inputs.recording()), sandbox=encode_record(plan).decode())
    if not inputs.is_racy():
        render_cache.store_entry(request.plan_identity(), entry)
    return entry


def _plan(resolved: ResolvedPolicy, found: Loosened) -> ReviewPlan:
    project = resolved.canonical(resolved.facts.project)
    rules = dict.fromkeys(rule.path for rule in resolved.filesystem.rules)
    near = [path for path in rules if is_inside(path, project) or is_inside(project, path)]
    tree = resolved.filesystem.tree
    return ReviewPlan(
        project=project,
        readable=tuple(path for path in near if tree.allows("read", path)),
        denied=tuple(path for path in near if not tree.allows("read", path)),
        creatable=_creatable_names(resolved, project),
        loosened=found,
    )


def _creatable_names(resolved: ResolvedPolicy, project: str) -> tuple[str, ...]:
    """Protected names that the project does not have. They can be made in the copy: `apply` holds them back.

    Not those in a repository, as Git inside would read them, and not those that are protected always.
    """
    git = resolved.facts.git_directories
    paths = {below(project, "HEAD"): None} | {
        path: None
        for path, source in unprotected_names(resolved)
        if is_inside(path, project)
        and source.layer not in ("built-in", "floor")
        and not any(is_inside(path, each) for each in git)
    }
    return tuple(paths)


def _check_copyable(resolved: ResolvedPolicy, project: str) -> None:
    if user_dirs.holds_home(project):
        raise UsageError(f"{project} holds your whole home directory: a review workspace would copy it")
    if resolved.facts.git_worktree:
        raise UsageError(
            f"{project} is a linked work tree, whose repository is elsewhere and would stay live: use a "
            "review workspace in the main work tree"
        )


def _ask_rendered(folder: Path, inputs: LiveHost) -> None:
    """Ask about the artifacts in the project, which a run compares with the policy."""
    inputs.ask("listing", str(folder))
    inputs.ask("tree", *(each for each, _, _ in os.walk(folder)))
