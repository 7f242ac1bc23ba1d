"""Makes what a policy keeps between runs, below `$STATE` and `$CACHE`, before the host is looked at.

A grant there is a directory. What stays read-only in it is there from the first run on, so that no sandbox
can make it: a file where the name has an ending, else a directory. No link is followed, and what is there
stays as it is.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import PurePosixPath

from sandwright import places
from sandwright.policy import spelling
from sandwright.policy.facts import kept
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import is_inside

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
                path = spelling.expanded(item.value, values)
                _make(values[place], path, is_file=is_file and bool(PurePosixPath(path).suffix))


def _make(root: str, path: str, *, is_file: bool) -> None:
    if not is_inside(path, root):
        return
    *folders, last = path[len(root) + 1 :].split("/")
    try:
        with contextlib.ExitStack() as stack:
            folder = os.open(places.private(root), _DIRECTORY)
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
                    os.write(new, b"{}\n" * last.endswith(".json"))
    except OSError as error:
        raise places.error(f"{path} can't be made: {error.strerror}") from error
