"""The render cache: finds the entry of an earlier rendering, and decides whether it is current or stale.

An entry belongs to a request (`RunRequest.identity`). It holds the prepared sandbox and the fingerprint:
every question to this machine that decided the rendering, with its answer. While all answers are the same,
rendering would give the same bytes, and is skipped. The fingerprint covers our own code and data, too: an
upgrade of sandwright makes every entry stale. The native command reads the same entries (docs/front.md).
Python uses this module for the runs that need it, such as those with options or a proxy.

The first line of an entry is the HMAC-SHA256 in hexadecimal of its file's name, a NUL, and the bytes after
that line (`cache_key`). An entry with any other first line is not used.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright import digests, inputs, user_dirs
from sandwright.documents.record import decode_record, encode_record
from sandwright.egress.proxy_plan import ProxyPlan
from sandwright.errors import RenderError
from sandwright.inputs import LiveHost, Recording
from sandwright.policy.agents import AGENTS
from sandwright.session import cache_key, state
from sandwright.session.entry import CacheEntry, entry_bytes, parse_entry, question_words
from sandwright.session.post_run_start import post_run_argv
from sandwright.session.scan_scope import ScanScope, known_file
from sandwright.session.session_record import SandboxRecord
from sandwright.session.trust import Loosened
from sandwright.visible import one_line

PLAN = "launch.plan"
"""The artifact that a native launcher reads: it copies streams, relays terminals and hands signals on."""


@dataclass(frozen=True, kw_only=True)
class SandboxStart:
    """The part of a cache entry that only Python reads.

    `terminal_argv` is `argv` of the sandbox for a new terminal, `terminal` the kind of terminal
    (`methods.contract.Terminal`). `proxy` is the plan of the proxy that the session starts, None without;
    `needs_bridge`: it starts a bridge; `changes_platform`: one for `sandwright-changes`, whose platform it
    is, empty without. `notes` are messages for the user at its rendering. Every run prints `default_policy`,
    the policy that applies without a file, and `retired`, the warnings about names of the last release. The
    words of `argv0_override` start the command in place of its first one, none where it stays. `mcp_tools`
    are the tools that a client of MCP can call, None where its messages are not read. `unsigned` is the
    reason why commits cannot be signed inside, empty if they can.
    """

    terminal_argv: tuple[str, ...]
    terminal: Literal["passed", "controlling", "taken"]
    proxy: ProxyPlan | None
    needs_bridge: bool
    changes_platform: str
    notes: tuple[str, ...]
    default_policy: str
    loosened: Loosened
    retired: tuple[str, ...]
    argv0_override: tuple[str, ...]
    unsigned: str
    mcp_tools: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class CachedSandbox:
    """A sandbox that is ready to be started.

    `record` is the record of its sessions; its `directory` holds the artifacts. `argv` are the words before
    the command, `environment` variables for the launcher. `fresh`: it was rendered for this run.
    """

    record: SandboxRecord
    start: SandboxStart
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    fresh: bool = True

    @property
    def method(self) -> str:
        """The method that enforces it."""
        return self.record.method

    @property
    def has_plan(self) -> bool:
        """Whether its launcher is native."""
        return PLAN in self.record.artifacts

    @property
    def runs_alone(self) -> bool:
        """Whether its launcher is native, and no other process has to run during the session."""
        start = self.start
        return self.has_plan and not start.needs_bridge and start.proxy is None and start.mcp_tools is None

    def artifacts(self) -> Iterable[tuple[str, str]]:
        """The path of each artifact, with its digest."""
        return (
            (os.path.join(self.record.directory, name), each) for name, each in self.record.artifacts.items()
        )

    def said(self) -> list[str]:
        """The messages that every run of it prints."""
        start = self.start
        return [line for line in (*start.retired, start.default_policy) if line]


def cache_path(identity: list[str]) -> str:
    """The entry of a request. Each part of its identity ends with a NUL, which no variable can contain."""
    name = digests.sha256(b"".join(os.fsencode(part) + b"\0" for part in identity))
    return os.path.join(user_dirs.cache(), f"{name}.entry")


def find(identity: list[str], copies: Mapping[str, str]) -> CachedSandbox | None:
    """The cached sandbox of a request, if it is current and this user's key authenticates the entry.

    `copies` are those of the request: the questions use the same paths as at the rendering.
    """
    entry = find_entry(identity, copies)
    try:
        return None if entry is None else _sandbox(entry)
    except ValueError:
        return None  # not our format


def find_entry(identity: list[str], copies: Mapping[str, str]) -> CacheEntry | None:
    """The entry of a request, None unless it is current and authentic."""
    path = cache_path(identity)
    try:
        mac, _, body = cache_key.private_content(path).partition(b"\n")
        key = cache_key.read()
        if key is None or not cache_key.is_authentic(mac, key, path, body):
            return None
        entry = parse_entry(body)
        return entry if inputs.changed(entry.recording(), copies) is None else None
    except (OSError, ValueError, RenderError):
        return None  # missing, or not our format


def store(identity: list[str], prepared: CachedSandbox, recording: Recording, *, trusted: bool) -> None:
    """Write the entry of a sandbox as `store_entry` does. `trusted`: the user's approval is recorded."""
    user_dirs.private(os.path.dirname(known_file(prepared.record.after.policy)))  # where the front writes
    store_entry(identity, _entry(prepared, recording, trusted=trusted))


def store_entry(identity: list[str], entry: CacheEntry) -> None:
    """Write the entry of a request, if there is a key. Raise HostError when it can't be written."""
    key = cache_key.read() or cache_key.make()
    if key is None:
        return
    path = cache_path(identity)
    body = entry_bytes(entry)
    user_dirs.write(path, cache_key.mac(key, path, body) + b"\n" + body)


def _sandbox(entry: CacheEntry) -> CachedSandbox:
    """Parse an entry. Raise ValueError if it is malformed."""
    return CachedSandbox(
        record=decode_record(SandboxRecord, f"{{{entry.record}"),
        start=decode_record(SandboxStart, entry.sandbox or ""),
        argv=entry.launcher,
        environment=dict(entry.environment),
        fresh=False,
    )


def _entry(prepared: CachedSandbox, recording: Recording, *, trusted: bool) -> CacheEntry:
    artifact_stamps = LiveHost()
    artifact_stamps.ask_all(("artifact", path) for path, _ in prepared.artifacts())
    report, sessions = prepared.record.after, state.directory()
    scope = report.scope
    alone = prepared.runs_alone and trusted and not scope.absent
    return CacheEntry(
        questions=question_words([*recording, *artifact_stamps.recording()]),
        excepted=("git", *AGENTS),
        said=tuple(map(one_line, prepared.said())),
        launcher=prepared.argv,
        environment=tuple(prepared.environment.items()),
        sessions=sessions,
        guards=os.path.join(user_dirs.cache(), "elsewhere"),
        record=encode_record(prepared.record).decode()[
            1:
        ],  # the front writes the fields of one run before it
        report=tuple(post_run_argv(sessions)[:-1]) if alone else (),
        roots=scope.scanned_roots,
        closed=scope.closed,
        git=scope.git,
        names=tuple(each.name for each in scope.names),
        known=known_file(report.policy) if _is_scanned(scope) else None,
        sandbox=encode_record(prepared.start).decode(),
    )


def _is_scanned(scope: ScanScope) -> bool:
    """Whether the front can decide that there is nothing to report.

    Where set-id files can be made each file counts, and of a linked work tree the repository's index.
    """
    trees = [path.removesuffix("/.git") for path in scope.git if path.endswith("/.git")]
    inside = (any(f"{tree}/".startswith(f"{root.rstrip('/')}/") for root in scope.roots) for tree in trees)
    return not scope.set_id and all(inside)


def digest(path: str) -> str:
    """The SHA-256 of a file, as `sha256:…`. Raise OSError."""
    with open(path, "rb") as file:
        return f"sha256:{digests.sha256(file.read())}"
