"""Collects the facts of this host that one policy needs, as one `HostFacts`.

It asks for names, kinds and targets of links, and reads Git's files about its directories and the seccomp
profile that the policy names. It opens no other file, and makes nothing but sandwright's own directories.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.git.layout import REPOSITORY
from sandwright.inputs import LiveHost
from sandwright.mount_aliases import split_aliases
from sandwright.policy import nested, spelling
from sandwright.policy.bundle import bundle_text
from sandwright.policy.engines import SOCKETS
from sandwright.policy.facts import HostFacts
from sandwright.policy.git_repositories import GitFile, Repositories
from sandwright.policy.git_worktree import linked_worktree
from sandwright.policy.hidden import hidden_of_host, hidden_paths
from sandwright.policy.installation import ask_installation, installed_directories, writable_parts
from sandwright.policy.live_entries import LiveEntries, look_up
from sandwright.policy.machine_facts import machine_facts, network_devices
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.mounted import with_mount_aliases
from sandwright.policy.own_directories import account_home, with_own_directories
from sandwright.policy.path_resolver import CLOUD, GOOGLE_KEY
from sandwright.policy.paths import ancestors, below, follow, is_inside
from sandwright.policy.reserved import reserved_rules
from sandwright.policy.secretnames import why_secret
from sandwright.policy.startup import BUNDLES, PATHS, STORES
from sandwright.questions import sockets_of
from sandwright.user_dirs import visible_scratch_path

MAX_TEXT = 1 << 20
"""Bytes of a file that a policy takes over; the largest seccomp profile of an engine is a tenth of that."""


def collect_facts(
    policy: MergedPolicy,
    *,
    project: Path | str | None = None,
    cwd: Path | str | None = None,
    tmp: str | None = None,
    environ: Mapping[str, str] | None = None,
    inputs: LiveHost | None = None,
    account: bool = False,
    compared: MergedPolicy | None = None,
) -> HostFacts:
    """Collect the facts of this host on which a policy depends.

    `project` is the directory that `$PROJECT` means (absent: that of the project's file, and without one the
    current directory), `cwd` that of `$CWD` (absent: the project), `tmp` the temporary directory as the
    sandbox sees it (absent: `/tmp` on Linux, a directory of the project's own in TMPDIR on macOS), `environ`
    the environment (absent: this process's). `inputs` keeps every question to the host: while the answers
    stay the same, so do the facts. With `account`, sandwright's state in the account's home is reserved too,
    if HOME is another, and paths denied below `~` are denied there, except for launchers, which another user
    may start. `compared` is the policy with which this one is compared: directories that it denies or makes
    read-only are not searched, so that both can be resolved. Raise HostError for a system that is neither
    Linux nor macOS, UsageError for a project that is no directory or cannot be searched.
    """
    inputs = LiveHost() if inputs is None else inputs
    environment = dict(os.environ if environ is None else environ)
    project = _project_directory(policy) if project is None else project
    if not Path(project).is_dir():
        raise UsageError(f"the project {project} is no directory")
    facts = machine_facts(
        policy.environment_names(), environment, os.fspath(Path(project).absolute()), tmp, inputs
    )
    facts = replace(facts, cwd=os.fspath(Path(cwd or project).absolute()))
    for name, path in (("project", facts.project), ("home", facts.home), ("cwd", facts.cwd)):
        if path != spelling.plain_spelling(path):
            raise UsageError(f"the {name} directory {path!r} is no path that a policy can name")
    entries = LiveEntries(inputs, facts)
    facts = replace(facts, entries=entries)
    facts = replace(facts, account_home=account_home(facts) if account else "")
    facts = replace(facts, sockets=_sockets(policy, facts, inputs))
    facts = replace(facts, unsearchable=_unsearchable(policy, facts, inputs))
    facts = _with_repositories(policy, facts, _closed_paths(compared or policy, facts), inputs)
    facts = _with_worktree(facts, inputs)
    facts = replace(facts, texts=_recorded_texts(policy, facts, environment, inputs))
    facts = with_own_directories(
        facts,
        entries,
        None if environ is None else environment,
        writable=lambda seen: _writable_roots(policy, seen),
        account=account,
    )
    facts = _with_installation(policy, facts, inputs)
    named = _policy_paths(policy, facts)
    restricted = (
        *named,
        *_protected_paths(policy, facts),
        *_searched_roots(policy, facts),
    )
    facts = with_mount_aliases(facts, restricted, inputs)
    for path in (
        *_always(facts),
        *named,
        *_protected_paths(policy, facts),
        *(path for paths in facts.mount_aliases.values() for path in paths),
    ):
        look_up(path, facts)
    return entries.recorded(facts)


def _always(facts: HostFacts) -> Iterator[str]:
    """Paths that every policy is about."""
    yield from (facts.project, facts.home, facts.variables["CWD"], facts.tmp, *facts.sockets)
    yield from (facts.variables["STATE"], facts.variables["CACHE"], *facts.installation)
    yield from (rule.path for rule in reserved_rules(facts))


def public_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for output that others may see: secrets are replaced by the names of their variables.

    A value that is an existing path names the location of a secret, and is not replaced.
    """
    return {
        name: value if not why_secret(name) or _path_exists(value) else name
        for name, value in environ.items()
    }


def _path_exists(value: str) -> bool:
    return value.startswith("/") and "\0" not in value and os.path.lexists(value)


def _project_directory(policy: MergedPolicy) -> Path:
    file = policy.project_file()
    try:
        return Path(file).parent if file is not None else Path.cwd()
    except OSError as error:
        raise UsageError(f"the current directory is unknown: {error.strerror}") from error


def _with_repositories(
    policy: MergedPolicy, facts: HostFacts, closed: list[str], inputs: LiveHost
) -> HostFacts:
    """The facts with repositories in writable directories, and other files there that name programs.

    Not of those in `closed`, which the sandbox can't write.
    """
    roots, homes = _searched_roots(policy, facts), [follow(home, facts)[0] for home in facts.homes]
    work = nested.searched_roots(roots, homes, follow(facts.project, facts)[0])
    others = [path for path in roots if path not in work]
    marks = dict.fromkeys(roots, True) | dict.fromkeys(closed, False)
    found = nested.repositories(policy.settings, work, closed, inputs)
    found = [
        path for path in found if next(marks[each] for each in (path, *ancestors(path)) if each in marks)
    ]
    trees = [*roots, *found]
    # Of the project itself, `git_protection.bare_protection` decides.
    bare = [path for path in trees if path != follow(facts.project, facts)[0]]
    git = Repositories(trees, bare, facts.home, inputs)
    files = {**_files_of_enclosing(roots, facts.home, inputs), **git.files}
    autorun = nested.existing_protected(policy.settings, work, others, closed, inputs)
    written = dict.fromkeys(_canonical(policy, facts, "write"), True) | dict.fromkeys(closed, False)
    _refuse_unnameable((*git.unnameable, *autorun), written)
    return replace(facts, autorun=autorun, git_directories=git.directories, git_files=files)


def _files_of_enclosing(roots: list[str], home: str, inputs: LiveHost) -> dict[str, GitFile]:
    """The files in `roots` that repositories above name: a monorepo, the superproject of a submodule."""
    above = dict.fromkeys(each for root in roots for each in ancestors(root) if each not in roots)
    trees = [each for each in above if inputs.kind(below(each, ".git")) is not None]
    found = Repositories(trees, (), home, inputs).files
    return {path: why for path, why in found.items() if any(is_inside(path, root) for root in roots)}


def _refuse_unnameable(paths: Iterable[str], written: Mapping[str, bool]) -> None:
    """Raise UsageError for a path that has to be protected, and that no rule can name.

    `written` decides whether the sandbox can write in a directory.
    """
    for path in paths:
        above = (written[each] for each in (path, *ancestors(path)) if each in written)
        if path != spelling.plain_spelling(path) and next(above, False):
            raise UsageError(
                f"cannot protect {path}: its path is not UTF-8, or too long. Rename it, or list a "
                "directory above it under filesystem.readonly"
            )


def _with_worktree(facts: HostFacts, inputs: LiveHost) -> HostFacts:
    """The facts with the project's directories as a linked work tree."""
    project, home = (follow(path, facts)[0] for path in (facts.project, facts.home))
    found = linked_worktree(project, home, facts.uid, inputs)
    paths = tuple(path for path in (found.directory, found.common) if path)
    candidates = [f"{path}{name}" for path in paths for name in ("", "/worktrees", "/modules", "/index")]
    for path in candidates:
        look_up(path, facts)
    return replace(facts, git_worktree=paths, git_worktree_fault=found.fault)


def _with_installation(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> HostFacts:
    """The facts with the parts of this program's installation that the policy would let be written."""
    ask_installation(inputs)
    roots = _writable_roots(policy, facts)
    found = writable_parts(facts, roots)
    if facts.os == "linux":
        paths = (follow(location, facts)[0] for location in installed_directories())
        others = [alias for answer in inputs.ask("aliases", *paths) for alias in split_aliases(answer)]
        found += tuple(path for path in others if any(is_inside(path, root) for root in roots))
    return replace(facts, installation=tuple(dict.fromkeys(found)))


def _sockets(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> tuple[str, ...]:
    """The listening Unix sockets that a sandbox sees, as far as a policy can name them.

    A sandbox that sees the whole host can make no sockets to connect with, unless the policy lists some: so
    those at other places than the policy names come and go, and nothing depends on them. Those of trials that
    go on beside this are left out as well.
    """
    if facts.os != "linux":
        return ()
    grants = [*_canonical(policy, facts, "read"), *_canonical(policy, facts, "write")]
    grants += _canonical(policy, facts, "readonly")
    hidden = [*_canonical(policy, facts, "deny"), visible_scratch_path(facts.uid)]
    shared = policy.settings.value("filesystem.tmp") == "shared"
    (grants if shared else hidden).append(facts.tmp)
    if not policy.settings.items("network.unix_sockets"):
        grants = [path for path in grants if path != "/"]
    paths = inputs.ask(*sockets_of(grants, hidden))
    return tuple(path for path in paths if path == spelling.plain_spelling(path))


def _unsearchable(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> tuple[str, ...]:
    """Directories of other users that root can't search without capabilities. Only root looks for them."""
    if facts.os != "linux" or facts.uid != 0:
        return ()
    named = (path for path, _ in policy.named_paths(facts))
    above = {each for path in (*named, *facts.sockets) for each in ancestors(path)}
    folders = sorted(path for path in above if facts.kind(path) == "directory")
    return tuple(path for path in folders if not is_passable(path, inputs))


def is_passable(path: str, inputs: LiveHost) -> bool:
    """Whether root may pass a directory in a user namespace that maps root alone.

    Capabilities hold there for no file of another user or group (user_namespaces(7)). A directory with an
    access list counts as open, because its mode does not show the permissions.
    """
    inputs.ask("machine")
    _, mode, uid, gid, _ = inputs.status(path)
    if not mode or _has_access_list(path):
        return True
    if uid == os.geteuid():
        return gid == os.getegid() or bool(mode & stat.S_IXUSR)
    ours = gid in (os.getegid(), *os.getgroups())
    return bool(mode & (stat.S_IXGRP if ours else stat.S_IXOTH))


def _has_access_list(path: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        return True


def _recorded_texts(
    policy: MergedPolicy, facts: HostFacts, environment: Mapping[str, str], inputs: LiveHost
) -> dict[str, str]:
    """The seccomp profile that the policy names, if that can be read, and certificates of authorities."""
    found = bundle_text(policy.settings, environment, inputs, uid=facts.uid)
    file = policy.seccomp_file()
    try:
        path = follow(spelling.expand_path(file, facts.variables), facts)[0] if file else ""
    except ValueError:
        return found  # resolving the policy says so, with its place
    raw = inputs.content(path, MAX_TEXT) if path else None
    return found if raw is None else {**found, path: raw.decode("utf-8", "surrogateescape")}


def _policy_paths(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """Every path that the policy names, and those that are looked at under every policy."""
    always = [*SOCKETS, *CLOUD, *PATHS[facts.os], *BUNDLES]
    always += STORES if policy.settings.items("network.http") else ()  # a session covers them
    always += [*hidden_paths(), *hidden_of_host(), *network_devices()] if facts.os == "linux" else ()
    always += [f"${{{GOOGLE_KEY}}}"] if GOOGLE_KEY in facts.environment else []
    remote = facts.environment.get("DOCKER_HOST", "")
    found = [remote.removeprefix("unix://")] if remote.startswith("unix:///") else []
    found += [layer.file for layer in policy.layers if layer.file is not None]
    found += [facts.private_home] if policy.settings.value("filesystem.home") == "private" else []
    spelled = [*policy.spelled_paths(), *((path, None) for path in always)]
    spelled += [(other, None) for text, _ in spelled for other in spelling.in_home(text, facts.account_home)]
    for text, _ in spelled:
        try:
            found.append(spelling.expand_path(text, facts.variables))
        except ValueError:
            continue  # resolving the policy says so, with its place
    return found


def _writable_roots(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The canonical directories that a policy lets a sandbox write on the host."""
    shared = policy.settings.value("filesystem.tmp") == "shared"
    return [*_canonical(policy, facts, "write"), *([facts.tmp] if shared else [])]


def _searched_roots(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The writable directories, canonical, and the project and home."""
    found = [facts.project, facts.home, *_canonical(policy, facts, "write")]
    return list(dict.fromkeys(follow(path, facts)[0] for path in found))


def _closed_paths(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The canonical paths that a policy denies or makes read-only, without those that an exception opens."""
    opened = {*_canonical(policy, facts, "unprotect")}
    paths = _canonical(policy, facts, "readonly") + _canonical(policy, facts, "deny")
    return [path for path in paths if path not in opened]


def _canonical(policy: MergedPolicy, facts: HostFacts, kind: str) -> list[str]:
    """The canonical paths that one of the policy's lists of paths names, as far as they are known."""
    found = []
    for item in policy.settings.items(f"filesystem.{kind}"):
        text = item.value if isinstance(item.value, str) else item.value.path
        try:
            found.append(follow(spelling.expand_path(text, facts.variables), facts)[0])
        except ValueError:
            continue  # resolving the policy says so, with its place
    return found


def _protected_paths(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The paths at which names that the policy protects are, or would be, and the files that Git reads."""
    names = [item.value for item in policy.settings.items("filesystem.protect")]
    roots = [*_searched_roots(policy, facts), *([facts.account_home] if facts.account_home else [])]
    found = [below(root, name) for root in roots for name in names]
    inside = [name.removeprefix(".git/") for name in names if name.startswith(".git/")]
    found += [f"{git}/{name}" for git in facts.git_directories for name in (*inside, ".git")]
    return [*found, *facts.autorun, *facts.git_files, *(f"{facts.project}/{name}" for name in REPOSITORY)]
