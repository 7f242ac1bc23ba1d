"""Hints for commands of Git that can't do their work inside a sandbox."""

from __future__ import annotations

import os

from sandwright.session.scan_scope import ScanScope
from sandwright.session.session_record import RunHint

_CONFIGURING = {
    "config": ("",),
    "remote": ("add", "remove", "rm", "rename", "set-url", "set-head", "set-branches"),
    "submodule": ("add", "init", "update", "sync", "deinit", "set-url", "set-branch"),
}
"""Git commands that write its configuration, with the words that follow; after `config`, any words."""

_COMMITTING = ("commit", "tag", "merge", "rebase", "cherry-pick", "revert", "am", "pull", "stash")
"""Commands of Git that make commits or tags, which Git may want to sign."""

_WAY_OUT = (
    "cannot write Git's configuration inside, because it names programs that the host's Git runs: run this "
    "outside, or add filesystem.git: [config]"
)


_IN_WORKTREE = (
    "`git worktree add` in a linked worktree writes a path that leads to other worktrees, which is closed: "
    "run this outside"
)


def git_hint(argv: list[str], scope: ScanScope, unsigned: str) -> RunHint | None:
    """The hint for a command. `unsigned` is the reason why commits cannot be signed, empty if they can."""
    if os.path.basename(argv[0]) != "git":  # noqa: PTH119 - a word
        return None
    if argv[1:3] == ["worktree", "add"] and os.path.isfile(".git"):  # noqa: PTH113 - where we are
        return RunHint(text=_IN_WORKTREE)
    if not scope.git or scope.has_name(f"{scope.git[0]}/config".lstrip("/")):
        return None
    words = [word for word in argv[1:] if not word.startswith("-")]
    if any(word in _COMMITTING for word in words) and unsigned:
        return RunHint(text=unsigned)
    return _configuring(words, [word for word in argv[1:] if word.startswith("-")])


def _configuring(words: list[str], options: list[str]) -> RunHint | None:
    """The hint for a command that writes the read-only configuration. `git branch -u` still ends with 0."""
    if words[:1] == ["branch"] and any(each.startswith(("-u", "--set-up", "--unset-up")) for each in options):
        return RunHint(text=_WAY_OUT, always=True)
    writes_outside = any(
        each.startswith(("--g", "--sy", "--fi", "-f")) for each in options
    )  # --get, --global
    if words[:1] == ["config"] and (len(words) < 3 or writes_outside):
        return None
    second = words[1] if len(words) > 1 else ""
    writes = words and any(second.startswith(each) for each in _CONFIGURING.get(words[0], ()))
    return RunHint(text=_WAY_OUT) if writes else None
