"""What a policy needs to know of a host, as a value: recorded once, kept as JSON, carried to any machine.

Whoever resolves and renders a policy gets these facts and nothing else of the host, so a macOS profile is
made and tested on Linux, and the same policy with the same facts gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sandwright.errors import DocumentError, Problem
from sandwright.policy import spelling
from sandwright.questions import EntryKind

System = Literal["linux", "darwin"]

SCHEMA = 1

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
"""Where sandboxes keep what outlives a run, below the home."""


STATE_KEYS = f"{KEPT}/keys"
"""Where sandwright keeps its keys, below the home: beside what sandboxes keep, and in none of them."""


def kept(home: str, project: str) -> dict[str, str]:
    """Where sandboxes keep what outlives a run, by variable: a user's `$STATE`, and `$CACHE` of a project.

    Programs of the host look for nothing in either of them.
    """
    place = f"{home}/{KEPT}"
    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()
    name = f"{project.rpartition('/')[2][:40]}-{digest[:12]}"
    return {"STATE": f"{place}/state", "CACHE": f"{place}/caches/{name}"}


@dataclass(frozen=True)
class HostEntry:
    """Something at a path. `target` is a symbolic link's text, empty for everything else."""

    kind: EntryKind
    target: str = ""


@dataclass(frozen=True)
class HostFacts:
    """One host, as far as one policy looks at it.

    `entries` holds what was found at the paths that matter, and at the directories and links on the way to
    them; what is not in it does not exist. `tmp` is the temporary directory as the sandboxed program sees it:
    `/tmp` on Linux, on macOS a directory of this project's own, as Seatbelt can't put one in another's place.
    `environment` holds the variables that paths of the policy use, never a secret. `autorun` are the
    paths that are protected since something is there already (`policy.nested`). `git_directories` are the
    repositories' own directories inside writable paths: `.git`, and those that submodules and linked work
    trees keep elsewhere. `git_files` are the files that lead Git to one of them, and those that configuration
    names, by path, with what they are: see `repositories.GitFile`. `git_worktree` is, where the
    project is a linked work tree, its own directory in the repository and the repository's, and
    `git_worktree_fault` why they are not believed. `sockets` are the Unix sockets that
    somebody listens on where the policy shows the host. `texts` holds the files that the policy takes over,
    by canonical path: the profile that `process.seccomp` names. `installation` are the directories inside
    writable ones from which this program and its interpreter are loaded. `reserved_hidden` and
    `reserved_readonly` are sandwright's own directories where the environment names others than those below
    the home (`policy.reserved`), `trusted` those of images and engines (`policy.trusted`). `account_home` is
    the home that the account has, where HOME is another: what is denied below `~` is denied there, too.
    `unsearchable` are, where root looked, directories on the way to `named`
    paths and `sockets` that root can't pass without capabilities, as other users closed them.
    `case_sensitive` is about the volume of the home directory. `memory` are the machine's bytes, 0 when
    nobody knows, and `controllers` what control groups can count on it (cgroups(7)): `memory`, `cpu`, `pids`.
    """

    os: System
    home: str
    project: str
    user: str = "user"
    uid: int = 1000
    gid: int = 1000
    tmp: str = "/tmp"  # noqa: S108 - what is inside the sandbox
    cwd: str = ""
    platform: str = "linux/amd64"
    kernel: str = ""
    case_sensitive: bool = True
    memory: int = 0
    controllers: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, HostEntry] = field(default_factory=dict)
    autorun: tuple[str, ...] = ()
    git_directories: tuple[str, ...] = ()
    git_files: Mapping[str, str] = field(default_factory=dict)
    sockets: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    installation: tuple[str, ...] = ()
    reserved_hidden: tuple[str, ...] = ()
    reserved_readonly: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    account_home: str = ""
    named: tuple[str, ...] = ()
    git_worktree: tuple[str, ...] = ()
    git_worktree_fault: str = ""
    unsearchable: tuple[str, ...] = ()

    @property
    def homes(self) -> tuple[str, ...]:
        """HOME, and the account's home where that is another."""
        return (self.home, self.account_home) if self.account_home else (self.home,)

    @property
    def variables(self) -> dict[str, str]:
        """The values that a path of a policy may use, by the variable's name."""
        own = {
            "PROJECT": self.project,
            "HOME": self.home,
            "TMP": self.tmp,
            "CWD": self.cwd or self.project,
            **kept(self.home, self.project),
            "UID": str(self.uid),
        }
        return {**self.environment, **own}

    def kind(self, path: str) -> EntryKind | None:
        """What is at a path, links not followed; None for nothing."""
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

    def with_entries(self, entries: Mapping[str, HostEntry]) -> HostFacts:
        """The same facts, and some more paths."""
        return replace(self, entries={**self.entries, **entries})

    def to_json(self) -> str:
        """The facts as JSON with sorted keys, for `from_json`."""
        data = {"schema": SCHEMA, **asdict(self)}
        data["entries"] = {
            path: [entry.kind, entry.target] if entry.target else entry.kind
            for path, entry in self.entries.items()
        }
        return json.dumps(data, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, file: str = "facts") -> HostFacts:
        """The facts that `to_json` wrote. Raise DocumentError that names every field with a fault.

        `file` is the name for messages.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DocumentError(file, [Problem(0, 0, "", f"is not JSON: {error}")]) from None
        problems = [Problem(0, 0, name, message) for name, message in _faults(data)]
        if problems:
            raise DocumentError(file, problems)
        return cls(**_decoded(data))


_PATHS = (
    *("autorun", "git_directories", "git_worktree", "sockets", "installation", "named", "unsearchable"),
    *("reserved_hidden", "reserved_readonly", "trusted"),
)
_LISTS = (*_PATHS, "controllers")

_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("os", "home", "project", "user", "tmp", "cwd", "platform", "kernel"), str),
    **dict.fromkeys(("account_home", "git_worktree_fault"), str),
    **dict.fromkeys(("uid", "gid", "memory"), int),
    "case_sensitive": bool,
    **dict.fromkeys(("environment", "entries", "git_files", "texts"), dict),
    **dict.fromkeys(_LISTS, list),
}
_KINDS = {str: "text", int: "a whole number", bool: "true or false", dict: "a mapping", list: "a list"}
_REQUIRED = ("os", "home", "project")
_ENTRY_KINDS = ("directory", "file", "symlink", "socket", "device", "fifo")


def _faults(data: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(data, dict):
        yield "", "must be a mapping"
        return
    if data.get("schema") != SCHEMA:
        yield "schema", f"must be {SCHEMA}, not {data.get('schema')!r}"
        return
    for name in _REQUIRED:
        if name not in data:
            yield name, "is required"
    for name, value in data.items():
        if name != "schema" and name not in _TYPES:
            yield name, "no such key"
        elif name != "schema" and type(value) is not _TYPES[name]:
            yield name, f"must be {_KINDS[_TYPES[name]]}"
        else:
            yield from _content_faults(name, value)


def _content_faults(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401, C901, PLR0912 - a table
    match name:
        case "os" if value not in ("linux", "darwin"):
            yield name, f"must be linux or darwin, not {value!r}"
        case "home" | "project" | "tmp":
            yield from _path_faults(name, value)
        case "cwd" | "account_home" if value:
            yield from _path_faults(name, value)
        case "user" if not re.fullmatch(r"[^\x00-\x20:/\x7f]+", value):
            yield name, f"can't be the name of a user: {value!r}"
        case "uid" | "gid" if not 0 <= value < (1 << 32) - 1:
            yield name, f"must be between 0 and 4294967294, not {value}"
        case "memory" if value < 0:
            yield name, f"must not be less than 0: {value}"
        case "controllers" if not all(isinstance(each, str) for each in value):
            yield name, "must hold text"
        case "environment":
            for key, text in value.items():
                if not isinstance(text, str):
                    yield f"environment.{key}", "must be text"
        case _ if name in _PATHS:
            for index, path in enumerate(value):
                yield from _path_faults(f"{name}[{index}]", path)
        case "entries":
            for path, entry in value.items():
                yield from _entry_faults(path, entry)
        case "texts" | "git_files":
            for path, text in value.items():
                yield from _text_faults(name, path, text)


def _entry_faults(path: str, entry: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - whatever JSON holds
    where = f"entries[{json.dumps(path)}]"
    yield from _path_faults(where, path)
    if isinstance(entry, list):
        if len(entry) != 2 or entry[0] != "symlink" or not isinstance(entry[1], str) or not entry[1]:
            yield where, 'must be a kind, or ["symlink", target]'
    elif entry not in _ENTRY_KINDS or entry == "symlink":
        yield where, 'must be a kind, or ["symlink", target]'


def _text_faults(name: str, path: str, text: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - whatever JSON holds
    where = f"{name}[{json.dumps(path)}]"
    yield from _path_faults(where, path)
    if not isinstance(text, str):
        yield where, "must be text"


def _path_faults(where: str, path: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(path, str):
        yield where, "must be text"
    elif path != spelling.plain(path):
        yield where, f"must be an absolute path without '.', '..' or double slashes, not {path!r}"


def _decoded(data: Mapping[str, Any]) -> dict[str, Any]:
    decoded = {name: value for name, value in data.items() if name != "schema"}
    decoded["entries"] = {
        path: HostEntry(*entry) if isinstance(entry, list) else HostEntry(entry)
        for path, entry in data.get("entries", {}).items()
    }
    for name in _LISTS:
        decoded[name] = tuple(data.get(name, ()))
    return decoded
