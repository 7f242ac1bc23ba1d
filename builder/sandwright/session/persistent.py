"""Creates and removes the paths that a policy keeps between runs, below `$STATE` and `$CACHE`.

They are created once the policy is approved, before a sandbox is rendered. A grant is a directory. Read-only
paths in it exist from the first run on, so that no sandbox can create them: a file if the name has an
extension, else a directory. Files are empty, `{}` for JSON, or have the content in `CONTENTS`. No link is
followed, and existing files stay as they are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sandwright import user_dirs
from sandwright.errors import CommandFailed
from sandwright.methods.contract import Leftover
from sandwright.mountinfo import remove_tree
from sandwright.policy import spelling
from sandwright.policy.facts import KEPT, HostEntry, HostFacts, persistent_directories, private_home
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import is_inside
from sandwright.session import state
from sandwright.signalling import liveness

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

CONTENTS = {
    "codex/config.toml": (
        "# Written by sandwright. Codex's own sandbox cannot start in this one, which takes its place.\n"
        'sandbox_mode = "danger-full-access"\n'
    )
}
"""The content of new files below `$STATE`."""


def make_persistent(policy: MergedPolicy, project: str) -> bool:
    """Create missing paths; return whether there were any. Raise HostError where that fails."""
    found = missing(policy, project)
    for root, path, is_file in _entries_to_make(policy, project):
        _make_entry(root, path, is_file=is_file)
    return found and not missing(policy, project)


def missing(policy: MergedPolicy, project: str) -> bool:
    """Whether one of the paths does not exist yet."""
    return any(
        is_inside(path, root) and not os.path.lexists(path)
        for root, path, _ in _entries_to_make(policy, project)
    )


def with_persistent(facts: HostFacts, policy: MergedPolicy) -> HostFacts:
    """The facts as a run will find them after it has created the missing paths."""
    made = {
        path: HostEntry("file" if is_file else "directory")
        for _, path, is_file in _entries_to_make(policy, facts.project)
    }
    return facts.with_entries({path: entry for path, entry in made.items() if facts.kind(path) is None})


def _entries_to_make(policy: MergedPolicy, project: str) -> Iterator[tuple[str, str, bool]]:
    """Paths with the root that they are spelled with, and whether they are files."""
    values = persistent_directories(user_dirs.home(), project)
    if policy.settings.value("filesystem.home") == "private":
        path = private_home(user_dirs.home(), project)
        yield str(PurePosixPath(path).parent), path, False
    for name, is_file in (("filesystem.write", False), ("filesystem.readonly", True)):
        for item in policy.settings.items(name):
            root = next(
                (each for each in values if item.value.startswith((f"${each}/", f"${{{each}}}/"))), ""
            )
            if root:
                try:
                    path = spelling.expand_path(item.value, values)
                except ValueError:
                    continue  # resolving the policy says so, with its place
                yield values[root], path, is_file and bool(PurePosixPath(path).suffix)


def _make_entry(root: str, path: str, *, is_file: bool) -> None:
    if not is_inside(path, root):
        return
    *folders, last = path[len(root) + 1 :].split("/")
    try:
        with contextlib.ExitStack() as stack:
            folder = os.open(user_dirs.private(root, passed=True), _DIRECTORY)
            stack.callback(os.close, folder)
            for name in [*folders, *([] if is_file else [last])]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                folder = os.open(name, _DIRECTORY, dir_fd=folder)
                stack.callback(os.close, folder)
            if is_file:
                with contextlib.suppress(FileExistsError):
                    new = os.open(last, _NEW, 0o600, dir_fd=folder)
                    stack.callback(os.close, new)
                    empty = "{}\n" if last.endswith((".json", ".jsonc")) else ""
                    os.write(new, CONTENTS.get(path[len(root) + 1 :], empty).encode())
    except OSError as error:
        raise user_dirs.error(f"cannot create {path}: {error.strerror}") from error


def unused_caches() -> list[Leftover]:
    """The caches and private homes of all projects in which nothing runs."""
    folders = [Path(user_dirs.home(), KEPT, name) for name in ("caches", "homes")]
    found = sorted(str(path) for folder in folders if folder.is_dir() for path in folder.iterdir())
    used = _used_caches()
    kinds = {"caches": "cache", "homes": "home directory"}
    return [Leftover("session", kinds[Path(path).parent.name], path) for path in found if path not in used]


def _used_caches() -> set[str]:
    """The caches of projects in which a session may go on."""
    home, records = user_dirs.home(), state.read_all()
    return {
        path
        for each in records
        if liveness(each.process) != "ended"
        for path in (persistent_directories(home, each.project)["CACHE"], private_home(home, each.project))
    }


def remove_cache(path: str) -> bool:
    """Remove a cache; give False if a session uses it now. Raise HostError if some of it stays."""
    if path in _used_caches():
        return False

    try:
        remove_tree(path)
    except CommandFailed as error:
        raise user_dirs.error(f"cannot remove {path}: {error}") from error
    return True
