"""What was rendered before, and whether it still holds.

An entry for each kind of request holds what was made for it, and every question to this machine that decided
it, with its answer. While all answers are the same, rendering would give the same, and is left out. The
native front reads the same entries (docs/front.md): Python looks here for runs that it has to attend.

The first line of an entry is the HMAC-SHA256 in hexadecimal of its file's name, a NUL, and the bytes after
that line (`cache_key`). An entry with any other first line is not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from sandwright import digests, inputs, places
from sandwright.documents import strictjson
from sandwright.errors import RenderError
from sandwright.inputs import InputTracker, Recording
from sandwright.policy.agents import AGENTS
from sandwright.session import cache_key, state
from sandwright.session.entry import CacheEntry, entry_bytes, parse_entry, question_words
from sandwright.session.post_run import post_run_argv
from sandwright.session.scan import known_file
from sandwright.session.trust import Loosened
from sandwright.signalling import boot, machine
from sandwright.visible import one_line

PLAN = "launch.plan"
"""The artifact that a native launcher reads: it copies streams, relays terminals and hands signals on."""


@dataclass
class CachedSandbox:
    """A sandbox that is ready to be started.

    `directory` holds its artifacts. `wrap` and `wrap_terminal` are the words before the command, without
    and with a terminal of its own, `terminal` which it gets (`methods.contract.Terminal`). `environment`
    are variables for the launcher. `after` says what is looked at when a run has ended
    (`session.writable`). `proxy` is the plan of the proxy that the session starts
    (`egress.start.ProxyPlan`), None without; `shimmed`: it starts a bridge. `digests` are those of
    the artifacts, `policy` that of the texts that say the policy. `enforced` tells what is enforced, `notes`
    what a person should know. `loosened` are the fields of `session.trust.Loosened`.
    `instead` says what holds where no file says a policy. `starts` are the words that the command's first is
    replaced by, none where it stays. `decided` says which lines decide a refusal (`session.denial_context`).
    """

    after: dict[str, list[str]]
    decided: dict[str, object]
    covers: list[str]
    method: str
    project: str
    directory: str
    policy: str
    digests: dict[str, str]
    environment: dict[str, str]
    wrap: list[str]
    wrap_terminal: list[str]
    terminal: str
    proxy: dict[str, object] | None
    shimmed: bool
    enforced: dict[str, object]
    notes: list[str] = field(default_factory=list)
    loosened: tuple[str, str, list[str]] = ("", "", [])
    instead: str = ""
    starts: list[str] = field(default_factory=list)
    fresh: bool = True

    @property
    def native(self) -> bool:
        """Whether its launcher is native, and nothing has to run beside it."""
        return PLAN in self.digests and self.proxy is None and not self.shimmed

    def artifacts(self) -> Iterable[tuple[str, str]]:
        """The path of each artifact, with its digest."""
        return ((os.path.join(self.directory, name), digest) for name, digest in self.digests.items())


def cache_path(identity: list[str]) -> str:
    """The entry of a request."""
    name = digests.sha256("\n".join(identity).encode("utf-8", "surrogateescape"))
    return os.path.join(places.cache(), f"{name}.entry")


def find(identity: list[str]) -> CachedSandbox | None:
    """What was made for a request, if it still holds and this user's key authenticates it."""
    path = cache_path(identity)
    try:
        mac, _, body = cache_key.private_content(path).partition(b"\n")
        key = cache_key.read()
        if key is None or not cache_key.is_authentic(mac, key, path, body):
            return None
        entry = parse_entry(body)
        if inputs.changed(entry.recording()) is not None:
            return None
        return _sandbox(entry)
    except (OSError, ValueError, KeyError, TypeError, RenderError):
        return None  # nothing is there, or not what we wrote


def keep(
    identity: list[str], prepared: CachedSandbox, recording: Recording, *, policy: str, trusted: bool
) -> None:
    """Keep what was made, if there is a key. Raise HostError when it can't be written.

    `policy` is the file whose runs it is about; `trusted`: the user's word for it is recorded.
    """
    key = cache_key.read() or cache_key.make()
    if key is None:
        return
    path = cache_path(identity)
    body = entry_bytes(_entry(prepared, recording, policy=policy, trusted=trusted))
    places.write(path, cache_key.mac(key, path, body) + b"\n" + body)


def _sandbox(entry: CacheEntry) -> CachedSandbox:
    """What an entry says. Raise ValueError, KeyError, TypeError for what is none."""
    recorded = strictjson.loads_record(f"{{{entry.record}")
    after = recorded["after"]
    return CachedSandbox(
        **{name: recorded[name] for name in _RECORDED},
        digests=recorded["artifacts"],
        after=after["places"],
        decided=after["denials"]["decided"],
        environment=dict(entry.environment),
        wrap=list(entry.launcher),
        **strictjson.loads_record(entry.sandbox or ""),
        fresh=False,
    )


_RECORDED = ("method", "project", "policy", "directory", "covers", "enforced")
"""The fields that a session's record has by the same name."""
_ELSEWHERE = (*_RECORDED, "digests", "after", "decided", "environment", "wrap", "fresh")
"""Those that the record or another field of an entry has."""


def _entry(prepared: CachedSandbox, recording: Recording, *, policy: str, trusted: bool) -> CacheEntry:
    data = {name: value for name, value in asdict(prepared).items() if name not in _ELSEWHERE}
    asking = InputTracker()
    asking.ask_all(("artifact", path) for path, _ in prepared.artifacts())
    said = (prepared.instead, Loosened(*prepared.loosened).line())
    where, sessions = prepared.after, state.directory()
    return CacheEntry(
        method=prepared.method,
        questions=question_words([*recording, *asking.recording()]),
        attended=not (prepared.native and trusted) or bool(where["absent"]),
        excepted=("git", *AGENTS),
        said=tuple(one_line(line) for line in said if line),
        launcher=tuple(prepared.wrap),
        environment=tuple(prepared.environment.items()),
        sessions=sessions,
        guards=os.path.join(places.cache(), "elsewhere"),
        record=_record(prepared, policy),
        report=tuple(post_run_argv(sessions)[:-1]),
        roots=tuple(where["roots"]),
        closed=tuple(where["closed"]),
        git=tuple(where["git"]),
        names=tuple(where["names"]),
        known=known_file(policy) if _is_scanned(where) else None,
        sandbox=json.dumps(data),
    )


def _record(prepared: CachedSandbox, policy: str) -> str:
    """What a session's record says of each run; before it the front writes what is of this one."""
    record = {"boot": boot(), "machine": machine(), **recorded(prepared)}
    record["after"] = recorded_after(prepared, policy)
    return json.dumps(record)[1:]


def recorded(prepared: CachedSandbox) -> dict[str, Any]:
    """What a session's record says of its sandbox."""
    return {
        "method": prepared.method,
        "project": prepared.project,
        "policy": prepared.policy,
        "artifacts": prepared.digests,
        "directory": prepared.directory,
        "covers": prepared.covers,
        "enforced": prepared.enforced,
    }


def recorded_after(prepared: CachedSandbox, policy: str) -> dict[str, Any]:
    """What a session's record says for the report at its end, of a run without options."""
    denials = {"decided": prepared.decided, "to": "", "addresses": [], "paths": [], "quiet": False}
    return {
        "policy": policy,
        "places": prepared.after,
        "elsewhere": "",
        "telemetry": "",
        "rendered": "before",
        "denials": denials,
        "hint": [],
    }


def _is_scanned(where: dict[str, list[str]]) -> bool:
    """Whether the front can tell that there is nothing to report.

    Where set-id files can be made each file counts, and of a linked work tree the repository's index.
    """
    trees = [path.removesuffix("/.git") for path in where["git"] if path.endswith("/.git")]
    inside = (any(f"{tree}/".startswith(f"{root.rstrip('/')}/") for root in where["roots"]) for tree in trees)
    return not where.get("set_id") and all(inside)


def digest(path: str) -> str:
    """The SHA-256 of a file, as `sha256:…`. Raise OSError."""
    with open(path, "rb") as file:
        return f"sha256:{digests.sha256(file.read())}"
