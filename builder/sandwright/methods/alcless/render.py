"""Renders the script that runs a command as an account of alcless, on macOS, on a copy of the project.

alcless (github.com/AkihiroSuda/alcless, Apache-2.0) makes an account for each *instance*, and runs commands
in it by `alclessctl shell`. It can copy the current directory there and back; that is not used
(`--plain`), since all changes would come back. Here the launcher copies: without denied paths, and
back without read-only paths. One instance serves one project, so that no project sees another's copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sandwright.methods.user.render import account_digest
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unprotected_names
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import writable_directories
from sandwright.render.shell import patterns, plain_script, variables

_WILD = re.compile(r"([*?\[\\])")


def instance_of(policy: ResolvedPolicy) -> str:
    """The instance for a policy's project: its account is `alcless_USER_INSTANCE`."""
    return f"sw{account_digest(policy.canonical(policy.facts.project), policy.facts.uid)[:10]}"


def render_alcless(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`launch`, `set-up`, and their variables."""
    project = policy.canonical(policy.facts.project)
    hidden = sorted(set(_patterns(policy, project, ("deny",))))
    closed = sorted({*_patterns(policy, project, ("deny", "readonly")), *_unguarded(policy, project)})
    cwd = policy.canonical(policy.facts.variables["CWD"])
    environment = policy.environment
    values = variables(
        {
            "inside": writable_directories(policy),
            "instance": instance_of(policy),
            "source": f"{project}/",
            "start": cwd.removeprefix(project) if is_inside(cwd, project) else "",
            "hidden": hidden,
            "kept": closed,
            "passed": patterns(environment.passed),
            "never": patterns([*sorted({*environment.set, *environment.secret, "HOME"}), *LOADERS]),
            "time": policy.resources.time,
            "files": policy.resources.files,
            "pids": policy.resources.pids,
        },
        rows={"settings": environment.set.items()},
    )
    return (
        values,
        _account_script("launch", "alcless.sh", values, "runs a command in an instance of alcless"),
        _account_script("set-up", "alcless-setup.sh", values, "makes that instance, or removes it"),
    )


def _account_script(name: str, file: str, values: Artifact, purpose: str) -> Artifact:
    return plain_script("oci", f"account/{file}", name=name, values=values, purpose=purpose)


def _patterns(policy: ResolvedPolicy, project: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """The paths in the project that rules of some kinds restrict, as rsync's patterns from there."""
    for rule in (*policy.filesystem.rules, *policy.filesystem.protected):
        if rule.kind in kinds and rule.path != project and is_inside(rule.path, project):
            yield _rsync_pattern(rule.path, project)


def _unguarded(policy: ResolvedPolicy, project: str) -> Iterator[str]:
    """The protected names that don't exist yet, and so must not come back."""
    yield from (
        _rsync_pattern(path, project) for path, _ in unprotected_names(policy) if is_inside(path, project)
    )


def _rsync_pattern(path: str, project: str) -> str:
    """A path as rsync's filters have it: from the root of the copy, without wildcards (rsync(1))."""
    inner = path.removeprefix(project)
    return _WILD.sub(r"\\\1", inner) if _WILD.search(inner.replace("\\", "")) else inner
