"""Commands about the accounts of the method `user`: making one for a project, and removing it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from sandwright import user_dirs
from sandwright.api import Policy
from sandwright.cli import console
from sandwright.cli.policy_arguments import request_for
from sandwright.cli.trust import require_secrets, require_trust
from sandwright.methods.user.render import account_for, account_of
from sandwright.methods.user.setup import AccountPlan, SharedTrees, plan_account, plan_removal
from sandwright.policy.reserved import closed_paths
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.session import persistent

NOT_DONE = 3
"""The exit status after only showing a plan."""


def account_setup(*, policy: str = "sandbox.yaml", yes: bool = False) -> int:
    """Make the account that the method `user` runs a project's commands as, and share the project with it.

    Raise UsageError for a foreign policy without approval: its writable paths would be shared.
    """
    request = request_for(policy)
    loaded = Policy.load(policy)
    project_path = loaded.facts().project
    if yes or persistent.missing(loaded, project_path):
        require_trust(request, loaded, accepted=False)
    persistent.make_persistent(loaded, project_path)
    resolved = loaded.resolve()
    require_secrets(request, loaded, resolved.facts)
    project = Path(resolved.canonical(resolved.facts.project))
    written = [
        Path(rule.path)
        for rule in resolved.filesystem.rules
        if rule.kind == "write" and (rule.origin == "listed" or _is_repository(rule, resolved))
    ]
    others = tuple(path for path in written if not path.is_relative_to(project))
    facts = resolved.facts
    homes = (facts, replace(facts, home=user_dirs.account_home() or facts.home))
    closed = frozenset(path for each in homes for path in closed_paths(each))
    plan = plan_account(account_of(resolved), SharedTrees(project, others, os.geteuid(), closed))
    return _carry_out(plan, yes=yes, nothing=f"{plan.account} is there, and all is shared with it")


def _is_repository(rule: PathRule, policy: ResolvedPolicy) -> bool:
    """Whether a rule opens the repository of a linked work tree as a whole."""
    return rule.origin == "git" and policy.canonical(policy.facts.git_worktree[-1]) == rule.path


def account_remove(*, project: str = ".", yes: bool = False) -> int:
    """Remove a project's account with its home; its files in the project go to the project's owner."""
    plan = plan_removal(account_for(os.path.realpath(project), os.geteuid()))
    return _carry_out(plan, yes=yes, nothing=f"{plan.account} is gone")


def _carry_out(plan: AccountPlan, *, yes: bool, nothing: str) -> int:
    """Show the actions of a plan; with `yes`, execute them. Give the exit status."""
    if not plan.steps:
        console.line(nothing)
        return 0
    for each in plan.describe():
        console.line(each)
    sys.stdout.flush()
    if not yes:
        console.warn("nothing was changed; add --yes to apply")
        return NOT_DONE
    with console.watching() as progress:
        notes = plan.execute(progress)
    for note in notes:
        console.warn(note)
    return 0
