"""One fleet in a cluster, from the making of its Job to the end of its last run."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from typing import Any

from sandwright.errors import HostError
from sandwright.methods.fleets import FleetWatcher, Outcome
from sandwright_kubernetes.admission import FIELD_MANAGER, NothingRan, check_same
from sandwright_kubernetes.connection import PATIENCE, ApiRefused, ApiUnreachable, Connection, first
from sandwright_kubernetes.fleets.records import FleetRecord
from sandwright_kubernetes.fleets.tally import SeenPod, Tally, waiting_reasons
from sandwright_kubernetes.fleets.watching import Watched, WatchEvent, list_all, watching, with_query
from sandwright_kubernetes.jobrun import REMOVE_LIMIT, warnings_of
from sandwright_kubernetes.objects import differences, field, path_of, rows, text

Json = dict[str, Any]

OUTPUT = 1 << 20
"""Bytes of a run's output that are kept, from its beginning."""

IDLE = 15.0
"""Seconds without a running Pod, after which the reason is queried."""

SILENCE = 30.0
"""Seconds in which a node must go on with a log."""

_LOOK = 0.5
_OVER = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"


@dataclass
class ClusterFleet:
    """A fleet whose Job is there."""

    connection: Connection
    record: FleetRecord

    @property
    def id(self) -> str:
        """The Job's uid."""
        return self.record.uid

    @property
    def where(self) -> str:
        """Context, namespace and Job."""
        record = self.record
        return f"{record.context} {record.namespace}/{record.job_name}".lstrip()

    @property
    def count(self) -> int:
        """As the Job was sent."""
        return int(self.record.job["spec"]["completions"])

    def release(self) -> None:
        """Let it start Pods, if it does not yet.

        Raise NothingRan where the Job is gone, is another one of its name, or is not as it was sent.
        """
        path = path_of("Job", self.record.namespace, self.record.job_name)
        found = self._get(path)
        sent = {name: value for name, value in self.record.job["spec"].items() if name != "suspend"}
        if changed := list(differences(sent, found.get("spec"))):
            raise NothingRan(f"the Job is not as it was sent: {', '.join(changed[:5])}")
        names = {name: self.record.job["metadata"][name] for name in ("name", "namespace")}
        let_go = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**names, "uid": self.id},
            "spec": {"suspend": False},
        }
        self.connection.ask("PATCH", path, let_go, apply=True, fieldManager=FIELD_MANAGER, force="true")

    def follow(self, watcher: FleetWatcher) -> None:
        """Report it until every run is over. Raise NothingRan, HostError."""
        _Following(self, watcher).run()

    def remove(self) -> None:
        """Delete the Job of this uid with its Pods; wait until they are gone. Raise HostError."""
        path = path_of("Job", self.record.namespace, self.record.job_name)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": self.id},
        }
        try:
            if self.id:
                self.connection.ask("DELETE", path, options)
        except ApiRefused as error:
            if error.status not in (404, 409):  # it is gone, and another one may have its name
                raise
        self._await_gone()
        self.record.forget()

    def _await_gone(self) -> None:
        deadline = time.monotonic() + REMOVE_LIMIT
        while any(item for item, _ in list_all(self.connection, self.pods(running=True))):
            if time.monotonic() > deadline:
                raise HostError(f"Pods of the fleet {self.where} run after {REMOVE_LIMIT:.0f} s")
            time.sleep(_LOOK)

    def pods(self, *, running: bool = False) -> Watched:
        """Its Pods that are over, or those that are not."""
        selector = f"batch.kubernetes.io/controller-uid={self.id}"
        phase = "status.phase!=Succeeded,status.phase!=Failed" if running else _OVER
        path = path_of("Pod", self.record.namespace)
        return Watched("Pod", path, {"labelSelector": selector, "fieldSelector": phase})

    def job(self) -> Watched:
        """Its Job, by name; the uid is looked at."""
        path = path_of("Job", self.record.namespace)
        return Watched("Job", path, {"fieldSelector": f"metadata.name={self.record.job_name}"})

    def check(self, job: Json) -> None:
        """Raise NothingRan for a Job that is not this one."""
        if not self.id or text(job, "metadata", "uid") != self.id:
            raise NothingRan(f"{self.where} is another Job of that name, and none of this fleet")

    def _get(self, path: str) -> Json:
        try:
            found = self.connection.ask("GET", path)
        except ApiRefused as error:
            if error.status == 404:
                raise NothingRan(f"the Job of the fleet, {self.where}, is not there any more") from error
            raise
        self.check(found)
        return found


class _Following:
    def __init__(self, fleet: ClusterFleet, watcher: FleetWatcher) -> None:
        self._fleet = fleet
        self._watcher = watcher
        spec = fleet.record.job["spec"]
        self._template: Json = spec["template"]["spec"]
        self._tally = Tally(uid=fleet.id, count=fleet.count, retries=spec["backoffLimitPerIndex"])
        self._told: set[int] = {index for index in range(fleet.count) if watcher.has(index)}
        self._moved = time.monotonic()
        self._said: set[str] = set()

    def run(self) -> None:
        fleet = self._fleet
        with watching(fleet.connection, [fleet.job(), fleet.pods()]) as changes:
            while len(self._told) < fleet.count and not self._tally.ended:
                try:
                    self._handle_change(changes.get(timeout=1.0))
                except queue.Empty:
                    self._look_why()
                self._watcher.counted(self._tally.counts())
        if len(self._told) < fleet.count:
            self._finish_fleet()
        self._watcher.counted(self._tally.counts())

    def _handle_change(self, change: WatchEvent) -> None:
        if change.error is not None:
            raise change.error
        if change.kind == "Job":
            self._fleet.check(change.item)
            if change.removed:
                raise HostError(f"{self._fleet.where} was deleted before it was over")
            if field(change.item, "spec", "suspend") is True:
                raise HostError(
                    f"{self._fleet.where} is suspended: its start was interrupted, or it was stopped; "
                    "--remove ends it"
                )
            self._tally.see_job(change.item)
            for index in sorted(self._tally.failed() - self._told):
                self._tell(index)
        else:
            self._handle_pod(change.item)

    def _handle_pod(self, pod: Json) -> None:
        """A Pod that is over. Raise NothingRan where it was another one than was sent."""
        found = self._tally.see_pod(pod)
        if found is None:
            return
        check_same(self._template, pod.get("spec"))
        self._moved = time.monotonic()
        self._tell(found.attempt.index)

    def _tell(self, index: int) -> None:
        """Report a run that is over, and attempts that were repeated."""
        counts = self._tally.over(index)
        if counts is None or index in self._told:
            return
        self._settle_attempts(index, counts, "")

    def _settle_attempts(self, index: int, counts: SeenPod | None, note: str) -> None:
        seen = self._tally.attempts(index)
        for each in seen:
            if each is not counts:
                self._watcher.attempted(each.attempt)
        output, truncated = (None, False) if counts is None else self._pod_output(counts)
        last = counts.attempt if counts is not None else None
        number = max(len(seen), last.number if last is not None else 1)
        self._told.add(index)
        self._watcher.settled(Outcome(index, last, number, output, truncated, note))

    def _finish_fleet(self) -> None:
        """The Job is over: the remaining Pods are the last source of results."""
        for item, _ in list_all(self._fleet.connection, self._fleet.pods()):
            if item:
                self._handle_pod(item)
        for index in range(self._fleet.count):
            self._tell(index)
            if index not in self._told:
                self._settle_attempts(index, *self._tally.remaining(index))

    def _pod_output(self, pod: SeenPod) -> tuple[bytes | None, bool]:
        """The output of a Pod. The node keeps it, and gets the same patience as the API server."""
        path = f"{path_of('Pod', self._fleet.record.namespace, pod.attempt.name)}/log"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self._fleet.connection.stream(
                    path, silence=SILENCE, container="sandbox", limitBytes=str(OUTPUT + 1)
                ) as pieces:
                    data = first(pieces, OUTPUT + 1)
                return data[:OUTPUT], len(data) > OUTPUT
            except (ApiRefused, ApiUnreachable) as error:
                refused = isinstance(error, ApiRefused) and error.status in (400, 403, 404)
                if refused or time.monotonic() > deadline:
                    return None, False
            time.sleep(_LOOK)

    def _look_why(self) -> None:
        """Ask why no Pod runs, if none does for long, and print the new reasons."""
        if self._tally.counts().running or time.monotonic() - self._moved < IDLE:
            return
        self._moved = time.monotonic()
        fleet = self._fleet
        query = {**fleet.pods(running=True).query, "limit": "5"}
        pods = fleet.connection.ask("GET", with_query(fleet.pods().path, query))
        for each in dict.fromkeys((*waiting_reasons(rows(pods, "items")), *self._job_warnings())):
            if each not in self._said:
                self._said.add(each)
                self._watcher.noted(f"no run goes on: {each}")

    def _job_warnings(self) -> list[str]:
        """The cluster's warnings about the Job, such as a used-up quota."""
        record = self._fleet.record
        return warnings_of(self._fleet.connection, record.namespace, record.job_name)
