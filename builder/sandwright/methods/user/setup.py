"""Plans an account for a project, and its end: steps that first describe their actions, then execute them.

A file of root's beside the account's home records each step, so that removal undoes exactly these:
the granted rights, the mode of the project's directory, the owner of the project's
files.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import process
from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright.methods.user import sharing
from sandwright.methods.user.render import ACCOUNTS, DedicatedAccount
from sandwright.progress import SILENT, Progress

RECORD = "record.json"
"""The record of created objects, beside the account's home."""

NO_HOME = "/nonexistent"
"""The home that passwd(5) has: sshd, mail programs and systemd obey files in one that runs can write."""

SCHEMA = 1
_LIMIT = 60.0
_TREE = 600.0


@dataclass(frozen=True)
class SharedTrees:
    """A project, and the other trees that its policy makes writable. `user` is the future caller of runs.

    `closed` are canonical paths to which the account gets no rights, though they lie in one of the trees.
    """

    project: Path
    others: tuple[Path, ...]
    user: int
    closed: frozenset[str] = frozenset()

    @property
    def trees(self) -> tuple[Path, ...]:
        """All directories that are shared with the account."""
        return (self.project, *self.others)


@dataclass(frozen=True)
class AccountStep:
    """One step of a plan. `does` returns messages for the user."""

    says: tuple[str, ...]
    does: Callable[[], Sequence[str]]

    def describe(self) -> Sequence[str]:
        """The actions of the step."""
        return self.says

    def execute(self, progress: Progress) -> Sequence[str]:
        """Do it. Raise HostError, CommandFailed or ToolMissing."""
        with progress.step(self.says[0]):
            return self.does()


@dataclass(frozen=True)
class AccountPlan:
    """A list of steps, which is empty if there is nothing to do."""

    account: str
    steps: tuple[AccountStep, ...] = field(default=())

    def describe(self) -> list[str]:
        """The lines to show before anything is done."""
        return [line for step in self.steps for line in step.describe()]

    def execute(self, progress: Progress = SILENT) -> list[str]:
        """Do all steps; return remarks for the user.

        Completed steps before a failure stay in effect and are not repeated.
        """
        return [note for step in self.steps for note in step.execute(progress)]


def plan_account(account: DedicatedAccount, workspace: SharedTrees) -> AccountPlan:
    """Plan the creation of an account, or of its missing parts. Raise UsageError for an unsuitable tree."""
    for tree in workspace.trees:
        _check_tree(tree)
    return AccountPlan(account.name, tuple(_making(account, workspace)))


def plan_removal(account: DedicatedAccount) -> AccountPlan:
    """Plan the removal of an account. Raise UsageError if there is none, HostError if it has processes."""
    uid = uid_of(account.name)
    record = _read_account_record(account)
    if uid is None and record is None:
        raise UsageError(f"there is no account {account.name}")
    running = [] if uid is None else processes(uid)
    if running:
        raise HostError(
            f"{account.name} runs processes {', '.join(map(str, running))}: end its sessions first"
        )
    return AccountPlan(account.name, tuple(_removing(account, uid, record or _Record("", 0, (), (), 0))))


def uid_of(name: str) -> int | None:
    """The number of an account, None where there is none."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def processes(uid: int) -> list[int]:
    """The processes of a user, by number."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [int(entry.name)] if entry.stat().st_uid == uid else []
    return sorted(found)


@dataclass(frozen=True)
class _Record:
    """The record of the set-up: `passed` may be passed through; `mode` is the project's before."""

    project: str
    uid: int
    shared: tuple[str, ...]
    passed: tuple[str, ...]
    mode: int

    def encode(self) -> bytes:
        fields = {**self.__dict__, "schema": SCHEMA}
        return json.dumps(fields, indent=1, sort_keys=True).encode("utf-8", "surrogateescape") + b"\n"


def _read_account_record(account: DedicatedAccount) -> _Record | None:
    path = Path(account.home).parent / RECORD
    try:
        data = strictjson.loads_record(path.read_bytes())
        return _Record(
            data["project"], data["uid"], tuple(data["shared"]), tuple(data["passed"]), data["mode"]
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(f"cannot read {path}: {error}") from error


def _check_tree(tree: Path) -> None:
    """Refuse a directory in which an account must not write."""
    if not tree.is_dir():
        raise UsageError(f"cannot share {tree}: it is not a directory")
    owner = tree.stat().st_uid
    if len(tree.parts) <= 2 or any(tree == Path(each.pw_dir) for each in pwd.getpwall()):
        raise UsageError(f"{tree} is too much to share with an account: take a directory in it")
    if os.geteuid() not in (0, owner):
        raise UsageError(f"{tree} belongs to another user, who has to share it")


def _making(account: DedicatedAccount, workspace: SharedTrees) -> Iterator[AccountStep]:
    uid, before, project = uid_of(account.name), _read_account_record(account), workspace.project
    former = _former_trees(before, workspace) if uid is not None else []
    passed = _closed_parents(workspace.trees, -1 if uid is None else uid)
    record = _Record(
        str(project),
        workspace.user,
        tuple(map(str, workspace.trees)),
        tuple(dict.fromkeys([*(before.passed if before else ()), *map(str, passed)])),
        before.mode if before else stat.S_IMODE(project.stat().st_mode),
    )
    base = Path(account.home).parent
    for tree in former:
        yield AccountStep(_revoking_lines(tree), _take_ownership(tree, uid or 0))
    if uid is None:
        says = f"create the system account {account.name}, without a password or a shell"
        yield AccountStep((says,), lambda: _useradd(account))
    elif pwd.getpwnam(account.name).pw_dir != NO_HOME:
        says = f"give {account.name} the home {NO_HOME} in /etc/passwd, for which the host has no files"
        yield AccountStep((says,), lambda: _usermod(account))
    if before != record or not base.is_dir():
        says = f"create {base}: its home (0700), a directory for the root of its runs, and {RECORD}"
        yield AccountStep((says,), lambda: _make_directories(account, record))
    for directory in passed:
        says = f"let it pass through {directory}, without listing it (an entry --x)"
        yield AccountStep((says,), _through(account, directory))
    if project.stat().st_mode & stat.S_IRWXO:
        says = f"close {project} to all others (mode o-rwx), other projects' accounts among them"
        yield AccountStep((says,), _restrict_others(project, 0))
    for tree in workspace.trees:
        is_revoked = any(tree.is_relative_to(each) for each in former)
        if uid is None or is_revoked or sharing.read_acl(tree).permissions(uid) != 7:
            says = f"share {tree} and all in it with it (entries rwX, also for new files)"
            yield AccountStep((says,), _sharing(account, tree, workspace.closed))
    for path in sorted(map(Path, workspace.closed)):
        if uid is not None and path.exists() and sharing.read_acl(path).permissions(uid) is not None:
            yield AccountStep((f"revoke its rights over {path}",), _take_ownership(path, uid))


def _former_trees(before: _Record | None, workspace: SharedTrees) -> list[Path]:
    """The trees that were shared under an earlier policy, and are in none of now's."""
    shared = map(Path, before.shared if before else ())
    gone = (each for each in shared if not any(each.is_relative_to(tree) for tree in workspace.trees))
    return [each for each in gone if each.is_dir()]


def _revoking_lines(tree: Path) -> tuple[str, str]:
    return f"give its files in {tree} to the owner of {tree}", f"revoke its rights over {tree}"


def _closed_parents(trees: Sequence[Path], uid: int) -> list[Path]:
    """The directories above some trees that an account can't pass through."""
    above = dict.fromkeys(each for tree in trees for each in reversed(tree.parents))
    return [each for each in above if not sharing.can_traverse(each, uid)]


def _useradd(account: DedicatedAccount) -> Sequence[str]:
    _run_as_root(
        "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", NO_HOME,
        "--shell", "/usr/sbin/nologin", "--comment", "sandwright", account.name,
    )  # fmt: skip
    return ()


def _usermod(account: DedicatedAccount) -> Sequence[str]:
    _run_as_root("usermod", "--home", NO_HOME, account.name)
    return ()


def _make_directories(account: DedicatedAccount, record: _Record) -> Sequence[str]:
    base = Path(account.home).parent
    user = pwd.getpwnam(account.name)
    modes = {Path(ACCOUNTS).parent: "0755", Path(ACCOUNTS): "0711", base: "0755", Path(account.place): "0700"}
    for directory, mode in modes.items():
        _run_as_root("install", "-d", "-m", mode, str(directory))
    whose = ("-o", str(user.pw_uid), "-g", str(user.pw_gid))
    _run_as_root("install", "-d", "-m", "0700", *whose, account.home)
    # Git refuses a repository of another user without this setting (CVE-2022-24765).
    config = f'[safe]\n\tdirectory = "{_in_git(record.project)}"\n'.encode("utf-8", "surrogateescape")
    # The account may have made anything in its home, so root does nothing there.
    become = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--")
    write = 'PATH=/usr/bin:/bin; set -C; rm -rf "$1"; cat >"$1"'
    _run_as_root(*become, "/bin/sh", "-c", write, "sh", f"{account.home}/.gitconfig", stdin=config)
    _run_as_root("install", "-T", "-m", "0644", "/dev/stdin", str(base / RECORD), stdin=record.encode())
    return ()


def _in_git(value: str) -> str:
    """A value between quotes in Git's configuration (git-config(1))."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _through(account: DedicatedAccount, directory: Path) -> Callable[[], Sequence[str]]:
    def does() -> Sequence[str]:
        sharing.let_through(directory, pwd.getpwnam(account.name).pw_uid)
        return ()

    return does


def _restrict_others(project: Path, mode: int) -> Callable[[], Sequence[str]]:
    """Gives all others the rights in the last digit of a mode."""

    def does() -> Sequence[str]:
        project.chmod(stat.S_IMODE(project.stat().st_mode) & ~stat.S_IRWXO | mode & stat.S_IRWXO)
        return ()

    return does


def _sharing(account: DedicatedAccount, tree: Path, closed: frozenset[str]) -> Callable[[], Sequence[str]]:
    def does() -> Sequence[str]:
        skipped = sharing.share(tree, pwd.getpwnam(account.name).pw_uid, closed)
        return [f"{tree}: {each}" for each in skipped]

    return does


def _removing(account: DedicatedAccount, uid: int | None, record: _Record) -> Iterator[AccountStep]:
    base, project = Path(account.home).parent, Path(record.project)
    for tree in filter(Path.is_dir, map(Path, record.shared)):
        if uid is not None:
            yield AccountStep(_revoking_lines(tree), _take_ownership(tree, uid))
    if record.project and project.is_dir():
        others = f"{record.mode & stat.S_IRWXO:o}"
        yield AccountStep(
            (f"give all others their former access to {project} (mode o={others})",),
            _restrict_others(project, record.mode),
        )
    for directory in filter(Path.is_dir, map(Path, record.passed)):
        if uid is not None and sharing.read_acl(directory).permissions(uid) is not None:
            yield AccountStep((f"stop letting it pass through {directory}",), _keeping_out(directory, uid))
    if uid is not None:
        yield AccountStep((f"remove the system account {account.name}",), lambda: _userdel(account.name))
    if base.exists():
        yield AccountStep((f"remove {base}, its home with all that is in it",), lambda: _gone(base))


def _take_ownership(tree: Path, uid: int) -> Callable[[], Sequence[str]]:
    def does() -> Sequence[str]:
        owner = tree.stat()
        whose = f"{owner.st_uid}:{owner.st_gid}"
        # A process there may meanwhile replace a directory with a link, and a file with another user's file.
        chown = ("chown", "-h", f"--from={uid}", whose, "{}", "+")
        _run_as_root("find", str(tree), "-xdev", "-uid", str(uid), "-execdir", *chown, limit=_TREE)
        return [f"{tree}: {each}" for each in sharing.unshare(tree, uid)]

    return does


def _keeping_out(directory: Path, uid: int) -> Callable[[], Sequence[str]]:
    def does() -> Sequence[str]:
        sharing.keep_out(directory, uid)
        return ()

    return does


def _gone(base: Path) -> Sequence[str]:
    _run_as_root("rm", "-rf", "--one-file-system", str(base))
    _run_as_root("rmdir", "--ignore-fail-on-non-empty", ACCOUNTS, str(Path(ACCOUNTS).parent))
    return ()


def _userdel(name: str) -> Sequence[str]:
    _run_as_root("userdel", name)
    return ()


def _run_as_root(*words: str, stdin: bytes | None = None, check: bool = True, limit: float = _LIMIT) -> None:
    """Run a program as root. Raise HostError without the right to, CommandFailed, ToolMissing."""
    argv = words if os.geteuid() == 0 else ("sudo", "-n", "--", *words)
    process.run(*argv, stdin=stdin, check=check, timeout=limit)
