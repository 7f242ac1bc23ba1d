"""What a session's bridge writes to its log while the session goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson

_EVENTS: Mapping[str, str] = {
    "call": "call",
    "refused": "refused",
    "peer": "refused",
    "protocol": "refused",
    "failed": "call",
}
"""Events of the bridge's log, and what they are called here."""

_NAMED = ("program", "arguments", "directory", "why", "status", "call")


class BridgeLog:
    """The log from here on. `session` is what this session is called there."""

    def __init__(self, path: Path, session: str) -> None:
        self._path, self._session = path, session
        self._at = path.stat().st_size if path.exists() else 0
        self.refused: Counter[tuple[str, str]] = Counter()
        """Calls that were refused, with the reason, until the last look."""

    def new(self) -> Iterator[dict[str, Any]]:
        """What has been written since the last look."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self._at += len(line)
                if found := self._event(line):
                    yield found

    def look(self) -> None:
        """Count what has been written since the last look."""
        for _ in self.new():
            pass

    def _event(self, line: bytes) -> dict[str, Any] | None:
        try:
            data = strictjson.loads_record(line)
        except ValueError:  # of a bridge that was killed
            return None
        event = _EVENTS.get(data.get("event", ""))
        if not event or data.get("session") != self._session:
            return None
        if data["event"] == "refused":
            words = [str(data.get("program", "")), *map(str, data.get("arguments", ()))]
            self.refused[" ".join(words), str(data.get("why", ""))] += 1
        named = {name: data[name] for name in _NAMED if name in data}
        return {"event": event, "by": "bridge", **named, "at": data["time"]}
