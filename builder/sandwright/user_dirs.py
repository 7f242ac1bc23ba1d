"""The user's directories: of renderings, by XDG_CACHE_HOME, and of running sessions, by XDG_RUNTIME_DIR.

Only the user can write both. Their files control sandboxes, so a directory that another user could write is
not used, nor /tmp, where other users and sandboxes can create names.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable, Mapping

from sandwright import environment
from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.questions import is_placeholder

NAME = "sandwright"

STATE = ".local/state/sandwright"
"""Below the home; no variable moves it."""

ACCOUNTS = f"/run/{NAME}-egress"
"""Root's directory for files that other accounts must reach; see `accounts_directory`."""

INSIDE = ("/dev/.sandwright-init", "/.sandwright-init")
"""One of them is in a sandbox (docs/agents.md): under bwrap the first, in containers the second."""

VARIABLES = ("HOME", "SANDWRIGHT_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
"""The variables that decide where these directories are."""


def cache() -> str:
    """The directory of rendered sandboxes and preflight results, below `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home(), ".cache")
    return os.path.join(base, NAME, "sessions")


def runtime() -> str:
    """The directory of running sessions: in `$XDG_RUNTIME_DIR`, `/run` for root, else in `~/.cache`.

    A runtime directory of another user, as `sudo -E` leaves it, is not used, nor is one in which other users
    can rename files. Launchers choose the same.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and _is_ours_to_rename(base):
        return os.path.join(base, NAME)
    if os.geteuid() == 0 and os.path.isdir("/run"):
        return os.path.join("/run", NAME)
    return os.path.join(home(), ".cache", NAME, "run")


def _is_ours_to_rename(directory: str) -> bool:
    try:
        status = os.stat(directory)
    except OSError:
        return False
    others = bool(status.st_mode & 0o022) and not status.st_mode & stat.S_ISVTX
    return status.st_uid == os.geteuid() and not others


def later_runtime() -> tuple[str, ...]:
    """The result of `runtime` if `$XDG_RUNTIME_DIR` became a directory of this user; none if it is."""
    path = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), NAME)
    return (path,) if path.startswith("/") and path != runtime() else ()


def root_directories() -> tuple[str, ...]:
    """Root's directories in /run: of sessions without `$XDG_RUNTIME_DIR`, and of all proxies."""
    return (f"/run/{NAME}", ACCOUNTS) if os.geteuid() == 0 and os.path.isdir("/run") else ()


def accounts_directory() -> str:
    """Root's directory for files that other accounts must reach, like the proxy's; only root writes there.

    A rendering that reserves it may have made it closed. Raise HostError when it is not root's alone.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(ACCOUNTS, 0o700)
    status = os.lstat(ACCOUNTS)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o066:
        raise error(f"{ACCOUNTS} is not a directory of root's that others only pass through")
    if stat.S_IMODE(status.st_mode) != 0o711:
        os.chmod(ACCOUNTS, 0o711)  # noqa: S103 - others pass through it, with any umask
    return ACCOUNTS


def runs() -> str:
    """The parent of run directories, which are named like the containers."""
    return os.path.join(runtime(), "runs")


def downloads(environment: Mapping[str, str]) -> str:
    """The cache of downloads and programs: `$SANDWRIGHT_CACHE`, or below XDG_CACHE_HOME or `~/.cache`."""
    configured, shared = environment.get("SANDWRIGHT_CACHE"), environment.get("XDG_CACHE_HOME", "")
    if configured:
        return os.path.join(os.getcwd(), os.path.expanduser(configured))
    # The XDG base directory specification says to ignore relative paths.
    return os.path.join(shared if shared.startswith("/") else os.path.expanduser("~/.cache"), NAME)


def scratch() -> str:
    """The parent of temporary directories whose files the host executes or obeys. Made if it is not there.

    Not in $TMPDIR: a policy may share that with a sandbox, or it is in a project. Raise HostError.
    """
    return private(os.path.join(private(cache()), "scratch"))


def visible_scratch_path(uid: int) -> str:
    """The path of `visible_scratch` for a user. Rendering reserves it, so it does not depend on variables."""
    return f"/var/tmp/{NAME}-{uid}"  # noqa: S108 - no other user's directory is used


def visible_scratch() -> str:
    """The parent of temporary directories that sandboxes of trials and proofs see. Made if it is not there.

    Others pass through it. No other sandbox can write it (`policy.reserved`), which $TMPDIR does not ensure.
    Where /var/tmp can't be written, it is $TMPDIR. Raise HostError for another user's directory or a link.
    """
    path = visible_scratch_path(os.geteuid())
    parent = os.path.dirname(path)
    if not os.path.lexists(path) and not os.access(parent, os.W_OK):
        return tempfile.gettempdir()
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        return tempfile.gettempdir()
    try:
        make(path)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise error(f"{path} is not a directory of this user")
        if stat.S_IMODE(status.st_mode) != 0o711:
            os.chmod(path, 0o711)  # noqa: S103 - the account of `user` passes through it
    except OSError as fault:
        raise error(f"cannot create {path}: {fault.strerror}") from fault
    return path


def config() -> str:
    """The directory of the user's policy and approvals, below `$XDG_CONFIG_HOME` or `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if base.startswith("/") else os.path.join(home(), ".config"), NAME)


def keys() -> str:
    """The directory of the key that authenticates the render cache. No variable moves it."""
    return os.path.join(home(), STATE, "keys")


def workspaces() -> str:
    """The copies of projects that runs write before their changes land; no variable but HOME moves them."""
    return os.path.join(home(), STATE, "workspaces")


def hidden_directories() -> tuple[str, ...]:
    """The directories that are hidden from every sandbox (`policy.reserved`), as variables spell them."""
    return runtime(), cache(), keys()


def account_home() -> str:
    """The account's home, regardless of HOME; empty if it has none.

    If tox or `env HOME=` sets another HOME for one run, data of other runs must stay hidden.
    """
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def readonly() -> tuple[str, ...]:
    """The directories that no sandbox writes, as programs outside take files from there."""
    return tuple(dict.fromkeys((os.path.dirname(cache()), downloads(os.environ), config())))


def memory() -> str:
    """The file of directories that variables of earlier runs named, which later runs reserve, too."""
    return os.path.join(keys(), "directories")


def remembered_directories() -> dict[str, list[str]]:
    """The directories of earlier runs, also removed ones, from the reserved paths."""
    try:
        with open(os.open(memory(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = strictjson.loads_record(file.read())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def variables_directory(path: str) -> str:
    """The directory that a variable named, for one of the reserved paths that it led to.

    sandwright's and Podman's directories are below it, and may come to be later.
    """
    above, name = os.path.split(path)
    return above if name in (NAME, "containers") else path


def remember_directories(directories: Mapping[str, Iterable[str]]) -> None:
    """Add directories to the file, and drop missing ones. Raise HostError if it cannot be written."""
    before = remembered_directories()
    existing = {
        kind: [path for path in before.get(kind, ()) if os.path.isdir(variables_directory(path))]
        for kind in directories
    }
    now = {kind: sorted({*existing[kind], *paths}) for kind, paths in directories.items()}
    if now != before:
        write(memory(), strictjson.dumps(now))


def make(path: str) -> None:
    """Create a directory and its missing parents: closed to others, even under a default access list.

    `os.makedirs` makes the ones above open to others. Several processes may make the same ones at once.
    """
    try:
        _make_one(path)
    except FileNotFoundError:
        make(os.path.dirname(path))
        _make_one(path)


def _make_one(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def private(path: str, *, passed: bool = False) -> str:
    """Make a directory that is ours alone, if it is not there; give its path.

    With `passed`, users whom the owner lets pass through it may go on doing so: the bit of the
    group is then that of an access list's mask (acl(5)). Raise HostError when it is another user's, a link,
    or open to others.
    """
    try:
        make(path)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise error(f"{path} is not a directory of this user")
        if status.st_mode & (0o067 if passed else 0o077):
            os.chmod(path, 0o700)
    except OSError as fault:
        raise error(f"cannot create {path}: {fault.strerror}{_directory_advice(path)}") from fault
    return path


def _directory_advice(path: str) -> str:
    for variable, directory in (("XDG_RUNTIME_DIR", runtime()), ("XDG_CACHE_HOME", os.path.dirname(cache()))):
        if f"{path}/".startswith(f"{directory}/"):
            return f"; set {variable} to a directory that this user can write"
    return ""


def is_inside_sandbox() -> bool:
    """Whether this process runs in a sandbox of ours, by a file or a variable that it has."""
    return environment.INSIDE.name in os.environ or any(map(os.path.lexists, INSIDE))


def find_above(name: str) -> str:
    """The nearest file of a name in the current directory or above it; its mere name without any.

    A launcher's placeholder, which blocks the name during a run, is not one. Only directories of this user's
    are searched, on one file system, below the home or apart from it: files of others in a directory above
    are not ours. Raise HostError where the current directory is gone.
    """
    try:
        folder = os.getcwd()
    except OSError:
        raise error("the current directory was removed: change into one that is there") from None
    status, at_home = os.stat(folder), os.path.realpath(home())
    while not is_there(os.path.join(folder, name)):
        folder = os.path.dirname(folder)
        found = os.stat(folder)
        apart = found.st_dev != status.st_dev or found.st_uid != os.geteuid()
        if apart or folder in ("/", at_home):
            return name
    return os.path.join(folder, name) if folder != os.getcwd() else name


def is_there(path: str) -> bool:
    """Whether something is at a path that no launcher put there for the time of a run."""
    try:
        return not is_placeholder(path, os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def holds_home(directory: str) -> bool:
    """Whether a directory is the user's home, or above it: as a project, all of it could be written."""
    real, at_home = os.path.realpath(directory), os.path.realpath(home())
    return real in ("/", at_home) or at_home.startswith(f"{real}/")


def write(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write a file beside its place, and rename it. Raise HostError, for a full disk too."""
    part = f"{path}.{writer()}.part"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as fault:
        raise error(f"cannot write {path}: {fault.strerror}") from fault


def writer() -> str:
    """PID and inode of the PID namespace: this process, in the names of files that it has not finished."""
    try:
        return f"{os.getpid()}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{os.getpid()}-0"


def home() -> str:
    """The user's home directory. Raise HostError when it is unknown."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        raise error("there is no home directory: set HOME, or XDG_CACHE_HOME") from None


def error(*lines: str) -> Exception:
    """A HostError with these lines."""
    return HostError(*lines)
