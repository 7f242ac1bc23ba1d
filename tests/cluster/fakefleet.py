"""A stand-in for an API server with an Indexed Job: its Pods end as a test says, and it can be watched.

`cluster/test_real_fleets.py` has the tests with a real one.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from cluster.fakecluster import FakeCluster, _refused

Json = dict[str, Any]
_PREFIX = "batch.kubernetes.io/job-"
_WAIT = 0.2
"""Seconds for which a watch without news stays open here."""


@dataclass
class End:
    """The end of one Pod of an index."""

    index: int
    status: int | None = 0
    failures: int = 0
    output: bytes = b""
    reason: str = ""
    changes: Json = field(default_factory=dict)
    """Fields of the Pod that differ from a controller's Pod."""


@dataclass
class FakeFleet(FakeCluster):
    """Ends Pods in the order of `ends` once the Job is let go; then the Job has `completed` and `failed`.

    `expired` is the number of watches that end as too old, `cut` the number that break off in an event.
    `holds`: the Job does not end.
    """

    ends: tuple[End, ...] = ()
    completed: str = ""
    failed: str = ""
    expired: int = 0
    cut: int = 0
    holds: bool = False
    uid: str = "0d1f9a0a-7a3f-4c2e-9d64-0a7c3b1d5e11"
    maps: dict[str, Json] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    news: list[tuple[str, str, Json]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, Json | bytes]:
        name = path.rpartition("/")[2]
        if self.broken or "dryRun" in query:
            return super().answer(method, path, query, body)
        kind = {"jobs": "Job", "pods": "Pod"}.get(name)
        if method == "GET" and kind and "watch" in query:
            return 200, self._watch(kind, int(query["resourceVersion"]))
        if method == "GET" and kind:
            return 200, {
                "metadata": {"resourceVersion": str(len(self.news))},
                "items": self._items(kind, query),
            }
        if method == "GET" and name == "log":
            self.asked.append("GET log")
            pod = path.split("/")[-2]
            return 200, next((each.output for each in self.ends if self._name(each) == pod), b"")
        if "/configmaps" in path and method in ("POST", "GET"):
            return self._map(method, name, body)
        if "/jobs/" in path and method in ("PATCH", "DELETE"):
            return self._change(method, name, body)
        code, answered = super().answer(method, path, query, body)
        if method == "POST" and name == "jobs" and code in (201, 504):
            self.jobs[body["metadata"]["name"]]["metadata"]["uid"] = self.uid
        return code, answered

    def _change(self, method: str, name: str, body: Json) -> tuple[int, Json]:
        """An apply or a deletion, each with the uid of its object."""
        found = self.jobs.get(name)
        uid = body["metadata"]["uid"] if method == "PATCH" else body["preconditions"]["uid"]
        if found is None:
            return _refused(404, "NotFound", "no such Job")
        if found["metadata"]["uid"] != uid:
            return _refused(409, "Conflict", "uid mismatch")
        if method == "DELETE":
            self.deleted.append(name)
            return 200, self.jobs.pop(name)
        found["spec"] = {**found["spec"], "suspend": False}
        self._go(found)
        return 200, found

    def _go(self, job: Json) -> None:
        for each in self.ends:
            self.tell("ADDED", "Pod", self.pod(each, job))
        ended = [] if self.holds else [{"type": "Complete", "status": "True"}]
        status = {"completedIndexes": self.completed, "failedIndexes": self.failed, "conditions": ended}
        job["status"] = status
        self.tell("MODIFIED", "Job", job)

    def tell(self, event: str, kind: str, item: Json) -> None:
        """Record an event, and notify all watches."""
        with self.changed:
            version = {"resourceVersion": str(len(self.news) + 1)}
            self.news.append((event, kind, {**item, "metadata": {**item["metadata"], **version}}))
            self.changed.notify_all()

    def pod(self, end: End, job: Json) -> Json:
        """The Pod that a controller would make, after its end."""
        notes = {
            f"{_PREFIX}completion-index": str(end.index),
            f"{_PREFIX}index-failure-count": str(end.failures),
        }
        times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:03Z"}
        state = {
            "terminated": {"exitCode": end.status, "reason": "Error" if end.status else "Completed", **times}
        }
        status = {
            "phase": "Failed" if end.status != 0 else "Succeeded",
            "containerStatuses": [{"name": "sandbox", "state": state}] if end.status is not None else [],
            **({"reason": end.reason} if end.reason else {}),
        }
        made: Json = {
            "metadata": {
                "name": self._name(end),
                "uid": f"uid-of-{self._name(end)}",
                "annotations": notes,
                "ownerReferences": [{"uid": self.uid, "controller": True}],
            },
            "spec": self._admitted(job["spec"]["template"]["spec"]),
            "status": status,
        }
        for key, value in end.changes.items():
            made[key] = {**made[key], **value}
        return made

    @staticmethod
    def _name(end: End) -> str:
        return f"fleet-{end.index}-{end.failures}"

    def _items(self, kind: str, query: dict[str, str]) -> list[Json]:
        if kind == "Job":
            return [each for each in self.jobs.values() if each["metadata"]["name"] in query["fieldSelector"]]
        over = "status.phase!=Running" in query["fieldSelector"]
        return [item for _, each, item in self.news if each == "Pod"] if over else []

    def _watch(self, kind: str, version: int) -> bytes:
        if self.expired:
            self.expired -= 1
            gone = {"kind": "Status", "code": 410, "reason": "Expired"}
            return json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
        with self.changed:
            self.changed.wait_for(lambda: any(each == kind for _, each, _ in self.news[version:]), _WAIT)
            lines = [
                json.dumps({"type": event, "object": item}).encode() + b"\n"
                for event, each, item in self.news[version:]
                if each == kind
            ]
        if self.cut and lines:
            self.cut -= 1
            return b"".join(lines)[:-20]
        return b"".join(lines)

    def _map(self, method: str, name: str, body: Json) -> tuple[int, Json]:
        if method == "GET":
            return (200, self.maps[name]) if name in self.maps else _refused(404, "NotFound", "none")
        name = body["metadata"]["name"]
        if name in self.maps:
            return _refused(409, "AlreadyExists", "it is there")
        self.maps[name] = body
        return 201, body
