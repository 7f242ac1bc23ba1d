"""Counts the messages that rules about tools (`mcp.tools`) refused in a run, and keeps the allowed ones."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from sandwright.mcp.messages import ClientMessage, McpRefusal
from sandwright.policy.mcp_rules import MAX_NAME
from sandwright.session.events import DeniedMessage, RunDenied, RunMessage, RunOmitted
from sandwright.visible import one_line

_MOST_KINDS = 1000
"""The most different refusals that are distinguished: a model chooses the names."""

_CUT = MAX_NAME + 1


class McpLog:
    """The decisions of one run, which the follower reads during the run. `notify` informs the user.

    Requests that passed are kept for the next look where the run is `audited`.
    """

    def __init__(self, notify: Callable[[str], None], *, audited: bool) -> None:
        self._notify, self._audited = notify, audited
        self._lock = threading.Lock()
        self._counts: Counter[DeniedMessage] = Counter()
        self._new: list[DeniedMessage] = []
        self._passed: list[RunMessage] = []
        self._others = self._dropped = 0

    def passed(self, message: ClientMessage) -> None:
        """Record a request that passed."""
        if self._audited and message.number is not None:
            with self._lock:
                self._passed.append(RunMessage(method=message.method, tool=message.tool))

    def refused(self, refusal: McpRefusal) -> None:
        """Count a refusal."""
        found = DeniedMessage(message=refusal.what[:_CUT], reason=refusal.reason)
        with self._lock:
            if found not in self._counts and len(self._counts) >= _MOST_KINDS:
                self._others += 1
                return
            if found not in self._counts:
                self._new.append(found)
            self._counts[found] += 1

    def dropped(self, fault: str) -> None:
        """Report the first line of the server that did not pass, and count."""
        self._dropped += 1
        if self._dropped == 1:
            self._notify(f"a line of the server did not pass: {one_line(fault)[:256]}")

    def new(self) -> Sequence[RunDenied | RunMessage]:
        """The events since the last call: requests that passed, and new kinds of refusals with counts."""
        with self._lock:
            passed, self._passed = self._passed, []
            kinds, self._new = self._new, []
            return [*passed, *(RunDenied(what=each, count=self._counts[each]) for each in kinds)]

    def total(self) -> Sequence[RunDenied | RunMessage | RunOmitted]:
        """The events at the end: all refusals, and the requests that passed since `new`."""
        if self._dropped > 1:
            self._notify(f"{self._dropped} lines of the server did not pass")
        others = [RunOmitted(count=self._others)] if self._others else []
        return [
            *(RunDenied(what=each, count=count) for each, count in self._counts.items()),
            *others,
            *self._passed,
        ]
