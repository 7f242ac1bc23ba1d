"""What of the host a sandbox can write: what is looked at when a run of it has ended."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy import gitfiles
from sandwright.policy.declaration import Declaration
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unguarded
from sandwright.render.covers import git_directories

_NAMED = ("sandbox.yaml", ".gitmodules", "opencode.json", "opencode.jsonc", ".aider.conf.yml")
"""Names that are told of though a run may write them: a policy; where Git gets submodules from, which it asks
only `git submodule` for; settings of agents, who would fail inside over a directory in their place."""

_STATES = ("rebase-apply", "rebase-merge", "sequencer")
"""What Git on the host would continue in the main work tree; a run in a linked one has its own."""


def places(resolved: ResolvedPolicy, declaration: Declaration) -> dict[str, list[str]]:
    """The data of `left_behind.Places`, the project first, and the names of `elsewhere`.

    Nothing where there is no sandbox.
    """
    if not declaration.enforces:
        return {"roots": [], "closed": [], "names": [], "git": [], "absent": []}
    files, facts = resolved.filesystem, resolved.facts
    project = resolved.canonical(resolved.facts.project)
    paths = dict.fromkeys(rule.path for rule in files.rules if not rule.private)
    roots = [path for path in paths if files.tree.changes_host(path)]
    names = [item.value for item in resolved.settings.items("filesystem.protect")]
    git = list(git_directories(resolved))
    opened = gitfiles.CONFIGURATION if resolved.grants_git("config") else ()
    states = [f"{facts.git_worktree[1]}/{name}".lstrip("/") for name in _STATES] if facts.git_worktree else []
    configuration = [f"{each}/{name}".lstrip("/") for each in git for name in map(_last, opened)]
    of_git = any(name.startswith(".git/") for name in names)
    return {
        "roots": sorted(roots, key=lambda path: (not is_inside(path, project), path)),
        "closed": [path for path in paths if not files.tree.changes_host(path)],
        "names": [
            *(name for name in names if not name.startswith(".git/")),
            *_NAMED,
            *configuration,
            *states,
        ],
        "git": git if of_git else [],
        "absent": list(_absent(resolved, declaration)),
    }


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _absent(resolved: ResolvedPolicy, declaration: Declaration) -> Iterator[str]:
    """The protected names outside the project that can be made under this method."""
    if declaration.of("filesystem.protect-elsewhere").level == "partly":
        project = resolved.canonical(resolved.facts.project)
        yield from (path for path, _ in unguarded(resolved) if not is_inside(path, project))
