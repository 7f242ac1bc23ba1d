"""Reads the log of a session's bridge while the session goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.session.events import BridgedCall, RunCalled, RunDenied

_REFUSALS = ("refused", "peer", "protocol")
_CALLS = ("call", "failed")
"""Events of the bridge's log."""


class BridgeLog:
    """The log from its current end on. `session` is the name of this session there."""

    def __init__(self, path: Path, session: str) -> None:
        self._path, self._session = path, session
        self._at = path.stat().st_size if path.exists() else 0
        self._refused: Counter[tuple[str, str]] = Counter()

    def new(self) -> Iterator[RunCalled | RunDenied]:
        """The events since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self._at += len(line)
                if found := self._parse_event(line):
                    yield found

    def refused(self) -> list[RunDenied]:
        """The calls that the policy has refused so far, each once, with its reason."""
        for _ in self.new():
            pass
        return [
            RunDenied(what=BridgedCall(program=words, why=why), count=count)
            for (words, why), count in sorted(self._refused.items())
        ]

    def _parse_event(self, line: bytes) -> RunCalled | RunDenied | None:
        try:
            data = strictjson.loads_record(line)
        except ValueError:  # of a bridge that was killed
            return None
        event = data.get("event", "")
        if event not in (*_REFUSALS, *_CALLS) or data.get("session") != self._session:
            return None
        what = BridgedCall(
            program=data.get("program"),
            arguments=tuple(data["arguments"]) if "arguments" in data else None,
            directory=data.get("directory"),
            why=data.get("why"),
            status=data.get("status"),
            call=data.get("call"),
            at=data["time"],
        )
        if event == "refused":
            self._refused[what.words(), what.why or ""] += 1
        return RunDenied(what=what) if event in _REFUSALS else RunCalled(what=what)
