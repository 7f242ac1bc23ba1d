"""Follows a run: passes on reports of launcher, bridge and proxy soon after they are written."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from sandwright.session.bridged import BridgeLog
from sandwright.session.events import RunEvent, decode_events
from sandwright.session.mcp_log import McpLog
from sandwright.session.refused_hosts import RefusedHosts

LOOK = 0.2
"""Seconds between two reads of the reports."""

_MOST_BYTES = 1 << 20
"""Bytes of the journal in one read."""


@contextlib.contextmanager
def follow_run(
    sinks: Sequence[Callable[[RunEvent], None]],
    notify: Callable[[str], None],
    bridge: BridgeLog | None,
    hosts: RefusedHosts | None,
    messages: McpLog | None = None,
) -> Iterator[str | None]:
    """Pass events to all sinks until the block ends; the launcher must end before.

    Each kind of denial is passed on when it first happens, each call of the bridge every time. Yield the path
    of a memory file in which a native launcher reports denials at once; None without sinks, or on systems
    without such files. `notify` gets errors, at the end.
    """
    if not sinks:
        yield None
        return
    journal = os.memfd_create("refused", os.MFD_CLOEXEC) if sys.platform == "linux" else -1
    logs = [each for each in (bridge, hosts, messages) if each]
    following = _Following(sinks, journal, logs)
    over = threading.Event()
    thread = threading.Thread(target=following.poll_until, args=[over], daemon=True)
    thread.start()
    try:
        yield f"/proc/{os.getpid()}/fd/{journal}" if journal >= 0 else None
    finally:
        over.set()
        thread.join()
        following.poll()
        if journal >= 0:
            os.close(journal)
        if following.fault:
            notify(f"not all that was refused was reported while the run went on: {following.fault}")


class _Following:
    """One run. `journal` is the open file, -1 for none."""

    def __init__(
        self,
        sinks: Sequence[Callable[[RunEvent], None]],
        journal: int,
        logs: Sequence[BridgeLog | RefusedHosts | McpLog],
    ) -> None:
        self._sinks, self._journal, self._logs = list(sinks), journal, logs
        self._read = 0
        self._broken = False
        self.fault: Exception | None = None

    def poll_until(self, over: threading.Event) -> None:
        """Pass on new events at intervals."""
        while not over.wait(LOOK):
            self.poll()

    def poll(self) -> None:
        """Pass on new events. After a failed read, pass on none."""
        try:
            for event in () if self._broken else self._new_events():
                self._pass_on(event)
        except Exception as fault:  # noqa: BLE001 - the run goes on after any error
            self._broken, self.fault = True, fault

    def _pass_on(self, event: RunEvent) -> None:
        """Pass on to all sinks. A sink that fails gets nothing more; the others do."""
        for sink in tuple(self._sinks):
            try:
                sink(event)
            except Exception as fault:  # noqa: BLE001 - the same
                self._sinks.remove(sink)
                self.fault = fault

    def _new_events(self) -> Iterator[RunEvent]:
        yield from self._journaled()
        for each in self._logs:
            yield from each.new()

    def _journaled(self) -> Iterator[RunEvent]:
        """The reports of the launcher since the last read."""
        if self._journal < 0:
            return
        content = os.pread(self._journal, _MOST_BYTES, self._read)
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        yield from decode_events(whole)
