"""Says before aider starts that Git knows nobody who commits: it wants to write somebody into .git/config."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.inputs import InputTracker
from sandwright.policy import gitconfig
from sandwright.policy.resolved import ResolvedPolicy

NEEDS = ("aider",)
"""The agents that end where nobody is known. Others' commits fail, and Git says why."""

_KEYS = {"user.name", "user.email"}
_ADD = '; and show it inside: filesystem.read: ["...", ~/.gitconfig]'


def unknown(agent: str, policy: ResolvedPolicy, inputs: InputTracker, *, own_root: bool) -> str:
    """What to do first where no configuration inside names the user; empty for others, and without Git.

    `own_root`: the root is an image's, where the host's files are seen that the policy lists. Configuration
    that includes other files is taken to name the user.
    """
    named = set(_named(policy, inputs, own_root=own_root))
    if agent not in NEEDS or not policy.facts.git_directories or named >= _KEYS:
        return ""
    return (
        f"Git knows no user.name and user.email inside: {agent} wants to write them into .git/config, which "
        "nothing inside may, and ends; first, outside: git config --global user.name NAME; "
        f"git config --global user.email ADDRESS{_ADD if own_root else ''}"
    )


def _named(policy: ResolvedPolicy, inputs: InputTracker, *, own_root: bool) -> Iterator[str]:
    for path in _files(policy, own_root=own_root):
        for key, value in gitconfig.settings(str(inputs.ask("text", path) or "")):
            if gitconfig.is_include(key):
                yield from _KEYS
            elif value:
                yield key


def _files(policy: ResolvedPolicy, *, own_root: bool) -> Iterator[str]:
    """The configuration of Git that is seen inside."""
    facts, listed = policy.facts, {rule.path for rule in policy.filesystem.rules}
    for path in (f"{facts.home}/.gitconfig", f"{facts.home}/.config/git/config", "/etc/gitconfig"):
        deciding = policy.filesystem.tree.deciding(path)
        if (path in listed or not own_root) and deciding and deciding[0].readable:
            yield path
    for folder in (*facts.git_directories, *facts.git_worktree[1:2]):
        yield f"{folder}/config"
