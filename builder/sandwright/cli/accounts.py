"""Tasks about the accounts of the method `user`: making one for a project, and taking it away."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context
from invoke.exceptions import Exit

from sandwright.cli import console
from sandwright.cli.command import command

if TYPE_CHECKING:
    from sandwright.methods.user.setup import Plan

NOT_DONE = 3
"""The exit status when a plan was shown, and nothing done."""


@command(
    help={
        "policy": "the project's policy (absent: sandbox.yaml); what it lets be written is shared",
        "yes": "do it, instead of only saying what would be done",
    },
)
def account_setup(c: Context, *, policy: str = "sandbox.yaml", yes: bool = False) -> None:  # noqa: ARG001
    """Make the account that the method `user` runs a project's commands as, and share the project with it.

    Without `--yes` it only says what it would do, and 3 says that nothing was done. It needs root, or `sudo`
    without a password. What is there already is not made again.
    """
    from sandwright.api import Policy  # noqa: PLC0415
    from sandwright.methods.user.render import account_of  # noqa: PLC0415
    from sandwright.methods.user.setup import Workspace, plan_account  # noqa: PLC0415

    resolved = Policy.load(policy).resolve()
    project = Path(resolved.canonical(resolved.facts.project))
    listed = [
        Path(rule.path)
        for rule in resolved.filesystem.rules
        if rule.origin == "listed" and rule.kind == "write"
    ]
    others = tuple(path for path in listed if not path.is_relative_to(project))
    plan = plan_account(account_of(resolved), Workspace(project, others, os.geteuid()))
    _shown(plan, yes=yes, nothing=f"{plan.account} is there, and all is shared with it")


@command(
    help={
        "project": "the project's directory, which may be gone (absent: this one)",
        "yes": "do it, instead of only saying what would be done",
    },
)
def account_remove(c: Context, *, project: str = ".", yes: bool = False) -> None:  # noqa: ARG001
    """Take a project's account away, with its home; what it made in the project becomes its owner's.

    Without `--yes` it only says what it would do, and 3 says that nothing was done.
    """
    from sandwright.methods.user.render import account_for  # noqa: PLC0415
    from sandwright.methods.user.setup import plan_removal  # noqa: PLC0415

    plan = plan_removal(account_for(os.path.realpath(project), os.geteuid()))
    _shown(plan, yes=yes, nothing=f"{plan.account} is gone")


def _shown(plan: Plan, *, yes: bool, nothing: str) -> None:
    """Say what a plan does; with `yes`, do it."""
    if not plan.steps:
        console.line(nothing)
        return
    for each in plan.describe():
        console.line(each)
    sys.stdout.flush()
    if not yes:
        raise Exit("sandwright: nothing was done; with --yes it is", NOT_DONE)
    with console.watching() as progress:
        notes = plan.execute(progress)
    for note in notes:
        console.warn(note)
