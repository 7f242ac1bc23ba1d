"""A review workspace: a run that changes a copy of the project, until `sandwright apply` takes its changes.

The copy is a plain directory in the user's state (`workspace/`). The launcher mounts it at the project's
path in a new mount namespace (`launcher/source/workspace.c`), so every process that it starts sees the
copy, and the policy is resolved on the copy, too. Other paths that the policy makes writable stay live.

The policy's rules for the project itself are a `ReviewPlan`. The render cache keeps it while the answers
about the project are the same (`session.review_plan` makes it). A second entry has the sandbox over the copy.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sandwright import digests
from sandwright.documents.record import decode_record
from sandwright.errors import HostError
from sandwright.policy.paths import is_inside
from sandwright.policy.tree import PathTree
from sandwright.session import trust
from sandwright.session.entry import CacheEntry, entry_bytes
from sandwright.session.request import RunRequest
from sandwright.session.scan_scope import ScanScope
from sandwright.session.trust import Loosened
from sandwright.workspace.changes import changes
from sandwright.workspace.copying import Refreshed, refresh
from sandwright.workspace.store import DEFAULT, Workspace, locked, workspace_of

Notify = Callable[[str], None]

_NAMED = 5
"""The most conflicts that a run names."""


@dataclass(frozen=True, kw_only=True)
class ReviewPlan:
    """The rules of a policy about the project itself, before it is copied.

    `project` is its canonical path. `readable` and `denied` are the paths of rules, by kind.
    `creatable` are protected names that the project does not have, and that can be made in the copy.
    """

    project: str
    readable: tuple[str, ...]
    denied: tuple[str, ...]
    creatable: tuple[str, ...]
    loosened: Loosened


@dataclass(frozen=True)
class Review:
    """A workspace that is up to date and locked."""

    plan: ReviewPlan
    refreshed: Refreshed

    def report_live_paths(self, scope: ScanScope, notify: Notify) -> None:
        """Name writable paths outside the copy, and count the project's files that may have names there."""
        live = [each for each in scope.roots if not is_inside(each, self.plan.project)]
        live = [each for each in live if not scope.is_persistent(each)]
        linked = self.refreshed.linked
        if live:
            notify(f"not copied, so changes there take effect at once: {', '.join(live)}")
        if live and linked:
            counted = "1 file of the project has" if linked == 1 else f"{linked} files of the project have"
            notify(f"hard links: {counted} other names; writing to one there changes the project")


@contextmanager
def review_workspace(request: RunRequest, entry: CacheEntry, notify: Notify) -> Iterator[Review]:
    """Bring the request's workspace up to date by a plan's entry; hold its lock while the run goes on.

    At the end, report how many changes wait for review. Raise SandwrightError for a policy that is not
    approved, and for a workspace that another run uses.
    """
    plan = decode_record(ReviewPlan, entry.sandbox or "")
    trust.require_approval(plan.loosened, word=request.trusted)
    request.workspace = request.workspace or DEFAULT
    workspace = workspace_of(plan.project, request.workspace)
    with locked(workspace, exclusive=True):
        refreshed = refresh(workspace, hidden_paths(plan))
        for path, reason in refreshed.left_out:
            notify(f"workspace {workspace.name}: {os.fsdecode(path)} was not copied: {reason}")
        _report_conflicts(workspace, refreshed.conflicts, notify)
        request.copies, request.creatable = {plan.project: workspace.tree}, plan.creatable
        request.plan = digests.sha256(entry_bytes(entry))
        yield Review(plan, refreshed)
        _report_changes(workspace, notify)


def hidden_paths(plan: ReviewPlan) -> Callable[[str], bool]:
    """A predicate that is true of an absolute path if the policy denies it and everything below it."""
    tree: PathTree[bool] = PathTree(str)  # on Linux, a name is the same file as no other
    for paths, is_readable in ((plan.readable, True), (plan.denied, False)):
        for path in paths:
            tree.add(path, is_readable)

    def is_hidden(path: str) -> bool:
        decided = [values[-1] for _, values in tree.prefixes(path)]
        return not (decided and decided[-1]) and not tree.has_inside(path)

    return is_hidden


def _report_conflicts(workspace: Workspace, conflicts: Sequence[bytes], notify: Notify) -> None:
    if conflicts:
        names = [os.fsdecode(path) for path in sorted(conflicts)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        message = "changed in the project, too, so the copy keeps its version"
        notify(f"workspace {workspace.name}: {message}: {', '.join(names[:_NAMED])}{more}")


def _report_changes(workspace: Workspace, notify: Notify) -> None:
    try:
        found = changes(workspace, reads_new=False)
    except HostError as error:
        notify(f"workspace {workspace.name}: cannot list its changes: {error}")
        return
    option = "" if workspace.name == DEFAULT else f" --workspace {workspace.name}"
    if found:
        count = f"{len(found)} change{'s' * (len(found) != 1)}"
        notify(f"workspace {workspace.name}: {count} to review: `sandwright changes{option}`")
