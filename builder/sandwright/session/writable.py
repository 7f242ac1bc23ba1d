"""Finds the paths of the host that a sandbox can write: the scope of the scan after a run."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy.autorun import NAMES
from sandwright.policy.declaration import Declaration
from sandwright.policy.git_protection import CONFIGURATION
from sandwright.policy.paths import below, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.uses import unprotected_names
from sandwright.render.placeholders import git_directories
from sandwright.session.scan_scope import ProtectedName, ScanScope

_REPORTED = [each for each in NAMES if each.decision in ("protect", "existing", "report")]
"""Paths that are reported although a run may write them, and the tool that uses each."""

_REPORTED_IN_GIT = [each.path for each in _REPORTED if each.decision != "protect"]
"""The paths that count in a Git directory; its protected names are closed."""

_STATES = ("rebase-apply", "rebase-merge", "sequencer")
"""The state of operations that Git on the host would continue: it names commands, and programs as merge
strategies. A run in a linked work tree has separate ones; those of the main work tree count.
"""


def scan_scope(resolved: ResolvedPolicy, declaration: Declaration) -> ScanScope:
    """The scope of a policy under a method."""
    if not declaration.enforces:
        return ScanScope()
    files, facts = resolved.filesystem, resolved.facts
    project = resolved.canonical(facts.project)
    paths = dict.fromkeys(rule.path for rule in files.rules if not rule.private)
    persistent = tuple(resolved.canonical(facts.variables[name]) for name in ("STATE", "CACHE"))
    roots = [path for path in paths if files.tree.changes_host(path)]
    protected = [item.value for item in resolved.settings.items("filesystem.protect")]
    git = git_directories(resolved) if any(name.startswith(".git/") for name in protected) else ()
    return ScanScope(
        roots=tuple(sorted(roots, key=lambda path: (not is_inside(path, project), path))),
        closed=tuple(
            path for path in paths if _is_closed(files.tree.deciding(path)[0], resolved, declaration)
        ),
        names=(*_protected_names_of(resolved, protected), *_open_names(resolved, protected, declaration)),
        git=tuple(git),
        absent=tuple(_absent_names(resolved, declaration)),
        set_id=_makes_set_id(resolved, declaration),
        persistent=persistent,
    )


def _is_closed(rule: PathRule, resolved: ResolvedPolicy, declaration: Declaration) -> bool:
    """Whether the method keeps the path from being written, which `accept_gaps` may do without."""
    feature = "readonly" if rule.kind != "deny" else "deny-inside"
    feature = "protect" if rule.origin == "protected" else feature
    held = declaration.of(f"filesystem.{feature}").level != "cannot"
    return held and not resolved.filesystem.tree.changes_host(rule.path)


def _open_names(
    resolved: ResolvedPolicy, protected: list[str], declaration: Declaration
) -> Iterator[ProtectedName]:
    """Git's protected files, and those that its configuration names, if the method can't protect them."""
    if declaration.of("filesystem.protect").level != "cannot":
        return
    for protection in resolved.filesystem.protections:
        for name in (each.value for each in protection.names):
            if name.startswith(".git/") or name not in protected:
                for root in protection.roots:
                    yield ProtectedName(name=below(root, name).lstrip("/"), tool="Git")


def _protected_names_of(resolved: ResolvedPolicy, protected: list[str]) -> Iterator[ProtectedName]:
    worktree = resolved.facts.git_worktree
    opened = CONFIGURATION if resolved.grants_git("config") else ()
    git = git_directories(resolved)
    continued = worktree[1:] or git
    states = [f"{each}/{name}".lstrip("/") for each in continued for name in _STATES]
    configuration = [f"{each}/{name}".lstrip("/") for each in git for name in map(_last_component, opened)]
    tools = {each.path: each.tool for each in _REPORTED}
    for name in dict.fromkeys((*tools, *protected, *configuration, *states)):
        if not name.startswith(".git/") or name in _REPORTED_IN_GIT:
            yield ProtectedName(name=name, tool=tools.get(name, ""))


def _makes_set_id(resolved: ResolvedPolicy, declaration: Declaration) -> bool:
    """Whether a sandbox can make set-user-id files: the profiles `strict` and `default` refuse the modes."""
    held = declaration.of("process.seccomp").level in ("exact", "stricter")
    return not held or resolved.settings.value("process.seccomp") not in ("strict", "default")


def _last_component(path: str) -> str:
    return path.rpartition("/")[2]


def _absent_names(resolved: ResolvedPolicy, declaration: Declaration) -> Iterator[str]:
    """The protected names outside the project that can be made under this method."""
    if declaration.of("filesystem.protect-elsewhere").level == "partly":
        project = resolved.canonical(resolved.facts.project)
        yield from (path for path, _ in unprotected_names(resolved) if not is_inside(path, project))
