"""What of the host a sandbox can write: what is looked at when a run of it has ended."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy import gitfiles
from sandwright.policy.autorun import NAMES
from sandwright.policy.declaration import Declaration
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unguarded
from sandwright.render.covers import git_directories

_TOLD = [each for each in NAMES if each.decision in ("protect", "existing", "report")]
"""What is named though a run may write it, and which tool uses it."""

_STATES = ("rebase-apply", "rebase-merge", "sequencer")
"""What Git on the host would continue in the main work tree; a run in a linked one has its own."""


def places(resolved: ResolvedPolicy, declaration: Declaration) -> dict[str, list[str]]:
    """The data of `session.scan`, the project first, and the names of `absent_guard`.

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
    tools = {each.path: each.tool for each in _TOLD if not each.path.startswith(".git/")}
    tools = {name: tools.get(name, "") for name in (*tools, *names, *configuration, *states)}
    tools = {name: tool for name, tool in tools.items() if not name.startswith(".git/")}
    return {
        "roots": sorted(roots, key=lambda path: (not is_inside(path, project), path)),
        "closed": [path for path in paths if not files.tree.changes_host(path)],
        "names": list(tools),
        "tools": list(tools.values()),
        "git": git if of_git else [],
        "absent": list(_absent(resolved, declaration)),
        "set_id": ["chmod"] if _makes_set_id(resolved, declaration) else [],
    }


def _makes_set_id(resolved: ResolvedPolicy, declaration: Declaration) -> bool:
    """Whether a sandbox can make set-user-id files: the profiles `strict` and `default` refuse the modes."""
    held = declaration.of("process.seccomp").level in ("exact", "stricter")
    return not held or resolved.settings.value("process.seccomp") not in ("strict", "default")


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _absent(resolved: ResolvedPolicy, declaration: Declaration) -> Iterator[str]:
    """The protected names outside the project that can be made under this method."""
    if declaration.of("filesystem.protect-elsewhere").level == "partly":
        project = resolved.canonical(resolved.facts.project)
        yield from (path for path, _ in unguarded(resolved) if not is_inside(path, project))
