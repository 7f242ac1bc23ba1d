"""What a run writes to its audit log: its start, what was refused and called while it goes on, its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sandwright.session import denials
from sandwright.session.bridged import BridgeLog

if TYPE_CHECKING:  # it imports this module
    from sandwright.session.run import CommandSession

LOOK = 0.2
"""Seconds between two looks at what proxy, bridge and launcher have told."""

_MOST_HOSTS = 1000
"""Different hosts that are written down; the sandbox chooses them."""


class AuditWriter:
    """The lines of one run; without an audit log none is written."""

    def __init__(self, session: CommandSession, say: Callable[[str], None]) -> None:
        self._session, self._log, self._say = session, session.log, say
        self._bridge: BridgeLog | None = None
        self._proxied: Callable[[], Mapping[str, int]] | None = None
        self._hosts: set[str] = set()
        self._journal, self._read = -1, 0
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def environment(self) -> dict[str, str]:
        """What the launcher needs to tell of refusals at once: the name of memory of ours."""
        if self._log is None or not self._session.native:
            return {}
        self._journal = os.memfd_create("refused", os.MFD_CLOEXEC)
        return {"SANDWRIGHT_DENIALS_NOW": f"/proc/{os.getpid()}/fd/{self._journal}"}

    def begin(self, bridge: BridgeLog | None, proxied: Callable[[], Mapping[str, int]] | None) -> None:
        """Write that it starts, and what happens from now on. Raise HostError, and nothing is started."""
        record = self._session.record
        if self._log is None:
            return
        self._bridge, self._proxied = bridge, proxied
        self._log.session = self._session.id
        told = {name: record[name] for name in ("method", "project", "command", "policy")}
        self._log.write("start", **told, uid=os.geteuid())
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def finish(self, status: int | None, denied: Mapping[str, int] | None) -> None:
        """Write that it has ended; say the head. What can't be written is said.

        `denied` is all that the proxy refused: its log went with it.
        """
        if self._log is None or self._thread is None:
            return
        self._over.set()
        self._thread.join()
        self._attempt(self._look)
        self._attempt(lambda: self._refused_by_proxy(denied or {}))
        self._attempt(lambda: self._repeated(denied or {}))
        self._attempt(lambda: self._end(status))
        self._log.close()
        if self._journal >= 0:
            os.close(self._journal)

    def _follow(self) -> None:
        while not self._over.wait(LOOK):
            try:
                self._look()
                self._refused_by_proxy(self._proxied() if self._proxied else ())
            except Exception:  # noqa: BLE001 - it is tried again, and what then fails at the end is said
                return

    def _attempt(self, work: Callable[[], None]) -> None:
        """What can't be written is said; the run's end goes on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is done
            self._say(f"the audit log lacks something of this run: {error}")

    def _look(self) -> None:
        """Write what launcher and bridge have told of since the last look."""
        assert self._log is not None
        for each in self._filtered():
            self._log.write("refused", **_refusal(each))
        for fields in self._bridge.new() if self._bridge else ():
            self._log.write(str(fields.pop("event")), **fields)

    def _refused_by_proxy(self, hosts: Iterable[str]) -> None:
        assert self._log is not None
        for host in hosts:
            if host not in self._hosts and len(self._hosts) < _MOST_HOSTS:
                self._hosts.add(host)
                self._log.write("refused", by="proxy", host=host)

    def _filtered(self) -> Iterator[dict[str, Any]]:
        """What the launcher has told of since the last look: each kind of refusal, when it happens first."""
        if self._journal < 0:
            return
        content = os.pread(self._journal, 1 << 20, self._read)
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        decided: Any = self._session.prepared.decided
        yield from denials.parsed(whole.decode("ascii"), decided)

    def _repeated(self, denied: Mapping[str, int]) -> None:
        """What happened more than once, and how many hosts were left out."""
        assert self._log is not None
        asked: Any = self._session.denials
        for each in denials.collect_denials(asked["file"], asked["decided"]):
            if each["kind"] != "omitted" and int(str(each["count"])) > 1:
                self._log.write("repeated", **_refusal(each), count=each["count"])
        for host, count in denied.items():
            if host in self._hosts and count > 1:
                self._log.write("repeated", by="proxy", host=host, count=count)
        if len(denied) > _MOST_HOSTS:
            self._log.write("omitted", by="proxy", hosts=len(denied) - _MOST_HOSTS)

    def _end(self, status: int | None) -> None:
        assert self._log is not None
        self._say(self._log.end(status, time.time() - self._session.began))
        if not self._log.in_place():
            self._say(f"audit log {self._log.path}: another file is there now")


def _refusal(each: dict[str, Any]) -> dict[str, object]:
    """The fields of a line about what the launcher has told of."""
    by = "launcher" if each["kind"] == "connect" else "filter"
    return {"by": by, **{name: each[name] for name in ("kind", "what", "error", "field", "source")}}
