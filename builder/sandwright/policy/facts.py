"""Facts of a host that a policy needs, as a value: recorded once, kept as JSON, carried to any machine.

Resolving and rendering a policy use these facts and nothing else of the host, so a macOS profile can be
rendered and tested on Linux, and the same policy with the same facts gives the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal

from sandwright.documents import strictjson
from sandwright.documents.decode import decode
from sandwright.documents.document import without_positions
from sandwright.documents.model import ValueCheck
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.policy import spelling
from sandwright.questions import EntryKind, is_process

System = Literal["linux", "darwin"]

SCHEMA = 2

DARWIN_LINKS: Mapping[str, str] = {
    "/etc": "private/etc",
    "/tmp": "private/tmp",  # noqa: S108 - the name of a link, nothing is created there
    "/var": "private/var",
    "/home": "/System/Volumes/Data/home",
}
"""Links at the root of every macOS, used where the facts don't say otherwise."""

FIRMLINKS = (
    "/AppleInternal", "/Applications", "/Library", "/System/Library/Assets", "/System/Library/AssetsV2",
    "/System/Library/Caches", "/System/Library/PreinstalledAssets", "/System/Library/PreinstalledAssetsV2",
    "/System/Library/Speech", "/Users", "/Volumes", "/cores", "/opt", "/private", "/pkg", "/usr/libexec/cups",
    "/usr/local", "/usr/share/snmp",
)  # fmt: skip
"""Directories of macOS' data volume that have a second name at the root (/usr/share/firmlinks, macOS 10.15+).

The kernel reports the name at the root, so `/System/Volumes/Data/Users/x` is `/Users/x`.
"""


KEPT = ".local/state/sandwright"
"""The directory of sandboxes' persistent files, below the home."""


STATE_KEYS = f"{KEPT}/keys"
"""The directory of sandwright's keys, below the home: beside the sandboxes' files, and in none of them."""


def persistent_directories(home: str, project: str) -> dict[str, str]:
    """The persistent directories of sandboxes, by variable: a user's `$STATE`, and `$CACHE` of a project.

    Programs of the host look for nothing in either of them.
    """
    base = f"{home}/{KEPT}"
    return {"STATE": f"{base}/state", "CACHE": f"{base}/caches/{_directory_name(project)}"}


def private_home(home: str, project: str) -> str:
    """The directory that a project's sandboxes have as home with `filesystem.home: private`.

    It is not in `$CACHE`, where a program could replace it by a link while another sandbox starts.
    """
    return f"{home}/{KEPT}/homes/{_directory_name(project)}"


def _directory_name(project: str) -> str:
    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{project.rpartition('/')[2][:40]}-{digest[:12]}"


@dataclass(frozen=True)
class HostEntry:
    """The entry at a path. `target` is the text of a symbolic link, and empty for everything else."""

    kind: EntryKind
    target: str = ""


Followed = tuple[str, tuple[tuple[str, str], ...]]
"""The canonical form of a path, and each link on the way: where it is (canonical) and its text."""


class AskedEntries(Mapping[str, HostEntry]):
    """Entries that are looked up on a host one by one. `followed` are the paths followed in them."""

    followed: dict[str, Followed]


class RecordedEntries(dict[str, HostEntry]):
    """The entries of a recording, which refuses to answer about a path that was not recorded.

    A plain dict answers instead that nothing is there, which suits facts made up for a test.
    """

    def __init__(self, entries: Mapping[str, HostEntry], absent: Collection[str]) -> None:
        """`absent` are the paths at which nothing was."""
        super().__init__(entries)
        self._absent = frozenset(absent)

    def get(self, path: str, default: object = None) -> HostEntry | None:  # type: ignore[override]  # noqa: ARG002
        """The entry at a path, None for nothing. Raise UsageError for a path without a record."""
        if path not in self and not is_known(path, self, self._absent):
            raise UsageError(
                f"the facts do not cover {path}: record them again with `sandwright facts` on their host"
            )
        return super().get(path)


def is_known(path: str, entries: Mapping[str, HostEntry], absent: Collection[str]) -> bool:
    """Whether a recording covers a path: also as nothing, below a path that is absent or no directory."""
    if path in absent or path in entries or is_process(path) or spelling.has_undecodable_bytes(path):
        return True
    above = path.rpartition("/")[0] or "/"
    if path == above or (above in entries and entries[above].kind == "directory"):
        return False
    return above in entries or is_known(above, entries, absent)


def _decode_entry(value: object) -> HostEntry:
    match value:
        case ["symlink", str(target)] if target:
            return HostEntry("symlink", target)
        case "directory" | "file" | "socket" | "device" | "fifo":
            return HostEntry(value)
    raise ValueError('must be a kind, or ["symlink", target]')


def _check_plain_path(path: str) -> str:
    if path != spelling.plain_spelling(path):
        raise ValueError(f"must be an absolute path without '.', '..' or double slashes, not {path!r}")
    return path


def _user_name(name: str) -> str:
    if not re.fullmatch(r"[^\x00-\x20:/\x7f]+", name):
        raise ValueError(f"cannot be the name of a user: {name!r}")
    return name


def _user_id(number: int) -> int:
    if not 0 <= number < (1 << 32) - 1:
        raise ValueError(f"must be between 0 and 4294967294, not {number}")
    return number


def _check_byte_count(number: int) -> int:
    if number < 0:
        raise ValueError(f"must not be less than 0: {number}")
    return number


PlainPath = Annotated[str, ValueCheck(_check_plain_path)]
CERTIFICATES = "network.ca"
"""The key of the authorities' certificates in `texts`. The first line is `# PATH`, the rest certificates."""

TextName = Annotated[str, ValueCheck(lambda name: name if name == CERTIFICATES else _check_plain_path(name))]
PathOrNone = Annotated[str, ValueCheck(lambda path: path and _check_plain_path(path))]
UserName = Annotated[str, ValueCheck(_user_name)]
UserId = Annotated[int, ValueCheck(_user_id)]
Bytes = Annotated[int, ValueCheck(_check_byte_count)]


@dataclass(frozen=True)
class HostFacts:
    """The properties of one host on which one policy depends.

    `entries` holds the files at the paths of the policy, and the directories and links on the way to them;
    `absent` holds the missing paths. Facts with `absent` from a file cover only these paths; for other facts,
    all other paths do not exist. `tmp` is the temporary directory as the sandboxed program sees it: `/tmp` on
    Linux, on macOS a directory of this project's own, as Seatbelt can't put one in another's place.
    `environment` holds the variables that paths of the policy use, never a secret. `autorun` are the paths
    that are protected since something is there already (`policy.nested`). `git_directories` are the
    repositories' own directories inside writable paths: `.git`, and those that submodules and linked work
    trees keep elsewhere. `git_files` are the files that lead Git to one of them, and those that configuration
    names, by path, each with its kind: see `repositories.GitFile`. `git_worktree` is, where the project is a
    linked work tree, its own directory in the repository and the repository's, and `git_worktree_fault` why
    they are not trusted. `sockets` are the listening Unix sockets where the policy shows the host. `texts`
    holds the files that the policy takes over, by canonical path: the profile that `process.seccomp` names.
    `installation` are the directories inside writable ones from which this program and its interpreter are
    loaded. `reserved_hidden` and `reserved_readonly` are sandwright's own directories where the environment
    names others than those below the home (`policy.reserved`), `trusted` those of images and engines
    (`policy.trusted`). `account_home` is the home of the account if HOME is another directory: paths denied
    below `~` are denied there, too. `unsearchable` are, where root looked, directories on the way to paths
    that the policy names, and to `sockets`, that root can't pass without capabilities, as other users closed
    them. `mount_aliases` are the other paths at which mounts show a path that the policy restricts, or
    something in it. `case_sensitive` is about the volume of the home directory. `memory` are the machine's
    bytes, 0 if unknown, `landlock` the version of the kernel's Landlock, 0 without, and `controllers` its
    cgroup controllers (cgroups(7)): `memory`, `cpu`, `pids`.
    """

    os: System
    home: PlainPath
    project: PlainPath
    user: UserName = "user"
    uid: UserId = 1000
    gid: UserId = 1000
    tmp: PlainPath = "/tmp"  # noqa: S108 - inside the sandbox
    cwd: PathOrNone = ""
    platform: str = "linux/amd64"
    kernel: str = ""
    case_sensitive: bool = True
    memory: Bytes = 0
    landlock: Bytes = 0
    controllers: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[PlainPath, Annotated[HostEntry, ValueCheck(_decode_entry, raw=True)]] = field(
        default_factory=dict
    )
    autorun: tuple[PlainPath, ...] = ()
    git_directories: tuple[PlainPath, ...] = ()
    git_files: Mapping[PlainPath, str] = field(default_factory=dict)
    sockets: tuple[PlainPath, ...] = ()
    texts: Mapping[TextName, str] = field(default_factory=dict)
    installation: tuple[PlainPath, ...] = ()
    reserved_hidden: tuple[PlainPath, ...] = ()
    reserved_readonly: tuple[PlainPath, ...] = ()
    trusted: tuple[PlainPath, ...] = ()
    account_home: PathOrNone = ""
    git_worktree: tuple[PlainPath, ...] = ()
    git_worktree_fault: str = ""
    unsearchable: tuple[PlainPath, ...] = ()
    mount_aliases: Mapping[PlainPath, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[PlainPath, ...] = ()

    @property
    def private_home(self) -> str:
        """The directory that sandboxes have as home with `filesystem.home: private`."""
        return private_home(self.home, self.project)

    @property
    def homes(self) -> tuple[str, ...]:
        """HOME, and the account's home where that is another."""
        return (self.home, self.account_home) if self.account_home else (self.home,)

    def with_aliases(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Paths, and the other paths at which mounts show them."""
        return tuple(
            dict.fromkeys(
                each
                for path in paths
                for each in (path, *self.mount_aliases.get(path, ()))
                if each == path or each == spelling.plain_spelling(each)
            )
        )

    @cached_property  # thousands of paths are expanded with them
    def variables(self) -> Mapping[str, str]:
        """The values that a path of a policy may use, by the variable's name."""
        builtin = {
            "PROJECT": self.project,
            "HOME": self.home,
            "TMP": self.tmp,
            "CWD": self.cwd or self.project,
            **persistent_directories(self.home, self.project),
            "UID": str(self.uid),
        }
        return {**self.environment, **builtin}

    @cached_property  # each path is followed many times, most of them in few directories
    def followed(self) -> dict[str, Followed]:
        """The results of `paths.follow`, by path: shared by all facts that have the same live entries."""
        return self.entries.followed if isinstance(self.entries, AskedEntries) else {}

    def kind(self, path: str) -> EntryKind | None:
        """The entry at a path, links not followed; None for nothing."""
        entry = self.entries.get(path)
        if entry is None and self.os == "darwin" and path in DARWIN_LINKS:
            return "symlink"
        return entry.kind if entry else None

    def link(self, path: str) -> str | None:
        """The text of the symbolic link at a path, None where there is none."""
        entry = self.entries.get(path)
        if entry is None:
            return DARWIN_LINKS.get(path) if self.os == "darwin" else None
        return entry.target if entry.kind == "symlink" else None

    def is_known(self, path: str) -> bool:
        """Whether a path has a record."""
        return is_known(path, self.entries, frozenset(self.absent))

    def closed(self) -> "HostFacts":
        """The same facts, with nothing at unrecorded paths, for questions about any path."""
        made_up = not isinstance(self.entries, RecordedEntries)
        return self if made_up else replace(self, entries=dict(self.entries))

    def with_entries(self, entries: Mapping[str, HostEntry]) -> "HostFacts":
        """The same facts, and some more paths."""
        return replace(self, entries={**self.entries, **entries})

    def to_json(self) -> str:
        """The facts as JSON with sorted keys, for `from_json`."""
        data = {"schema": SCHEMA, **asdict(self.closed())}
        data["entries"] = {
            path: [entry.kind, entry.target] if entry.target else entry.kind
            for path, entry in self.entries.items()
        }
        return json.dumps(data, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, file: str = "facts") -> "HostFacts":
        """The facts that `to_json` wrote. Raise DocumentError that names every field with a fault.

        `file` is the name for messages.
        """
        try:
            document = without_positions(strictjson.loads_record(text), file=file)
        except ValueError as error:
            raise DocumentError(file, [Problem(0, 0, "", f"is not JSON: {error}")]) from None
        if isinstance(document.data, dict):
            version = document.data.pop("schema", None)
            if version != SCHEMA:
                document.refuse([(("schema",), f"must be {SCHEMA}, not {version!r}: record the facts again")])
        found = decode(cls, document)
        return replace(found, entries=RecordedEntries(found.entries, found.absent)) if found.absent else found
