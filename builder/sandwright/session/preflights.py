"""Caches the results of preflights (trial sandboxes) until something that they depend on changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from sandwright import inputs, user_dirs
from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.inputs import LiveHost
from sandwright.methods.contract import CODES, Backend, Preflight
from sandwright.questions import Question

KEPT = ("ready", "hangs", "not-denied")
"""The results that are cached. The others are quick to find again, and a person is probably about to change
them."""

_HANG_SECONDS = 600.0
"""The seconds for which the result `hangs` is cached: the trial takes long, and the machine may be busy."""


def cached_preflight(backend: Backend, host: MachineFacts) -> Preflight:
    """The result of a preflight: that of the last one, while everything that it depends on is the same."""
    path = _cache_file(backend)
    found = _read_cached(path, backend) if path else None
    return found if found is not None else run_preflight(backend, host)


def preflight_questions(found: Preflight, backend: Backend, host: MachineFacts) -> Iterator[Question]:
    """The questions on which a choice of method depends.

    If they don't show why the method fails, as when a daemon doesn't answer, it is tried again each minute.
    """
    dependencies = tuple(backend.depends(host))
    yield from dependencies
    missing = found.code == "program-missing" and any(kind == "program" for kind, _ in dependencies)
    if not missing and found.code not in ("wrong-system", "ready", "not-denied"):
        yield "minute", ""


def run_preflight(backend: Backend, host: MachineFacts) -> Preflight:
    """Start the sandbox of a method, and cache the result."""
    path = _cache_file(backend)
    asking = LiveHost()
    asking.ask_all(backend.depends(host))
    try:
        found = backend.preflight(host)
    except (HostError, OSError) as fault:  # such as no temporary directory that can be written
        return Preflight(backend.name, "not-started", str(fault))
    if path is None:
        return found
    if found.code in KEPT:
        data = {"found": asdict(found), "asked": asking.recording()}
        user_dirs.write(str(path), json.dumps(data, indent=1).encode("utf-8", "surrogateescape"))
    else:
        path.unlink(missing_ok=True)
    return found


def _cache_file(backend: Backend) -> Path | None:
    """The file of the result; None without a directory: `doctor` has to work there, too."""
    try:
        return Path(user_dirs.private(user_dirs.cache()), f"preflight-{backend.name}.json")
    except HostError:
        return None


def _read_cached(path: Path, backend: Backend) -> Preflight | None:
    try:
        data = strictjson.loads_record(path.read_bytes())
        if inputs.changed(data["asked"]) is None and data["found"]["method"] == backend.name:
            found = Preflight(**data["found"])
            age = time.time() - path.stat().st_mtime
            expired = found.code == "hangs" and not 0 <= age < _HANG_SECONDS
            return found if found.code in CODES and not expired else None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
