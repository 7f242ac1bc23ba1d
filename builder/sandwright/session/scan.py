"""Reports files of a run that the host may execute: repositories, set-id files, settings of editors.

The scan uses only names and lstat(2). It finds new or changed files by the time of their last change (ctime),
which no program inside can set. A new link in a repository is removed if Git could write through it. If the
sandbox can't make set-id files, plain files without a special name are skipped in a directory that did not
change: lstat(2) takes most of the time of a scan. Set-id files that a scan found are kept for the next, and
once a day each file is examined. A repository that existed before may be used inside: in it, only links and
files that name programs count. So repositories are kept, too.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.folding import folded_name
from sandwright.inputs import LiveHost
from sandwright.mountinfo import mount_points
from sandwright.session.child_guard import UnresponsiveFilesystem, run_in_child
from sandwright.session.repository_links import remove_link
from sandwright.session.scan_scope import GIT_PARTS, PLACEHOLDER, ScanRules, ScanScope, known_file, printable

MOST_NAMES = 2_000_000
MOST_SECONDS = 3.0
MOST_LINES = 50
MOST_SILENT = 3
"""The most file systems that may fail to answer; then the scan stops."""
_FULL, _SET_ID = "full", "set-id"
"""Keys of the stored state: the time of the last scan of each file, and the copy of a set-id file."""
_DAY = 86_400
_PATIENCE = 3.0
"""Seconds beyond MOST_SECONDS after which a file system counts as unresponsive."""

_NEW = "new or changed while it ran"
_MISSED = "not everything was looked at"
_LINK = "a link in a repository: Git may write through it"
_REMOVED = "a link in a repository was removed"
_ENTERED = "a repository that the index has as an entry: `git status`"
_SETS_ID = "a set-user-id or set-group-id file: whoever runs it gets its owner's rights"
_RUNS = ("commondir", "config", "config.worktree")
"""Entries of a Git directory that name programs, or lead to files that do."""


def scan_changes(scope: ScanScope, policy: str, since: int) -> list[str]:
    """A line for each thing below the writable paths that is new or changed since a time, the worst first.

    `policy` is the file whose runs it is about. The lines are printable. A file system that doesn't answer is
    named, and the others are looked at.
    """
    silent: list[str] = []
    found: list[str] = []
    while len(silent) < MOST_SILENT:
        try:
            looks = lambda tell: _scanned(scope, policy, since, silent, tell)  # noqa: E731
            found = run_in_child(looks, MOST_SECONDS + _PATIENCE)
            break
        except UnresponsiveFilesystem as fault:
            if fault.path in silent:
                break
            silent.append(fault.path)
    return found + [f"{_MISSED}: the file system of {printable(path)} doesn't answer" for path in silent]


def _scanned(
    scope: ScanScope, policy: str, since: int, silent: list[str], tell: Callable[[str], None]
) -> list[str]:
    """The same, in this process.

    Unresponsive file systems are left out: each is named before it is accessed.
    """
    file = known_file(policy)
    tell(file)
    scan = _Scan(ScanRules(scope), since, _read(file), silent, tell)
    scan.run()
    scan.enter()
    if scan.stopped:  # the rest is known no less than before
        scan.seen = {**scan.before, **scan.seen}
    if scan.seen != scan.before:
        user_dirs.private(os.path.dirname(file))
        user_dirs.write(file, strictjson.dumps(scan.seen))
    return scan.lines()


def _read(file: str) -> dict[str, str]:
    try:
        with open(file, "rb") as opened:
            data = strictjson.loads_record(opened.read())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


class _Directory:
    """One that is still to be looked at.

    `owner` is the protected directory that it belongs to, `since` the time from which something in it counts,
    `mount` where its file system begins, or the writable path that is in it.
    """

    __slots__ = ("identity", "mount", "owner", "path", "since", "status")

    def __init__(self, path: str, status: os.stat_result, since: int, owner: str, mount: str) -> None:
        self.path = path
        self.mount = mount
        self.status = status
        self.identity = f"{status.st_dev}:{status.st_ino}"
        self.since = since
        self.owner = owner


class _Scan:
    """One look. `before` and `seen` are repositories and directories that can't be read, by identity."""

    def __init__(
        self,
        where: ScanRules,
        since: int,
        before: dict[str, str],
        silent: list[str],
        tell: Callable[[str], None],
    ) -> None:
        self.before = before
        self._silent = silent
        self._tell = tell
        self._told = ""
        self._mounts = where.roots.keys() | set(mount_points())
        now = int(time.time())
        full = where.scope.set_id or not 0 <= now - int(before.get(_FULL) or 0) < _DAY
        self._quick = not full
        self.seen: dict[str, str] = {_FULL: str(now) if full else before[_FULL]}
        self.stopped = ""
        self._where = where
        self._since = since
        self._found: dict[str, tuple[int, str]] = {}
        self._tools: dict[str, str] = {}
        self._count = 0
        self._until = time.monotonic() + MOST_SECONDS

    def run(self) -> None:
        """Scan everything, parents first."""
        self._known_files()
        waiting: list[_Directory] = []
        for root in self._where.roots:
            if root in self._silent:
                continue
            self._ask(root)
            try:
                status = os.lstat(root)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(_Directory(root, status, self._since, "", root))
        while waiting:
            level, waiting = waiting, []
            for directory in level:
                try:
                    self._directory(directory, waiting.append)
                except OSError as fault:
                    self._unread(directory, fault)
                if self.stopped:
                    return

    def _known_files(self) -> None:
        """Look at set-id files that an earlier look found."""
        for path in (path for path, what in self.before.items() if what == _SET_ID):
            root = next((each for each in self._where.roots if path.startswith(f"{each}/")), "")
            if root and root not in self._silent:
                self._ask(root)
                try:
                    self._set_id(path, os.lstat(path), self._since)
                except OSError:
                    continue

    def enter(self) -> None:
        """Report which of the repositories that were found Git enters by itself: an index has them.

        And an index that leads out of a work tree, which a run in a linked one may have written.
        """
        entered = not all(rank for rank, _ in self._found.values())
        for directory in self._where.git:
            tree, _, name = directory.rpartition("/")
            linked = not any(tree == root or tree.startswith(f"{root}/") for root in self._where.roots)
            if name == ".git" and (entered or linked):
                self._entries(tree, f"{directory}/index")

    def _entries(self, tree: str, index: str) -> None:
        """Look at the entries of an index that are other repositories."""
        for link in LiveHost().gitlinks(index):
            path = os.path.normpath(f"{tree}/{link}")
            if not path.startswith(f"{tree}/"):
                self._add(
                    index, -1, f"leads Git out of {printable(tree)}, to {printable(path)}: `git status`"
                )
            for each in (f"{path}/.git", path):
                if self._found.get(each, (1,))[0] == 0:
                    what = f"{_ENTERED} in {printable(tree)} runs what its configuration says"
                    self._add(each, -1, what)

    def lines(self) -> list[str]:
        """The findings, as lines."""
        told = self._where.scope.absent
        found = sorted((rank, path, what) for path, (rank, what) in self._found.items() if path not in told)
        said = [f"{_NEW}: {printable(path)}: {what}" for _, path, what in found[:MOST_LINES]]
        if len(found) > MOST_LINES:
            said.append(f"{_NEW}: {len(found) - MOST_LINES} more like these")
        if self.stopped:
            said.append(f"{_MISSED}: there were too many files, from {printable(self.stopped)} on")
        return said

    def _ask(self, mount: str) -> None:
        """Note that a file system is accessed from now on."""
        if mount != self._told:
            self._tell(mount)
        self._told = mount

    def _directory(self, directory: _Directory, later: Callable[[_Directory], None]) -> None:
        self._ask(directory.mount)
        if self.before.get(directory.identity) == "unread":
            directory.since = 0
        parts: dict[str, os.stat_result] = {}
        held = self._count
        unchanged = self._quick and not directory.owner and directory.status.st_ctime_ns < directory.since
        has = self._where.has
        with os.scandir(directory.path) as entries:
            for entry in entries:
                self._count += 1
                if self._count > MOST_NAMES or (not self._count & 0xFF and time.monotonic() > self._until):
                    self.stopped = directory.path
                    return
                part = folded_name(entry.name)
                if unchanged and not has(part) and not entry.is_dir(follow_symlinks=False):
                    continue
                mount = directory.mount
                if entry.path in self._mounts:
                    mount = entry.path
                    if mount in self._silent:
                        continue
                    self._ask(mount)
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if mount is not directory.mount:
                    self._ask(directory.mount)
                if part in GIT_PARTS:
                    parts[part] = status
                self._entry(directory, entry, status, mount, later, name=part)
        if directory.path == directory.owner and self._count > held:
            self._protected(directory.path, directory.status, directory.since)
        if "head" in parts and ({"objects", "refs"} <= parts.keys() or "commondir" in parts):
            self._repository(directory, parts)

    def _entry(
        self,
        directory: _Directory,
        entry: os.DirEntry[str],
        status: os.stat_result,
        mount: str,
        later: Callable[[_Directory], None],
        *,
        name: str,
    ) -> None:
        path, mode = entry.path, status.st_mode
        new = status.st_ctime_ns >= directory.since
        if directory.owner:
            self._protected(directory.owner, status, directory.since)
        self._set_id(path, status, directory.since)
        owner = directory.owner
        tool = self._where.tool(name, path)
        if tool is not None:
            if path in self._where.closed:
                return
            owner = owner or path
            self._tools.setdefault(owner, tool)
            if mode != PLACEHOLDER:
                self._protected(path, status, directory.since)
        if stat.S_ISDIR(mode):
            if path not in self._where.closed and path not in self._where.roots:
                later(_Directory(path, status, directory.since, owner, mount))
        elif new and stat.S_ISLNK(mode) and self._where.repository_of(path):
            self._link(path, status)
        elif new and name == ".git":
            self._add(path, 0, "leads Git to a repository: Git runs what its configuration says")

    def _link(self, path: str, status: os.stat_result) -> None:
        if self._where.scope.is_persistent(path):
            return
        repository = self._where.repository_of(path)
        target = remove_link(path, status, repository, self._where.git) if repository else None
        self._add(path, 1, _LINK if target is None else f"{_REMOVED}, which led to {printable(target)}")

    def _set_id(self, path: str, status: os.stat_result, since: int) -> None:
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(status.st_mode):
            self.seen[path] = _SET_ID
            if status.st_ctime_ns >= since:
                self._add(path, 1, _SETS_ID)

    def _protected(self, path: str, status: os.stat_result, since: int) -> None:
        if status.st_ctime_ns >= since:
            by = self._tools.get(path)
            self._add(path, 3, f"programs of the host may run what it says{by and f' ({by})'}")

    def _repository(self, directory: _Directory, parts: dict[str, os.stat_result]) -> None:
        path, since = directory.path, directory.since
        if path in self._where.git:
            return
        if path not in self._where.roots:  # below a project that is one, its own links stay
            self._where.repositories.add(path)
        for link in filter(os.path.islink, (f"{path}/{each}" for each in os.listdir(path))):
            if (status := os.lstat(link)).st_ctime_ns >= since:
                self._link(link, status)
        known = self.before.get(directory.identity)
        self.seen[directory.identity] = path
        looked = [parts[name] for name in _RUNS if name in parts]
        if known != path:
            looked += [*parts.values(), directory.status]
        moved = known not in (None, path, "unread")
        if moved or any(each.st_ctime_ns >= since for each in looked):
            self._add(path, 0, "a repository: Git runs what its configuration says")
            return
        for inner in ("hooks", "info/attributes"):
            self._inner(f"{path}/{inner}", since)

    def _inner(self, path: str, since: int) -> None:
        """Hooks and attributes of a repository."""
        try:
            names = [f"{path}/{each}" for each in os.listdir(path)] if os.path.isdir(path) else []
            if any(os.lstat(each).st_ctime_ns >= since for each in (path, *names)):
                self._add(path, 2, "Git runs files there")
        except OSError:
            pass

    def _unread(self, directory: _Directory, fault: OSError) -> None:
        if isinstance(fault, FileNotFoundError):
            return
        self.seen[directory.identity] = "unread"
        if directory.status.st_ctime_ns >= directory.since:
            self._add(directory.path, 4, f"cannot be read: {fault.strerror}")

    def _add(self, path: str, rank: int, what: str) -> None:
        if what != _SETS_ID and self._where.scope.is_persistent(path):
            return
        if path not in self._found or rank < self._found[path][0]:
            self._found[path] = rank, what
