"""Reads the logs of a run's proxies while they run: refusals by kind, and allowed requests to such hosts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sandwright.egress.log import ProxyLog
from sandwright.egress.request_log import RequestDecision, RequestLog
from sandwright.session.events import DeniedHost, DeniedRequest, RunDenied, RunOmitted, RunRequested

_MOST_HOSTS = 1000
"""The most different hosts that are distinguished; the sandbox chooses them."""

_NO_REFUSALS = ("", "unresolved", "malformed")
"""Reasons that do not count as denials: a name without an address, and a malformed request."""


class RefusedHosts:
    """The refusals in the logs of a proxy and of its inspecting proxy, without duplicates."""

    def __init__(self, log: Path, requests: Path | None = None) -> None:
        self._log = ProxyLog(log)
        self._requests = None if requests is None else RequestLog(requests)
        self._counts: Counter[str] = Counter()
        self._request_counts: Counter[DeniedRequest] = Counter()
        self._listed: set[str] = set()
        self._others = 0
        self._allowed: list[RunRequested] = []
        self._followed = False

    def new(self) -> list[RunDenied | RunRequested]:
        """The events since the last call: allowed requests, and new kinds of refusals with counts."""
        self._followed = True
        found = self._read_denials()
        return [*self._taken_requests(), *found]

    def _taken_requests(self) -> list[RunRequested]:
        taken, self._allowed = self._allowed, []
        return taken

    def _read_denials(self) -> list[RunDenied]:
        before = set(self._counts)
        for each in self._log.new():
            host = f"{each.host}:{each.port}"
            if each.reason in _NO_REFUSALS:
                continue
            if host not in self._counts and len(self._counts) >= _MOST_HOSTS:
                self._others += 1
                continue
            self._counts[host] += 1
            if each.reason == "address":
                self._listed.add(host)
        hosts = [self._denied_host(host) for host in self._counts if host not in before]
        return [*hosts, *self._new_requests()]

    def _new_requests(self) -> list[RunDenied]:
        """The same of requests to opened hosts."""
        before = set(self._request_counts)
        for each in self._requests.new() if self._requests else ():
            if not each.reason:
                self._allow(each)
                continue
            request = DeniedRequest(
                host=each.host, method=each.method, path=each.path, reason=each.reason, tool=each.tool
            )
            if request not in self._request_counts and len(self._request_counts) >= _MOST_HOSTS:
                self._others += 1
                continue
            self._request_counts[request] += 1
        return [
            RunDenied(what=each, count=count)
            for each, count in self._request_counts.items()
            if each not in before
        ]

    def _allow(self, each: RequestDecision) -> None:
        """Keep an allowed request for the next call, if the requests are read at all."""
        if self._followed:
            fields = ("host", "method", "path", "status", "sent", "received", "tool")
            self._allowed.append(RunRequested(**{name: getattr(each, name) for name in fields}))

    def total(self) -> list[RunDenied | RunOmitted | RunRequested]:
        """All refusals, by host; those of further hosts are counted. Allowed requests since `new`."""
        self._read_denials()
        others = [RunOmitted(count=self._others)] if self._others else []
        hosts = (self._denied_host(host) for host in sorted(self._counts))
        requests = (RunDenied(what=each, count=count) for each, count in self._request_counts.items())
        return [*hosts, *requests, *others, *self._taken_requests()]

    def _denied_host(self, host: str) -> RunDenied:
        return RunDenied(what=DeniedHost(host=host, listed=host in self._listed), count=self._counts[host])
