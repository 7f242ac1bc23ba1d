"""Renders what runs a command as an account of alcless, on macOS, on a copy of the project.

alcless (github.com/AkihiroSuda/alcless, Apache-2.0) makes an account for each *instance*, and runs commands
in it by `alclessctl shell`. It copies the current directory there and back by itself; that is not used
(`--plain`), since all that changed would come back. Here the launcher copies: without what is denied, and
back without what may only be read. One instance serves one project, so that no project sees another's copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sandwright.errors import RenderError
from sandwright.methods.user.render import digest_of
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unguarded
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import writable_directories
from sandwright.render.templates import Quoted, add_filter, render_template

_PLAIN = re.compile(r"[A-Za-z0-9-]+")
_WILD = re.compile(r"([*?\[\\])")


def plain_word(word: object) -> Quoted:
    """A word that means the same to a shell with quotes and without. Raise RenderError for another."""
    if not isinstance(word, str) or not _PLAIN.fullmatch(word):
        raise RenderError(f"{word!r} is no plain word")
    return Quoted(word)


add_filter("plain", plain_word)


def instance_of(policy: ResolvedPolicy) -> str:
    """The instance for a policy's project: its account is `alcless_USER_INSTANCE`."""
    return f"sw{digest_of(policy.canonical(policy.facts.project), policy.facts.uid)[:10]}"


def render_alcless(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`launch` and `set-up`."""
    project = policy.canonical(policy.facts.project)
    hidden = sorted(set(_patterns(policy, project, ("deny",))))
    kept = sorted({*_patterns(policy, project, ("deny", "readonly")), *_unguarded(policy, project)})
    cwd = policy.canonical(policy.facts.variables["CWD"])
    environment = policy.environment
    values = {
        "inside": writable_directories(policy),
        "instance": instance_of(policy),
        "source": f"{project}/",
        "start": cwd.removeprefix(project) if is_inside(cwd, project) else "",
        "hidden": hidden,
        "kept": kept,
        "passed": list(environment.passed),
        "never": [*sorted({*environment.set, *environment.secret, "HOME"}), *LOADERS],
        "set": list(environment.set.items()),
        "time": policy.resources.time,
        "files": policy.resources.files,
        "pids": policy.resources.pids,
    }
    launch = render_template("oci", "account/alcless.sh.j2", **values)
    setup = render_template("oci", "account/alcless-setup.sh.j2", instance=values["instance"])
    return (
        _script("launch", launch, "runs a command in an instance of alcless"),
        _script("set-up", setup, "makes that instance, or removes it"),
    )


def _script(name: str, text: str, purpose: str) -> Artifact:
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose, executable=True)


def _patterns(policy: ResolvedPolicy, project: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """What rules of some kinds restrict in the project, as rsync names it from there."""
    for rule in (*policy.filesystem.rules, *policy.filesystem.protected):
        if rule.kind in kinds and rule.path != project and is_inside(rule.path, project):
            yield _pattern(rule.path, project)


def _unguarded(policy: ResolvedPolicy, project: str) -> Iterator[str]:
    """The protected names that don't exist yet, and so must not come back."""
    yield from (_pattern(path, project) for path, _ in unguarded(policy) if is_inside(path, project))


def _pattern(path: str, project: str) -> str:
    """A path as rsync's filters have it: from the root of what is copied, without wildcards (rsync(1))."""
    inner = path.removeprefix(project)
    return _WILD.sub(r"\\\1", inner) if _WILD.search(inner.replace("\\", "")) else inner
