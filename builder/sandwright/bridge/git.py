"""Runs git on the host for one call: in a repository that is made for the call, with a configuration of ours.

No code of the sandbox is executed, for any content of its repository, for these reasons: git reads the
configuration that is written here and no other (`GIT_CONFIG_NOSYSTEM`, `GIT_CONFIG_GLOBAL=/dev/null`, a
private git directory); hooks, attributes and everything else that names a program is looked for in that
directory, where there is none; the command line is `AllowedCall.words`, from a table without an option that
takes a command; the only remote is a known one by https, any other transport is off; the environment is built
from nothing. From the sandbox come only objects, and refs with the plainest names.

Why the secret goes nowhere else: git asks the one credential helper of this configuration, which stands below
the remote's exact address, and follows no redirects.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import process
from sandwright.bridge import write_fetched
from sandwright.bridge.grammar import AllowedCall, Refused, quote_words
from sandwright.bridge.objects import Budget, copy_objects
from sandwright.bridge.profiles import ANY_HOSTS_PASSWORDS, GIT_PASSWORDS, GIT_USERNAME
from sandwright.bridge.remotes import Known, Remote, addresses, read_remotes
from sandwright.bridge.repository import (
    Refs,
    RepositoryLocation,
    bare_environment,
    find_repository,
    read_refs,
)  # fmt: skip
from sandwright.bridge.restricted import RestrictedGit
from sandwright.bridge.workspace import OpenWorkspace

DEFAULT_USERNAME = "x-access-token"
"""The user name that GitHub accepts with a token; other servers accept any."""

READERS = 4
"""The number of repositories that are read at once: the list of refs of each takes memory."""

_HELPER = r"""!printf 'username=%s\npassword=%s\n' "$SANDWRIGHT_USERNAME" "$SANDWRIGHT_PASSWORD" #"""


@dataclass(frozen=True)
class Job:
    """Git's input for one call, and the data needed to copy its results back."""

    words: list[str]
    variables: dict[str, str] = field(repr=False)
    location: RepositoryLocation | None
    refs: Refs
    repository: Path
    store: Path
    packs: frozenset[Path]
    urls: frozenset[str]


class Git:
    """git for one bridge. Copies of objects are kept for all its calls, one for each repository."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        initial_remotes: Known,
        addresses: frozenset[str],
        directory: Path,
        restricted: RestrictedGit,
    ) -> None:
        """`initial_remotes` are by repository, `addresses` of the policy, `directory` this process's."""
        self._workspace = workspace
        self._known = initial_remotes
        self._addresses = addresses
        self._restricted = restricted
        self._stores = directory / "repositories"
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._guard = threading.Lock()
        self._budget = Budget()
        self._reading = threading.BoundedSemaphore(READERS)

    def remotes(self, parts: tuple[str, ...]) -> Mapping[str, Remote]:
        """The remotes, by name, that the repository of a directory had at the start."""
        with contextlib.suppress(Refused):
            return self._known.get(find_repository(self._workspace, parts).main, {})
        return {}

    def prepared(
        self,
        call: AllowedCall,
        parts: tuple[str, ...],
        scratch: Path,
        secrets: Mapping[str, str],
        deadline: float,
    ) -> Job:
        """Prepare a call in a directory. `scratch` belongs to this call.

        Raise Refused if that fails, or takes until after `deadline` (monotonic).
        """
        assert call.form is not None
        location, remote, refs = self.understood(call, parts)
        store = self._store(location) if location else scratch / "store"
        _make_store(store)
        if location is not None and call.form.words != ("ls-remote",):
            with self._repository_lock(location):
                copy_objects(
                    self._workspace, location, store, self._budget,
                    deadline=deadline, restricted=self._restricted,
                )  # fmt: skip
        repository = scratch / "git"
        _make_repository(repository, refs, remote)
        urls = frozenset((remote.fetch, remote.push))
        others = [url for url in urls - self._addresses if not url.startswith("https://github.com/")]
        credentials = _helper_credentials(secrets, GIT_PASSWORDS if not others else ANY_HOSTS_PASSWORDS)
        variables = {"GIT_OBJECT_DIRECTORY": str(store / "objects"), **credentials}
        words = [f"--git-dir={repository}", *_git_arguments(call, refs, remote)]
        local = location if call.form.words != ("ls-remote",) else None
        return Job(words, variables, local, refs, repository, store, _packs(store), urls)

    def understood(
        self, call: AllowedCall, parts: tuple[str, ...]
    ) -> tuple[RepositoryLocation | None, Remote, Refs]:
        """A call's repository, remote and refs. Raise Refused if the call is impossible."""
        assert call.form is not None
        location = self._locate_repository(call, parts)
        remote = self._find_remote(call, location)
        refs = Refs("ref: refs/heads/main", {}, ())
        if location is not None and call.form.words != ("ls-remote",):
            if (call.form.words == ("fetch",)) and (fixed := self._fixed(location)):
                raise Refused(f"git fetch: the policy keeps the sandbox from writing {quote_words([fixed])}")
            with self._reading:
                refs = read_refs(self._workspace, location)
        _git_arguments(call, refs, remote)
        return location, remote, refs

    def _locate_repository(self, call: AllowedCall, parts: tuple[str, ...]) -> RepositoryLocation | None:
        """The repository; listing a remote by its address needs none."""
        try:
            return find_repository(self._workspace, parts)
        except Refused:
            assert call.form is not None
            if (
                call.form.words == ("ls-remote",)
                and call.operands[:1]
                and call.operands[0] in self._addresses
            ):
                return None
            raise

    def _find_remote(self, call: AllowedCall, location: RepositoryLocation | None) -> Remote:
        remotes = self._known.get(location.main, {}) if location else {}
        name = call.operands[0] if call.operands else "origin"
        if name in self._addresses:
            return Remote(name, name, name)
        if name in remotes:
            return remotes[name]
        for remote in remotes.values():
            if name in (remote.fetch, remote.push):
                return remote
        names = ", ".join(f"{each.name} ({each.push})" for each in remotes.values()) or "none"
        raise Refused(
            f"{quote_words([name])} is no remote that the bridge knows; it knows the remotes that it found "
            f"at its start, by https, without a password, in a configuration that no sandbox could write: "
            f"{names}"
        )

    def deliver(self, job: Job) -> None:
        """Write the result of a successful call into the sandbox's repository, or raise Refused."""
        location, repository = job.location, job.repository
        if location is None or self._fixed(location):
            return
        write_fetched.deliver_packs(self._workspace, location, sorted(_packs(job.store) - job.packs))
        listed = process.run(
            *self._restricted.local(repository), f"--git-dir={repository}", "for-each-ref",
            "--format=%(objectname) %(refname) %(symref)",
            timeout=60, cwd=repository, env=bare_environment(),
        ).stdout.decode()  # fmt: skip
        lines = (line.split(" ") for line in listed.splitlines())
        refs = {name: value for value, name, symbolic in lines if not symbolic}  # origin/HEAD, since git 2.48
        write_fetched.deliver_refs(self._workspace, location, job.refs.names, refs)
        fetched = repository / "FETCH_HEAD"
        if fetched.exists():
            write_fetched.deliver_fetch_head(self._workspace, location, fetched.read_bytes())

    def argv(self, program: str, job: Job, scratch: Path, environment: Mapping[str, str]) -> list[str]:
        """The words that start a call's git, which writes in `scratch` and its repository's copy alone."""
        writes = (scratch, job.store)
        start = self._restricted.remote(program, *writes, urls=job.urls, environment=environment)
        return [*start, *job.words]

    def _fixed(self, location: RepositoryLocation) -> str:
        """The paths of a repository that the sandbox may not write: no results are written there either."""
        common, writes = location.common, self._workspace.access.writes
        written = ((*location.git, "FETCH_HEAD"), (*common, "objects", "pack"), (*common, "refs", "remotes"))
        fixed = (parts for parts in (*written, (*common, "refs", "tags")) if not writes(parts))
        return "/".join(next(fixed, ()))

    def _store(self, location: RepositoryLocation) -> Path:
        name = hashlib.sha256("\0".join(location.common).encode("utf-8", "surrogateescape")).hexdigest()
        return self._stores / name[:32]

    def _repository_lock(self, location: RepositoryLocation) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(location.common, threading.Lock())


def git_with_initial_remotes(
    workspace: OpenWorkspace,
    repositories: Iterable[tuple[str, ...]],
    words: Iterable[str],
    directory: Path,
    *,
    loopback: bool,
    restricted: RestrictedGit,
) -> Git:
    """Git with the remotes that repositories have now, and the addresses among words of the policy.

    `directory` is ours; `loopback` as for `remotes.address`; `restricted` starts the programs that parse the
    sandbox's objects.
    """
    scratch = directory / "scratch"
    scratch.mkdir()
    remotes = read_remotes(OpenWorkspace(workspace.root), repositories, scratch, loopback=loopback)
    return Git(workspace, remotes, addresses(words, loopback=loopback), directory, restricted)


def _git_arguments(call: AllowedCall, refs: Refs, remote: Remote) -> list[str]:
    """The call's words, with the remote by its name in our configuration, and with explicit defaults."""
    assert call.form is not None
    words = [word for word in call.words() if not isinstance(word, tuple)]
    head = words[: words.index("--") + 1]
    specs = list(call.operands[1:])
    if call.form.words == ("fetch",):
        for spec in specs:
            target = spec.partition(":")[2]
            if target and not target.startswith(write_fetched.DELIVERED):
                allowed = " and ".join(write_fetched.DELIVERED)
                raise Refused(f"git fetch: {quote_words([spec])}: only refs below {allowed}")
    if call.form.words == ("push",) and not specs and not _is_about_tags(call):
        if not refs.head.startswith("ref: refs/heads/"):
            raise Refused("git push: HEAD is not a branch; name the branch to push")
        branch = refs.head.removeprefix("ref: ")
        specs = [f"{branch}:{branch}"]
    return [*head, remote.name, *specs]


def _is_about_tags(call: AllowedCall) -> bool:
    return any(option.name in ("--tags", "--delete") for option, _ in call.options)


def _make_store(store: Path) -> None:
    (store / "objects" / "pack").mkdir(parents=True, exist_ok=True)
    (store / "objects" / "info").mkdir(exist_ok=True)
    (store / "refs").mkdir(exist_ok=True)
    if not (store / "HEAD").exists():
        (store / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")


def _make_repository(repository: Path, refs: Refs, remote: Remote) -> None:
    """Make a bare repository with the refs as they are, and our configuration."""
    (repository / "objects").mkdir(parents=True)
    (repository / "refs").mkdir()
    listed = "".join(f"{value} {name}\n" for name, value in sorted(refs.names.items()))
    (repository / "packed-refs").write_text(listed, encoding="utf-8")
    (repository / "HEAD").write_text(f"{refs.head}\n", encoding="utf-8")
    if refs.shallow:
        (repository / "shallow").write_text("\n".join(refs.shallow) + "\n", encoding="utf-8")
    (repository / "config").write_text(_git_configuration(remote, sha256=refs.sha256), encoding="utf-8")


def _git_configuration(remote: Remote, *, sha256: bool) -> str:
    """Git's whole configuration. Its values are ours, or match a rule that excludes quotes and newlines."""
    version = "repositoryformatversion = 0"
    if sha256:
        version = "repositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n[core]"
    fetch = f"\tfetch = +refs/heads/*:refs/remotes/{remote.name}/*\n" if "://" not in remote.name else ""
    helper = _HELPER.replace("\\", "\\\\").replace('"', '\\"')
    credentials = "".join(
        f'[credential "{url}"]\n\thelper = "{helper}"\n' for url in sorted({remote.fetch, remote.push})
    )
    direct = "".join(  # to this machine itself, the host's proxy is no way: it would read the token
        f'[http "{url}"]\n\tproxy =\n'
        for url in sorted({remote.fetch, remote.push})
        if url.startswith("http:")
    )
    return f"""\
[core]
	{version}
	bare = true
	hooksPath = /dev/null
	fsmonitor = false
	sshCommand = false
	askPass =
	editor = false
	pager = cat
	attributesFile = /dev/null
	excludesFile = /dev/null
	logAllRefUpdates = false
[protocol]
	allow = never
[protocol "https"]
	allow = always
[protocol "http"]
	allow = {"always" if remote.push.startswith("http:") or remote.fetch.startswith("http:") else "never"}
[http]
	followRedirects = false
	sslVerify = true
[credential]
	helper =
	useHttpPath = true
{credentials}{direct}[remote "{remote.name}"]
	url = {remote.fetch}
	pushurl = {remote.push}
{fetch}[push]
	default = nothing
	recurseSubmodules = no
	gpgSign = false
[fetch]
	recurseSubmodules = false
	unpackLimit = 1
	fsckObjects = true
[transfer]
	bundleURI = false
[submodule]
	recurse = false
[gc]
	auto = 0
	autoDetach = false
[maintenance]
	auto = false
"""


def _helper_credentials(secrets: Mapping[str, str], passwords: Iterable[str]) -> dict[str, str]:
    """The secret, for the credential helper; empty without one."""
    password = next((secrets[name] for name in passwords if name in secrets), "")
    return {
        "SANDWRIGHT_USERNAME": secrets.get(GIT_USERNAME, DEFAULT_USERNAME),
        "SANDWRIGHT_PASSWORD": password,
    }


def _packs(store: Path) -> frozenset[Path]:
    return frozenset((store / "objects" / "pack").glob("pack-*.pack"))
