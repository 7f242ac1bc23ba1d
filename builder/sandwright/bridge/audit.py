"""The bridge's log of calls: a JSON object on a line for each thing that happened, without secrets.

Fields of every line: `time` (UTC, ISO 8601), `session`, `event` and `call` (a number of this session's).
Events: `start` and `stop` of the bridge; `peer`, a connection that was closed unread; `protocol`, one that
was closed because it violated the protocol; `refused`, a call that the policy refuses; `call`, one that was
run, written after its end. A line with `signed` is about a signature: it has the kind of object, and the
fingerprint of the `key`.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from sandwright.bridge.secret import MASK

MAX_WORD = 256
MAX_WORDS = 64
MAX_BYTES = 64 << 20
"""The most bytes for one session. At this size no more programs run: each call must be logged, in a bounded
log."""


class Full(Exception):
    """The log of a session has reached its limit."""


class Audit:
    """Appends lines to a file that only its owner reads. Lines of several threads don't mix."""

    def __init__(self, path: Path, session: str, secrets: Iterable[str]) -> None:
        """`secrets` are masked in all fields."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._session = session
        self._secrets = tuple(secrets)
        self._lock = threading.Lock()
        self._left = MAX_BYTES

    def check(self) -> None:
        """Raise Full if there is no room for the line of a call that is about to begin."""
        if self._left <= 0:
            raise Full

    def write(self, event: str, **fields: object) -> None:
        """Write a line, if there is room. Fields that are None are left out."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        present = {name: value for name, value in fields.items() if value is not None}
        text = json.dumps({"time": now, "session": self._session, "event": event, **present})
        line = (text + "\n").encode()
        with self._lock:
            before = self._left
            self._left -= len(line)
            if before > 0 or event == "stop":
                os.write(self._fd, line)

    def masked(self, text: str) -> str:
        """Mask the secrets in a text from the sandbox, and shorten it for the log."""
        for secret in self._secrets:
            text = text.replace(secret, MASK.decode())
        return text if len(text) <= MAX_WORD else f"{text[:MAX_WORD]}… ({len(text)} characters)"

    def words(self, words: Iterable[str]) -> list[str]:
        """Mask and shorten the arguments of a call for the log."""
        present = [self.masked(word) for word in words]
        return (
            present if len(present) <= MAX_WORDS else [*present[:MAX_WORDS], f"… ({len(present)} arguments)"]
        )

    def close(self) -> None:
        """Close the log."""
        os.close(self._fd)
