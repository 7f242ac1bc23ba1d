"""Looks at a host for what one policy needs to know of it, and records that.

Only names, kinds and links are looked at, what Git says of its own directories, and the seccomp profile that
the policy names; no other file is opened. Nothing is written, but sandwright's own directories are made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError, UsageError
from sandwright.git.layout import REPOSITORY
from sandwright.inputs import LiveHost
from sandwright.policy import nested, spelling
from sandwright.policy.bundle import bundle_text
from sandwright.policy.engines import SOCKETS
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.git_repositories import Repositories
from sandwright.policy.git_worktree import linked_worktree
from sandwright.policy.hidden import NETWORK, hidden_of_host, hidden_paths
from sandwright.policy.installation import ask_installation, writable_parts
from sandwright.policy.limits import CONTROLLERS
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.path_resolver import CLOUD, GOOGLE_KEY
from sandwright.policy.paths import ancestors, below, follow, followed, is_inside, same_name
from sandwright.policy.reserved import HIDDEN, READONLY, SYSTEM, TRUSTED, reserved_rules
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.secretnames import why_secret
from sandwright.policy.startup import BUNDLES, PATHS
from sandwright.policy.trusted import VARIABLES, trusted_directories, trusted_files
from sandwright.questions import sockets_of

MAX_TEXT = 1 << 20
"""Bytes of a file that a policy takes over; the largest seccomp profile of an engine is a tenth of that."""

OSRELEASE = "/proc/sys/kernel/osrelease"
"""The kernel's version (proc(5))."""

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def collect(
    policy: MergedPolicy,
    *,
    project: Path | str | None = None,
    cwd: Path | str | None = None,
    tmp: str | None = None,
    environ: Mapping[str, str] | None = None,
    inputs: LiveHost | None = None,
    account: bool = False,
) -> HostFacts:
    """What this host is like, as far as a policy looks at it.

    `project` is the directory that `$PROJECT` means (absent: that of the project's file, and without one the
    current directory), `cwd` that of `$CWD` (absent: the project), `tmp` the temporary directory as the
    sandbox sees it (absent: `/tmp` on Linux, a directory of the project's own in TMPDIR on macOS), `environ`
    the environment (absent: this process's). `inputs` keeps every question to the host: while the answers
    stay the same, so do the facts. With `account`, sandwright's state in the account's home is reserved too,
    if HOME is another, and what is denied below `~` is denied there: not for launchers, which another user
    may start. Raise HostError for a system that is
    neither Linux nor macOS, UsageError for a project that is no directory.
    """
    inputs = LiveHost() if inputs is None else inputs
    given = dict(os.environ if environ is None else environ)
    project = _project(policy) if project is None else project
    if not Path(project).is_dir():
        raise UsageError(f"the project {project} is no directory")
    facts = _base(policy, given, os.fspath(Path(project).absolute()), tmp, inputs)
    facts = replace(facts, cwd=os.fspath(Path(cwd or project).absolute()))
    for name, path in (("project", facts.project), ("home", facts.home), ("cwd", facts.cwd)):
        if path != spelling.plain(path):
            raise UsageError(f"the {name} directory {path!r} is no path that a policy can name")
    entries = LiveEntries(inputs, facts)
    facts = replace(facts, entries=entries)
    facts = replace(facts, account_home=_account_home(facts) if account else "")
    facts = replace(facts, sockets=_sockets(policy, facts, inputs))
    facts = replace(facts, unsearchable=_unsearchable(policy, facts, inputs))
    facts = _with_repositories(policy, facts, inputs)
    facts = _with_worktree(facts, inputs)
    facts = replace(facts, texts=_texts(policy, facts, given, inputs))
    facts = _with_reserved(policy, facts, entries, None if environ is None else given, account=account)
    facts = _with_installation(policy, facts, inputs)
    for path in (*_always(facts), *_named(policy, facts), *_protected(policy, facts)):
        look(path, facts)
    return entries.recorded(facts)


def _always(facts: HostFacts) -> Iterator[str]:
    """Paths that every policy is about."""
    yield from (facts.project, facts.home, facts.variables["CWD"], facts.tmp, *facts.sockets)
    yield from (facts.variables["STATE"], facts.variables["CACHE"], *facts.installation)
    yield from (rule.path for rule in reserved_rules(facts))


def public_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for what others are shown: its secrets are the names of their variables.

    What holds the path of something that is there is where a secret lies, and none itself.
    """
    return {
        name: value if not why_secret(name) or _is_there(value) else name for name, value in environ.items()
    }


def _is_there(value: str) -> bool:
    return value.startswith("/") and "\0" not in value and os.path.lexists(value)


def _project(policy: MergedPolicy) -> Path:
    file = policy.project_file()
    try:
        return Path(file).parent if file is not None else Path.cwd()
    except OSError as error:
        raise UsageError(f"the current directory can't be told: {error.strerror}") from error


def _with_repositories(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> HostFacts:
    """The facts with repositories in writable directories, and what else there names programs."""
    roots, homes = _writable(policy, facts), [follow(home, facts)[0] for home in facts.homes]
    work = nested.searched(roots, homes)
    others = [path for path in roots if path not in work]
    git = Repositories([*roots, *nested.repositories(policy.settings, work, inputs)], facts.home, inputs)
    found = nested.existing(policy.settings, work, others, inputs)
    return replace(facts, autorun=found, git_directories=git.directories, git_files=git.files)


def _with_worktree(facts: HostFacts, inputs: LiveHost) -> HostFacts:
    """The facts with what the project is as a linked work tree."""
    project, home = (follow(path, facts)[0] for path in (facts.project, facts.home))
    found = linked_worktree(project, home, facts.uid, inputs)
    paths = tuple(path for path in (found.directory, found.common) if path)
    wanted = [f"{path}{name}" for path in paths for name in ("", "/worktrees", "/modules", "/index")]
    for path in wanted:
        look(path, facts)
    return replace(facts, git_worktree=paths, git_worktree_fault=found.fault)


def _with_installation(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> HostFacts:
    """The facts with the parts of this program's installation that the policy would let be written."""
    ask_installation(inputs)
    return replace(facts, installation=writable_parts(facts, _writable_roots(policy, facts)))


def _with_reserved(
    policy: MergedPolicy,
    facts: HostFacts,
    entries: LiveEntries,
    environ: Mapping[str, str] | None,
    *,
    account: bool,
) -> HostFacts:
    """The facts with sandwright's own directories, made where the sandbox could see or make them later.

    `environ` is somebody else's environment, whose directories are not made; None for this process's.
    """
    inputs = entries.inputs
    if environ is not None:
        bases = [environ[name] for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME") if name in environ]
        own = tuple(f"{base}/sandwright" for base in bases if base.startswith("/"))
        hidden = tuple(f"{path}/{name}" for path in own for name in ("sessions", "run"))
        trusted = (*trusted_directories(environ), *trusted_files(environ))
        return replace(facts, reserved_hidden=hidden, reserved_readonly=own, trusted=trusted)
    for directory in user_dirs.hidden():
        with contextlib.suppress(HostError):
            user_dirs.private(directory)
        entries.forget(directory)
    inputs.ask_all(("variable", name) for name in (*user_dirs.VARIABLES, *VARIABLES))
    files = tuple(trusted_files(os.environ))
    facts = _with_trusted(facts, files, inputs, account=account)
    writable = _writable_roots(policy, facts)
    found = {rule.written: rule.path for rule in reserved_rules(facts)}
    for directory, path in found.items():
        if directory not in (*files, *SYSTEM) and any(is_inside(path, root) for root in writable):
            with contextlib.suppress(OSError):
                if directory in facts.trusted:  # images of a build, which other users may read
                    os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - as a build makes them
                else:
                    user_dirs.make(directory)
            entries.forget(directory)
    return facts


def _with_trusted(facts: HostFacts, files: Iterable[str], inputs: LiveHost, *, account: bool) -> HostFacts:
    """The facts with directories of this process's environment, of the account, and of earlier runs."""
    home, known = facts.account_home, _remembered(inputs) if account else {}
    return replace(
        facts,
        reserved_hidden=_unique(user_dirs.hidden(), known.get("hidden", ()), home, HIDDEN),
        reserved_readonly=_unique(user_dirs.readonly(), known.get("readonly", ()), home, READONLY),
        trusted=_unique((*trusted_directories(os.environ), *files), known.get("trusted", ()), home, TRUSTED),
    )


def _remembered(inputs: LiveHost) -> dict[str, list[str]]:
    """The directories of earlier runs that are there; one that comes back changes the answer."""
    inputs.content(user_dirs.memory())
    return {
        kind: [path for path in paths if inputs.kind_behind(path) == "directory"]
        for kind, paths in user_dirs.remembered().items()
    }


def _unique(paths: Iterable[str], known: Iterable[str], home: str, names: Iterable[str]) -> tuple[str, ...]:
    below_home = (f"{home}/{name}" for name in names) if home else ()
    return tuple(dict.fromkeys((*paths, *known, *below_home)))


def _account_home(facts: HostFacts) -> str:
    """The home that the account has, where HOME is another."""
    home = user_dirs.account_home()
    if not home.startswith("/") or home == "/" or home != spelling.plain(home):
        return ""
    return home if follow(home, facts)[0] != follow(facts.home, facts)[0] else ""


def _writable_roots(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The canonical directories that a policy lets a sandbox write on the host."""
    shared = policy.settings.value("filesystem.tmp") == "shared"
    return [*_canonical(policy, facts, "write"), *([facts.tmp] if shared else [])]


def with_path_facts(policy: ResolvedPolicy, path: str) -> ResolvedPolicy:
    """The same policy, with what this host has at a path that somebody asks about. Raise like `canonical`."""
    policy.canonical(path)
    variables = policy.facts.variables
    spelled = spelling.expanded(path, variables) if path.startswith(("~", "$")) else path
    absolute = spelled if spelled.startswith("/") else f"{variables['CWD']}/{spelled}"
    return replace(policy, facts=observe(policy.facts, [absolute]))


def observe(facts: HostFacts, paths: Iterable[str]) -> HostFacts:
    """The same facts, with what is at some absolute paths now, and on the way to them."""
    entries = LiveEntries(LiveHost(), facts)
    looking = replace(facts, entries=entries)
    for path in paths:
        look(path, looking)
    return entries.recorded(facts)


def look(path: str, facts: HostFacts) -> None:
    """Look up what is at a path, and on the way to it."""
    facts.kind(followed(path, facts)[0])


class LiveEntries(Mapping[str, HostEntry]):
    """The entries of this host: each is asked for when it is first looked up, and recorded.

    A link whose directory stores its name otherwise (`stored_name`) leads to the stored name.
    """

    def __init__(self, inputs: LiveHost, facts: HostFacts) -> None:
        """`facts` say which system it is, and what is known already."""
        self.inputs = inputs
        self._facts = facts
        self._found: dict[str, HostEntry | None] = dict(facts.entries)
        self._found.update(dict.fromkeys(facts.absent))
        self._names: dict[str, frozenset[str]] = {}

    def __getitem__(self, path: str) -> HostEntry:
        """What is at a path. Raise KeyError for nothing."""
        found = self.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def get(self, path: str, default: object = None) -> HostEntry | None:  # type: ignore[override]  # noqa: ARG002
        """What is at a path, None for nothing. Below what is no directory nothing has to be asked."""
        if path not in self._found:
            above = path.rpartition("/")[0] or "/"
            holds = path == "/" or ((found := self.get(above)) is not None and found.kind == "directory")
            if not holds or spelling.undecodable(path):  # which no policy can name
                return None
            self._found[path] = self._look(path)
        return self._found[path]

    def __iter__(self) -> Iterator[str]:
        return (path for path, found in self._found.items() if found is not None)

    def __len__(self) -> int:
        return sum(found is not None for found in self._found.values())

    def forget(self, path: str) -> None:
        """Look again at a path, what is above it and what is in it, as we made it since."""
        self.inputs.forget(path)
        for each in [each for each in self._found if is_inside(each, path) or is_inside(path, each)]:
            del self._found[each]

    def recorded(self, facts: HostFacts) -> HostFacts:
        """The facts with all that was looked up."""
        found = {path: entry for path, entry in self._found.items() if entry is not None}
        absent = sorted(path for path, entry in self._found.items() if entry is None)
        return replace(facts, entries=found, absent=tuple(absent))

    def _look(self, path: str) -> HostEntry | None:
        kind = self.inputs.kind(path)
        entry = kind and HostEntry(kind, self.inputs.link(path) or "")
        if entry is not None and path != "/" and self._facts.os == "darwin":
            stored = self._stored(path)
            entry = entry if stored is None else HostEntry("symlink", stored)
        return entry

    def _stored(self, path: str) -> str | None:
        """The name that a path's directory stores for it, None when it is the same."""
        parent, _, name = path.rpartition("/")
        if parent not in self._names:
            listed = self.inputs.ask("listing", parent or "/")
            self._names[parent] = frozenset(each.removesuffix("/") for each in listed)
        stored = stored_name(name, self._names[parent], same_name(self._facts))
        return stored if stored != name else None


def stored_name(name: str, names: Collection[str], key: Callable[[str], str]) -> str:
    """How a directory stores a name that leads to one of its entries.

    APFS finds a file by other spellings than the stored one: another case, another of Unicode's normal forms.
    The kernel reports the stored spelling, which is what rules are compared with, so another spelling is
    recorded like a link to it. `key` gives equal text for spellings of one name.
    """
    if name in names:
        return name
    return next((each for each in names if key(each) == key(name)), name)


def _base(
    policy: MergedPolicy, environ: Mapping[str, str], project: str, tmp: str | None, inputs: LiveHost
) -> HostFacts:
    system = sys.platform
    if system not in ("linux", "darwin"):
        raise HostError(f"sandboxes are made on Linux and macOS, not on {system}")
    account = _account()
    home = environ.get("HOME") or account.pw_dir
    wanted = {*policy.environment_names(), GOOGLE_KEY, "DOCKER_HOST", "XDG_CONFIG_HOME"}
    inputs.ask_all([("groups", ""), ("content", OSRELEASE), ("stamp", "/etc/passwd")])
    inputs.entry(home.swapcase())
    inputs.ask_all(("variable", name) for name in sorted({*wanted, "HOME", "TMPDIR"}))
    names = wanted & environ.keys()
    machine = os.uname().machine.lower()
    return HostFacts(
        os="linux" if system == "linux" else "darwin",
        home=home,
        project=project,
        user=account.pw_name,
        uid=os.getuid(),
        gid=os.getgid(),
        tmp=tmp or _temporary(environ, project),
        platform=f"{system}/{_MACHINES.get(machine, machine)}",
        kernel=os.uname().release,
        case_sensitive=system == "linux" or not _ignores_case(home),
        memory=_memory(inputs),
        controllers=_controllers(inputs) if system == "linux" else (),
        environment={name: environ[name] for name in sorted(names)},
    )


def _memory(inputs: LiveHost) -> int:
    return int(next(iter(inputs.ask("memory")), "0"))


def _controllers(inputs: LiveHost) -> tuple[str, ...]:
    """What control groups count here: of version 2, whose file names them, or of version 1, by directory."""
    names = (inputs.text(f"{_GROUPS}/cgroup.controllers") or "").split()
    return tuple(
        name
        for name in sorted(CONTROLLERS.values())
        if name in names or inputs.kind_behind(f"{_GROUPS}/{name}") == "directory"
    )


_GROUPS = "/sys/fs/cgroup"


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        uid = os.getuid()
        return pwd.struct_passwd((f"uid{uid}", "x", uid, os.getgid(), "", "/", "/bin/sh"))


def _temporary(environ: Mapping[str, str], project: str) -> str:
    if sys.platform == "linux":
        return "/tmp"  # noqa: S108 - what the sandbox sees, not what is there
    parent = environ.get("TMPDIR", "/private/tmp").rstrip("/")
    return f"{parent}/sandwright-{hashlib.sha256(project.encode()).hexdigest()[:12]}"


def _ignores_case(path: str) -> bool:
    other = path.swapcase()
    try:
        return other != path and Path(other).samefile(path)
    except OSError:
        return False


def _sockets(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> tuple[str, ...]:
    """The Unix sockets that somebody listens on where a sandbox sees them, as far as a policy can name them.

    A sandbox that sees the whole host can make no sockets to connect with, unless the policy lists some: so
    those at other places than the policy names come and go, and nothing depends on them.
    """
    if facts.os != "linux":
        return ()
    shown = [*_canonical(policy, facts, "read"), *_canonical(policy, facts, "write")]
    shown += _canonical(policy, facts, "readonly")
    hidden = _canonical(policy, facts, "deny")
    shared = policy.settings.value("filesystem.tmp") == "shared"
    (shown if shared else hidden).append(facts.tmp)
    if not policy.settings.items("network.unix_sockets"):
        shown = [path for path in shown if path != "/"]
    paths = inputs.ask(*sockets_of(shown, hidden))
    return tuple(path for path in paths if path == spelling.plain(path))


def _unsearchable(policy: MergedPolicy, facts: HostFacts, inputs: LiveHost) -> tuple[str, ...]:
    """Directories of other users that root can't pass without capabilities; nobody else sees into any."""
    if facts.os != "linux" or facts.uid != 0:
        return ()
    named = (path for path, _ in policy.named_paths(facts))
    above = {each for path in (*named, *facts.sockets) for each in ancestors(path)}
    folders = sorted(path for path in above if facts.kind(path) == "directory")
    return tuple(path for path in folders if not is_passable(path, inputs))


def is_passable(path: str, inputs: LiveHost) -> bool:
    """Whether root may pass a directory in a user namespace that maps root alone.

    Capabilities hold there for no file of another user or group (user_namespaces(7)). What an access list
    lets in can't be told by the mode, and is taken for open.
    """
    inputs.ask("groups")
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


def _named(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """Every path that the policy names, and those that are looked at under every policy."""
    own = [*SOCKETS, *CLOUD, *PATHS[facts.os], *BUNDLES]
    own += [*hidden_paths(), *hidden_of_host(), *_network_devices()] if facts.os == "linux" else ()
    own += [f"${{{GOOGLE_KEY}}}"] if GOOGLE_KEY in facts.environment else []
    remote = facts.environment.get("DOCKER_HOST", "")
    found = [remote.removeprefix("unix://")] if remote.startswith("unix:///") else []
    found += [layer.file for layer in policy.layers if layer.file is not None]
    spelled = [*policy.spelled_paths(), *((path, None) for path in own)]
    spelled += [(other, None) for text, _ in spelled for other in spelling.in_home(text, facts.account_home)]
    for text, _ in spelled:
        try:
            found.append(spelling.expanded(text, facts.variables))
        except ValueError:
            continue  # resolving the policy says so, with its place
    return found


def _network_devices() -> list[str]:
    """The links to physical network devices; those of containers come and go, and lie in one directory."""
    folder = Path(NETWORK[0])
    links = sorted(str(path) for path in folder.iterdir()) if folder.is_dir() else []
    return [path for path in links if not os.path.realpath(path).startswith(f"{NETWORK[1]}/")]


def _texts(
    policy: MergedPolicy, facts: HostFacts, given: Mapping[str, str], inputs: LiveHost
) -> dict[str, str]:
    """The seccomp profile that the policy names, if that can be read, and certificates of authorities."""
    found = bundle_text(policy.settings, given, inputs, uid=facts.uid)
    file = policy.seccomp_file()
    try:
        path = follow(spelling.expanded(file, facts.variables), facts)[0] if file else ""
    except ValueError:
        return found  # resolving the policy says so, with its place
    raw = inputs.content(path, MAX_TEXT) if path else None
    return found if raw is None else {**found, path: raw.decode("utf-8", "surrogateescape")}


def _writable(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    """The writable directories, canonical, and the project and home."""
    found = [facts.project, facts.home, *_canonical(policy, facts, "write")]
    return list(dict.fromkeys(follow(path, facts)[0] for path in found))


def _canonical(policy: MergedPolicy, facts: HostFacts, kind: str) -> list[str]:
    """The canonical paths that one of the policy's lists of paths names, as far as they can be told."""
    found = []
    for item in policy.settings.items(f"filesystem.{kind}"):
        try:
            found.append(follow(spelling.expanded(item.value, facts.variables), facts)[0])
        except ValueError:
            continue  # resolving the policy says so, with its place
    return found


def _protected(policy: MergedPolicy, facts: HostFacts) -> list[str]:
    names = [item.value for item in policy.settings.items("filesystem.protect")]
    roots = [*_writable(policy, facts), *([facts.account_home] if facts.account_home else [])]
    found = [below(root, name) for root in roots for name in names]
    inside = [name.removeprefix(".git/") for name in names if name.startswith(".git/")]
    found += [f"{git}/{name}" for git in facts.git_directories for name in (*inside, ".git")]
    return [*found, *facts.autorun, *facts.git_files, *(f"{facts.project}/{name}" for name in REPOSITORY)]
