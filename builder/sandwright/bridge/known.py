"""git as a bridge begins with it: with the remotes that are known at its start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sandwright.bridge.git import Git
from sandwright.bridge.remotes import addresses, read_remotes
from sandwright.bridge.restricted import RestrictedGit
from sandwright.bridge.workspace import OpenWorkspace


def git_of(
    workspace: OpenWorkspace,
    repositories: Iterable[tuple[str, ...]],
    words: Iterable[str],
    directory: Path,
    *,
    loopback: bool,
    restricted: RestrictedGit,
) -> Git:
    """Git with the remotes that repositories have now, and the addresses among words of the policy.

    `directory` is ours; `loopback` as for `remotes.address`; `restricted` starts what parses
    the sandbox's objects.
    """
    scratch = directory / "scratch"
    scratch.mkdir()
    known = read_remotes(OpenWorkspace(workspace.root), repositories, scratch, loopback=loopback)
    return Git(workspace, known, addresses(words, loopback=loopback), directory, restricted)
