"""A review workspace: a run that changes a copy of the project, until `sandwright apply` takes its changes.

The copy is a plain directory in the user's state (`workspace/`). The launcher mounts it at the project's
path in a new mount namespace (`launcher/source/workspace.c`), so every process that it starts sees the
copy, and the policy is resolved on the copy, too. Other paths that the policy makes writable stay live.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sandwright import user_dirs
from sandwright.errors import HostError, UsageError
from sandwright.inputs import LiveHost
from sandwright.methods.registry import declaration
from sandwright.policy.paths import below, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRules
from sandwright.policy.uses import unprotected_names
from sandwright.session import trust
from sandwright.session.loosened import loosened
from sandwright.session.prepare import load_layers, prepare, resolved_here
from sandwright.session.render_cache import CachedSandbox
from sandwright.session.request import RunRequest
from sandwright.workspace.changes import changes
from sandwright.workspace.copying import refresh
from sandwright.workspace.store import DEFAULT, Workspace, locked, workspace_of

Notify = Callable[[str], None]


@contextmanager
def review_workspace(request: RunRequest, notify: Notify) -> Iterator[CachedSandbox | None]:
    """Bring the request's workspace up to date, and prepare a sandbox over it; hold its lock meanwhile.

    None for a run that changes the project itself. At the end, report how many changes wait for review. Raise
    SandwrightError, as `prepare` does, for a method that shows no copy, and for a workspace that another run
    uses.
    """
    user_dirs.private(user_dirs.cache())  # a sandbox has none: that a run is inside one is its first error
    if not request.workspace and load_layers(request, LiveHost()).settings.value("workspace") != "review":
        yield None
        return
    request.workspace = request.workspace or DEFAULT
    resolved = _resolved_live(request)
    project = resolved.canonical(resolved.facts.project)
    _check_copyable(resolved, project)
    workspace = workspace_of(project, request.workspace)
    with locked(workspace, exclusive=True):
        refreshed = refresh(workspace, partial(_is_path_hidden, resolved.filesystem.tree))
        for path, reason in refreshed.left_out:
            notify(f"workspace {workspace.name}: {os.fsdecode(path)} was not copied: {reason}")
        request.copies, request.creatable = {project: workspace.tree}, _creatable_names(resolved, project)
        prepared = prepare(request, notify)
        _check_method(prepared)
        _report_live_paths(prepared, project, refreshed.linked, notify)
        yield prepared
        _report_changes(workspace, notify)


def _resolved_live(request: RunRequest) -> ResolvedPolicy:
    """The policy on the project itself, once it is approved: what it denies is not copied."""
    inputs = LiveHost()
    policy = load_layers(request, inputs)
    trust.require_approval(
        loosened(policy, request.policy, cwd=request.cwd, inputs=inputs), word=request.trusted
    )
    return resolved_here(policy, request, inputs)


def _is_path_hidden(rules: PathRules, path: str) -> bool:
    """Whether the policy denies a path, and allows nothing in it."""
    return not rules.allows("read", path) and not rules.decides_inside(path)


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


def _check_method(prepared: CachedSandbox) -> None:
    support = declaration(prepared.method).of("workspace")
    if support.level != "exact":
        raise UsageError(f"{prepared.method} has no review workspace: {support.reason}")
    if prepared.start.needs_bridge:
        raise UsageError(
            "credentials.shims and credentials.signing: programs of the bridge run in the project itself, "
            "not in a copy"
        )


def _report_live_paths(prepared: CachedSandbox, project: str, linked: int, notify: Notify) -> None:
    scope = prepared.record.after.scope
    live = [each for each in scope.roots if not is_inside(each, project) and not scope.is_persistent(each)]
    if live:
        notify(f"not in the workspace, so changed at once: {', '.join(live)}")
    if live and linked:
        counted = f"{linked} file{'s' * (linked != 1)} of the project"
        notify(
            f"hard links: {counted} can be changed by names elsewhere, if one is in a directory that is live"
        )


def _report_changes(workspace: Workspace, notify: Notify) -> None:
    try:
        found = changes(workspace)
    except HostError as error:
        notify(f"workspace {workspace.name}: its changes can't be listed: {error}")
        return
    option = "" if workspace.name == DEFAULT else f" --workspace {workspace.name}"
    if found:
        count = f"{len(found)} change{'s' * (len(found) != 1)}"
        notify(f"workspace {workspace.name}: {count} to review: `sandwright changes{option}`")
