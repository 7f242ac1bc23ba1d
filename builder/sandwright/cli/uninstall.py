"""`sandwright uninstall`: removes sandwright's files from the user's home and from the runtime directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.cli import console
from sandwright.errors import CommandFailed, HostError
from sandwright.methods.user.render import ACCOUNTS
from sandwright.mountinfo import refuse_mounts, remove_tree
from sandwright.session import state
from sandwright.signalling import liveness

_COUNTING = 600.0
"""Seconds."""

NOT_DONE = 3
"""The exit status after only listing."""


def uninstall(*, yes: bool = False) -> int:
    """List the user's files of sandwright; with `yes`, remove them.

    Raise HostError, and remove nothing, while sessions run, or where something is mounted in them.
    """
    recorded = state.read_all() if Path(user_dirs.runtime()).is_dir() else []  # reading makes the directory
    running = [each.session for each in recorded if liveness(each.process) != "ended"]
    if running:
        raise HostError(f"sessions run: {', '.join(running)}; end them with `sandwright stop SESSION`")
    found = list(_removable_directories())
    for path, purpose in found:
        console.line(f"{path}: {purpose}, {console.size(_bytes_in(path))}")
    for line in _other_remains():
        console.line(line)
    if yes:
        _remove_empty_scratch()
    if not found:
        console.line("nothing of sandwright is in your home directory")
        return 0
    if not yes:
        console.warn("nothing was removed; add --yes to remove these directories")
        return NOT_DONE
    for path, _ in found:
        refuse_mounts(path)
    for path, _ in found:
        try:
            remove_tree(path)
        except CommandFailed as error:
            raise HostError(f"cannot remove {path}: {error}") from error
    console.line(f"removed {console.counted(len(found), 'directory')}")
    return 0


def _remove_empty_scratch() -> None:
    """Trials and proofs that go on have directories in it; `cleanup` removes those of killed ones."""
    scratch = Path(user_dirs.visible_scratch_path(os.geteuid()))
    with contextlib.suppress(OSError):
        if scratch.lstat().st_uid == os.geteuid():
            scratch.rmdir()


def _removable_directories() -> Iterator[tuple[Path, str]]:
    """The user's directories that exist, each with its purpose. No link is followed."""
    home = Path(user_dirs.home())
    named = {
        Path(user_dirs.cache()).parent: "rendered sandboxes, downloads, unpacked images, logs",
        Path(user_dirs.runtime()): "records of sessions",
        home / user_dirs.STATE: "state of agents, caches and home directories of projects, keys",
        home / ".local/share/sandwright": "images that were built without a checkout",
        Path(user_dirs.config()): "your policy and approvals",
    }
    for path, purpose in named.items():
        if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.geteuid():
            yield path, purpose


def _bytes_in(directory: Path) -> int:
    """By du(1): a program inside can make paths that are too deep for Python, or too long for the kernel."""
    found = process.run("du", "-sk", "--", directory, timeout=_COUNTING, check=False)
    kibibytes, _, _ = found.text.partition("\t")
    return 1024 * int(kibibytes) if kibibytes.isdecimal() else 0


def _other_remains() -> Iterator[str]:
    """The remaining files, with the way to remove them."""
    with contextlib.suppress(OSError):
        if any(Path(ACCOUNTS).iterdir()):
            yield f"{ACCOUNTS} stays: remove each account with `sandwright account-remove` in its project"
    yield "sandbox.yaml and .sandbox of projects, images in engines and registries, and the program stay"
