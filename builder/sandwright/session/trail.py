"""What a run writes to its audit log: its start, what proxy and bridge refused and did, its end."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from sandwright.session.run import CommandSession

_MOST_HOSTS = 1000
"""Different hosts that are written down; the sandbox chooses them."""

_OF_BRIDGE = {
    "call": "call",
    "refused": "refused",
    "peer": "refused",
    "protocol": "refused",
    "failed": "call",
}
"""Events of the bridge's log, and what they are called here."""


class Trail:
    """The lines of one run; without an audit log none is written."""

    def __init__(self, session: CommandSession, say: Callable[[str], None]) -> None:
        self._session, self._log, self._say = session, session.log, say
        self._bridge: tuple[Path, str, int] | None = None
        self._begun = False

    def begin(self) -> None:
        """Write that it starts. Raise HostError, and nothing is started."""
        record = self._session.record
        if self._log is not None:
            self._log.session = self._session.id
            told = {name: record[name] for name in ("method", "project", "command", "policy")}
            self._log.write("start", **told, uid=os.geteuid())
            self._begun = True

    def watch(self, log: Path, session: str) -> None:
        """Look at a bridge's log from here on when the run ends. `session` is what it calls itself there."""
        if self._log is not None:
            self._bridge = (log, session, log.stat().st_size if log.exists() else 0)

    def finish(self, status: int | None, denials: Mapping[str, int] | None) -> None:
        """Write what happened, and that it has ended; say the head. What can't be written is said."""
        if self._log is None or not self._begun:
            return
        self._attempt(lambda: self._happened(denials or {}))
        self._attempt(lambda: self._end(status))
        self._log.close()

    def _attempt(self, work: Callable[[], None]) -> None:
        """What can't be written is said; the run's end goes on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is done
            self._say(f"the audit log lacks something of this run: {error}")

    def _happened(self, denials: Mapping[str, int]) -> None:
        assert self._log is not None
        for fields in self._bridged():
            self._log.write(str(fields.pop("event")), **fields)
        hosts = list(denials.items())
        for host, count in hosts[:_MOST_HOSTS]:
            self._log.write("refused", by="proxy", host=host, count=count)
        if hosts[_MOST_HOSTS:]:
            self._log.write("omitted", by="proxy", hosts=len(hosts) - _MOST_HOSTS)

    def _end(self, status: int | None) -> None:
        assert self._log is not None
        self._say(self._log.end(status, time.time() - self._session.began))
        if not self._log.in_place():
            self._say(f"audit log {self._log.path}: another file is there now")

    def _bridged(self) -> Iterator[dict[str, Any]]:
        if self._bridge is None:
            return
        import json  # noqa: PLC0415 - costs milliseconds

        path, session, size = self._bridge
        with path.open("rb") as file:
            file.seek(size)
            for line in file:
                try:
                    data = json.loads(line)
                except ValueError:  # half a line, of a bridge that was killed
                    continue
                event = _OF_BRIDGE.get(data.get("event", ""))
                if event and data.get("session") == session:
                    named = ("program", "arguments", "directory", "why", "status", "call")
                    yield {
                        "event": event,
                        "by": "bridge",
                        **{name: data[name] for name in named if name in data},
                        "at": data["time"],
                    }
