"""The commands below the heading "review workspaces"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import JSON, POLICY

GROUP = "review workspaces"

_WORKSPACE = Option("workspace", "NAME", "name of the workspace (default: default)")
_PATHS = Option("path", "PATH", "file or directory of the project (default: all changes)", repeatable=True)

COMMANDS = (
    Command(
        "changes",
        GROUP,
        "List the changes of runs in the copy of the project, and those that `apply` would hold back.",
        positional=(_PATHS,),
        options=(
            Option("diff", "", "print the changes as a unified diff, for a pager"),
            Option("html", "FILE", "also write a page with all changes and diffs", written=True),
            _WORKSPACE,
            POLICY,
            JSON,
        ),
        details="Runs no program of the host, so neither Git's filters nor an editor read the copy.",
        example="sandwright changes --diff src",
    ),
    Command(
        "apply",
        GROUP,
        "Apply changes of a workspace to the project.",
        positional=(_PATHS,),
        options=(
            Option("held", "", "also apply the named paths that would be held back"),
            Option("interactive", "", "ask for each file and hunk", short="i"),
            _WORKSPACE,
            POLICY,
        ),
        details="Holds back files that programs on the host run by themselves, such as hooks and editor"
        " settings. A file that also changed in the project is a conflict: the project keeps its version."
        " Exits with 12 if something was not applied.",
        example="sandwright apply src tests",
    ),
    Command(
        "discard",
        GROUP,
        "Remove a workspace with all changes that were not applied.",
        options=(Option("yes", "", "do not ask"), _WORKSPACE, POLICY),
        details="Without --yes, asks on a terminal, and otherwise exits with 3.",
        example="sandwright discard --yes",
    ),
    Command(
        "undo",
        GROUP,
        "Revert an `apply`: restore the project's files.",
        positional=(Option("number", "N", "number that `apply` printed (default: the last one)"),),
        options=(Option("list", "", "list what can be undone"), _WORKSPACE, POLICY),
        details="A file that changed since is a conflict and stays as it is. Exits with 12 if there is one.",
        example="sandwright undo 3",
    ),
    Command(
        "workspaces",
        GROUP,
        "List this user's review workspaces.",
        options=(JSON,),
        example="sandwright workspaces",
    ),
)
