"""Makes and removes what a policy keeps between runs, below `$STATE` and `$CACHE`.

It is made before the host is looked at. A grant is a directory. What stays read-only in it is there from
the first run on, so that no sandbox can make it: a file where the name has an ending, else a directory. No
link is followed, and what is there stays as it is.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path, PurePosixPath

from sandwright import places
from sandwright.methods.contract import Leftover
from sandwright.policy import spelling
from sandwright.policy.facts import KEPT, kept
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import is_inside
from sandwright.session import state
from sandwright.signalling import liveness

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make(policy: MergedPolicy, project: str) -> None:
    """Make what is missing. Raise HostError for what can't be made, or is in the way."""
    values = kept(places.home(), project)
    for name, is_file in (("filesystem.write", False), ("filesystem.readonly", True)):
        for item in policy.settings.items(name):
            place = next(
                (each for each in values if item.value.startswith((f"${each}/", f"${{{each}}}/"))), ""
            )
            if place:
                try:
                    path = spelling.expanded(item.value, values)
                except ValueError:
                    continue  # resolving the policy says so, with its place
                _make(values[place], path, is_file=is_file and bool(PurePosixPath(path).suffix))


def _make(root: str, path: str, *, is_file: bool) -> None:
    if not is_inside(path, root):
        return
    *folders, last = path[len(root) + 1 :].split("/")
    try:
        with contextlib.ExitStack() as stack:
            folder = os.open(places.private(root, passed=True), _DIRECTORY)
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
                    os.write(new, b"{}\n" * last.endswith((".json", ".jsonc")))
    except OSError as error:
        raise places.error(f"{path} can't be made: {error.strerror}") from error


def unused_caches() -> list[Leftover]:
    """The caches of all projects in which nothing runs."""
    home = places.home()
    folder = Path(home, KEPT, "caches")
    found = sorted(map(str, folder.iterdir())) if folder.is_dir() else []
    used = _used_caches()
    return [Leftover("session", "cache", path) for path in found if path not in used]


def _used_caches() -> set[str]:
    """Those of projects in which a session may go on."""
    home, records = places.home(), state.read_all()
    return {kept(home, str(data["project"]))["CACHE"] for data in records if liveness(data) != "ended"}


def remove_cache(path: str) -> bool:
    """Remove a cache; give False where a session uses it by now. Raise HostError when some of it stays."""
    if path in _used_caches():
        return False
    from sandwright import process  # noqa: PLC0415 - rarely needed
    from sandwright.errors import CommandFailed  # noqa: PLC0415

    try:
        process.remove_tree(path)
    except CommandFailed as error:
        raise places.error(f"{path} can't be removed: {error}") from error
    return True
