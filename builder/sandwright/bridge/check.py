"""Decides a call as the bridge would, without a bridge, by the same functions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sandwright import user_dirs
from sandwright.bridge.access import WorkspaceAccess, entries
from sandwright.bridge.gh import check_repositories
from sandwright.bridge.git import git_with_initial_remotes
from sandwright.bridge.grammar import Grammar, Refused
from sandwright.bridge.programs import kept_always
from sandwright.bridge.remotes import github_repository, repositories
from sandwright.bridge.restricted import RestrictedGit, write_restriction
from sandwright.bridge.workspace import OpenWorkspace
from sandwright.policy.resolved import ResolvedPolicy


def decide_call(
    policy: ResolvedPolicy, grammars: Mapping[str, Grammar], words: Sequence[str], directory: Path
) -> list[str]:
    """The arguments that the program would get for a call in a directory; files as `<path>`.

    A directory outside of the project counts as the project. Only git is run, to read remotes from a copy of
    a repository's configuration. Raise Refused if the bridge would refuse.
    """
    if words[0] not in grammars:
        raise Refused(f"the policy names no shim {words[0]}")
    call = grammars[words[0]].parse(words[1:])
    project = Path(policy.canonical(policy.facts.project))
    access = WorkspaceAccess(entries(policy, str(project)))
    workspace = OpenWorkspace(project, access)
    inside = directory.resolve().is_relative_to(workspace.root)
    parts = workspace.relative(str(directory.resolve())) if inside else ()
    messages = []
    with TemporaryDirectory(dir=user_dirs.scratch()) as scratch, workspace.directory(parts):
        if call.form is not None:
            remotes = repositories(project, functools.partial(kept_always, policy))
            allowed = [word for each in grammars.values() for entry in each.entries for word in entry.words]
            loopback = policy.network.mode != "host"
            restricted = RestrictedGit(write_restriction(Path(scratch)))
            git = git_with_initial_remotes(
                workspace, remotes, allowed, Path(scratch), loopback=loopback, restricted=restricted
            )
            if call.program == "git":
                git.understood(call, parts)
            else:
                origin = github_repository(git.remotes(parts))
                check_repositories(call, origin, grammars[call.program].entries)
        for word in call.words():
            if isinstance(word, tuple):
                with workspace.file(workspace.below(parts, word[1].path)):
                    messages.append(f"{word[0]}<{word[1].path}>")
            else:
                messages.append(word)
    return messages
