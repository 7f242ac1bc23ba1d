"""Collects sandwright's own directories and files, which no policy grants, and makes those that it needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from sandwright import process, user_dirs
from sandwright.errors import HostError
from sandwright.inputs import LiveHost
from sandwright.mount_aliases import split_aliases
from sandwright.policy import spelling
from sandwright.policy.facts import HostFacts
from sandwright.policy.live_entries import LiveEntries
from sandwright.policy.paths import follow, is_inside
from sandwright.policy.reserved import (
    HIDDEN,
    READONLY,
    SCRATCH_REASON,
    SETTINGS,
    SYSTEM,
    SYSTEM_SETTINGS,
    TRUSTED,
    TRUSTED_REASON,
    reserved_rules,
)
from sandwright.policy.trusted import VARIABLES, settings_directories, trusted_directories, trusted_files


def with_own_directories(
    facts: HostFacts,
    entries: LiveEntries,
    environ: Mapping[str, str] | None,
    *,
    writable: Callable[[HostFacts], Collection[str]],
    account: bool,
) -> HostFacts:
    """The facts with sandwright's own directories, made where the sandbox could see or make them later.

    `environ` is another user's environment, whose directories are not created; None for this process's.
    `writable` gives the canonical directories that the policy lets a sandbox write.
    """
    inputs = entries.inputs
    if environ is not None:
        bases = [environ.get(name, "") for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")]
        reserved = tuple(_named_path(f"{base}/sandwright", facts) for base in bases if base.startswith("/"))
        hidden = tuple(f"{path}/{name}" for path in reserved for name in ("sessions", "run"))
        named = (*trusted_directories(environ), *trusted_files(environ))
        trusted = tuple(_named_path(path, facts) for path in named)
        return replace(facts, reserved_hidden=hidden, reserved_readonly=reserved, trusted=trusted)
    for directory in user_dirs.hidden_directories():
        with contextlib.suppress(HostError):
            user_dirs.private(directory)
        entries.forget(directory)
    inputs.ask_all(("variable", name) for name in (*user_dirs.VARIABLES, *VARIABLES))
    files = tuple(_named_path(path, facts) for path in trusted_files(os.environ))
    facts = _with_trusted(facts, files, inputs, account=account)
    links = tuple(_links_in_reserved(facts, inputs))
    facts = replace(facts, trusted=tuple(dict.fromkeys((*facts.trusted, *links))))
    copies, roots = _mounted_copies(facts, inputs), writable(facts)
    for rule in reserved_rules(facts):
        directory, reachable = rule.written, (rule.path, *copies.get(rule.path, ()))
        reached = any(is_inside(path, root) for path in reachable for root in roots)
        if reached and directory not in (*files, *links, *SYSTEM):
            with contextlib.suppress(OSError):
                if directory in facts.trusted:  # images of a build, which other users may read
                    os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - as a build makes them
                else:
                    user_dirs.make(directory)
            entries.forget(directory)
    return _with_mounted_copies(facts, copies, roots, inputs)


def _links_in_reserved(facts: HostFacts, inputs: LiveHost) -> Iterator[str]:
    """The links in reserved directories: the repository that holds their targets may be a project."""
    settings = set(_settings(facts))
    for rule in reserved_rules(facts):
        if rule.kind == "readonly" and rule.why != SCRATCH_REASON:  # trials come and go there
            levels = _LEVELS if rule.path in settings else 1  # other directories have images and packages
            yield from _links_below(rule.path, levels, facts, inputs)


_LEVELS = 3
"""Of directories of settings, from `~/.docker` down to links such as `~/.docker/cli-plugins/docker-x`."""


def _settings(facts: HostFacts) -> Iterator[str]:
    """The canonical directories of settings, in which programs of the host look below the top, too."""
    homes = [facts.home, *filter(None, [facts.account_home])]
    named = [f"{home}/{name}" for home in homes for name in SETTINGS]
    named += [user_dirs.config(), *settings_directories(os.environ), *SYSTEM_SETTINGS]
    return (follow(_named_path(path, facts), facts)[0] for path in named)


def _links_below(directory: str, levels: int, facts: HostFacts, inputs: LiveHost) -> Iterator[str]:
    """The links in a directory and those below it; for those behind a link to a directory, their targets.

    Such a link is in a reserved directory, so no sandbox can replace it.
    """
    for name in inputs.ask("listing", directory):
        path = f"{directory}/{name.removesuffix('/')}"  # a directory's name ends with a slash
        if path != spelling.plain_spelling(path):
            continue
        if not name.endswith("/") and inputs.link(path) is not None:
            yield path
            if levels > 1 and inputs.kind_behind(path) == "directory":
                behind = _links_below(follow(path, facts)[0], levels - 1, facts, inputs)
                yield from (follow(each, facts)[0] for each in behind)
        elif levels > 1 and name.endswith("/"):
            yield from _links_below(path, levels - 1, facts, inputs)


def _with_trusted(facts: HostFacts, files: Iterable[str], inputs: LiveHost, *, account: bool) -> HostFacts:
    """The facts with directories of this process's environment, of the account, and of earlier runs."""
    home, remembered = facts.account_home, _remembered(inputs) if account else {}
    named = (*trusted_directories(os.environ), *files, *_podman_state(inputs))
    hidden = (*user_dirs.hidden_directories(), *user_dirs.later_runtime(), *user_dirs.root_directories())

    def unique(paths: Iterable[str], kind: str, names: Iterable[str]) -> tuple[str, ...]:
        absolute = (_named_path(path, facts) for path in (*paths, *remembered.get(kind, ())))
        return _unique_directories(absolute, home, names)

    return replace(
        facts,
        reserved_hidden=unique(hidden, "hidden", HIDDEN),
        reserved_readonly=unique(user_dirs.readonly(), "readonly", READONLY),
        trusted=unique(named, "trusted", TRUSTED),
    )


def _podman_state(inputs: LiveHost) -> Iterator[str]:
    """The directories of Podman's state of a user's containers if there is no runtime directory.

    See GetRootlessRuntimeDir in containers/podman and containers/storage.
    """
    uid = os.geteuid() if process.find("podman") else 0
    if uid and not os.environ.get("XDG_RUNTIME_DIR") and inputs.kind(f"/run/user/{uid}") is None:
        base = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108
        yield from (f"{base}/{name}-{uid}" for name in ("podman-run", "storage-run", "containers-user"))


def _named_path(path: str, facts: HostFacts) -> str:
    """A path from a variable, in the form of a rule. After a link, `..` is not the parent in the text."""
    return follow(path, facts)[0] if ".." in path.split("/") else os.path.normpath(f"/{path.lstrip('/')}")


def _mounted_copies(facts: HostFacts, inputs: LiveHost) -> dict[str, list[str]]:
    """The paths at which other mounts show reserved paths, or would if they existed."""
    paths = [rule.path for rule in reserved_rules(facts) if rule.path == spelling.plain_spelling(rule.path)]
    answers = inputs.ask("aliases", *paths) if facts.os == "linux" and paths else [""] * len(paths)
    return {path: split_aliases(answer) for path, answer in zip(paths, answers, strict=True) if answer}


def _with_mounted_copies(
    facts: HostFacts, copies: Mapping[str, list[str]], roots: Collection[str], inputs: LiveHost
) -> HostFacts:
    """The facts with those paths that exist, and those in `roots` at which a sandbox could make one."""
    found: dict[str, list[str]] = {}
    for rule in reserved_rules(facts):
        kind = "hidden" if rule.kind == "deny" else "trusted" if rule.why == TRUSTED_REASON else "readonly"
        missing = inputs.kind(rule.path) is None
        found.setdefault(kind, []).extend(
            path
            for path in copies.get(rule.path, ())
            if inputs.kind(path) or (missing and any(is_inside(path, root) for root in roots))
        )
    return replace(
        facts,
        reserved_hidden=_unique_directories((*facts.reserved_hidden, *found.get("hidden", ())), "", ()),
        reserved_readonly=_unique_directories((*facts.reserved_readonly, *found.get("readonly", ())), "", ()),
        trusted=_unique_directories((*facts.trusted, *found.get("trusted", ())), "", ()),
    )


def _remembered(inputs: LiveHost) -> dict[str, list[str]]:
    """The directories of earlier runs that are there; one that comes back changes the answer."""
    inputs.content(user_dirs.memory())
    return {
        kind: [
            path for path in paths if inputs.kind_behind(user_dirs.variables_directory(path)) == "directory"
        ]
        for kind, paths in user_dirs.remembered_directories().items()
    }


def _unique_directories(paths: Iterable[str], home: str, names: Iterable[str]) -> tuple[str, ...]:
    below_home = (f"{home}/{name}" for name in names) if home else ()
    return tuple(dict.fromkeys((*paths, *below_home)))


def account_home(facts: HostFacts) -> str:
    """The home directory of the account if HOME is another one."""
    home = user_dirs.account_home()
    if not home.startswith("/") or home == "/" or home != spelling.plain_spelling(home):
        return ""
    return home if follow(home, facts)[0] != follow(facts.home, facts)[0] else ""
