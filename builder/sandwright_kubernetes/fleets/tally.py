"""Keeps count of a fleet by the cluster's reports on its Job and its Pods. Pure.

An index is over when a Pod of it succeeded, or when the Job lists it as failed. Its last Pod counts; every
other one was an attempt. The Job's controller decides which is which, and the cluster's word for a Pod's end
is taken, never its output.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandwright.methods.fleets import Counts, RunAttempt
from sandwright_kubernetes.fleets.objects import ENDED_FROM_OUTSIDE
from sandwright_kubernetes.objects import field, rows, text

Json = dict[str, Any]

_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_TIME_IS_UP = 124
_LATE = "DeadlineExceeded"
_NEVER_RAN = ("StartError", "ContainerCannotRun")


@dataclass(frozen=True)
class SeenPod:
    """A Pod that is over. `final`: no Pod follows, if it failed."""

    uid: str
    attempt: RunAttempt
    succeeded: bool
    final: bool


class Tally:
    """The count of one fleet."""

    def __init__(self, *, uid: str, count: int, retries: int) -> None:
        """`uid` is the Job's."""
        self._uid = uid
        self._count = count
        self._retries = retries
        self._pods: dict[int, dict[str, SeenPod]] = {}
        self._failed: set[int] = set()
        self._completed: set[int] = set()
        self._running = 0
        self.ended = False
        """Whether the Job's controller starts no Pod any more."""

    def see_job(self, job: Json) -> None:
        """Take in the cluster's report on the Job."""
        status = field(job, "status")
        self._completed |= indexes(text(status, "completedIndexes"), self._count)
        self._failed |= indexes(text(status, "failedIndexes"), self._count)
        ready = field(status, "ready")
        self._running = ready if isinstance(ready, int) else 0
        self.ended = any(
            text(each, "type") in ("Complete", "Failed") and text(each, "status") == "True"
            for each in rows(status, "conditions")
        )

    def see_pod(self, pod: Json) -> SeenPod | None:
        """Take in a Pod; give it where it is one of the fleet's that is over and was not seen before."""
        found = self._read_pod(pod)
        if found is None:
            return None
        seen_pods = self._pods.setdefault(found.attempt.index, {})
        if found.uid in seen_pods:
            return None
        seen_pods[found.uid] = found
        return found

    def over(self, index: int) -> SeenPod | None:
        """The Pod that counts, where it is known."""
        seen_pods = self._pods.get(index, {}).values()
        done = next((each for each in seen_pods if each.succeeded), None)
        if done is not None:
            return done
        if index in self._failed:
            return next((each for each in seen_pods if each.final), None)
        return None

    def failed(self) -> set[int]:
        """The indexes that the Job lists as failed."""
        return set(self._failed)

    def attempts(self, index: int) -> list[SeenPod]:
        """The Pods of an index that are over, in their order."""
        return sorted(self._pods.get(index, {}).values(), key=lambda each: each.attempt.number)

    def remaining(self, index: int) -> tuple[SeenPod | None, str]:
        """The result of an index whose counted Pod was not seen, once the Job has ended."""
        seen = self.attempts(index)
        if index in self._completed:
            return None, "it succeeded, and its Pod was removed before it was seen"
        if index in self._failed and seen:
            return seen[-1], "a later Pod of it may have been removed before it was seen"
        if index in self._failed:
            return None, "it failed, and its Pod was removed before it was seen"
        return None, "the cluster gave the fleet up before it ran"

    def counts(self) -> Counts:
        """The progress of the fleet, as the cluster reports it."""
        done = self._completed | {index for index in self._pods if self.over(index) is not None}
        return Counts(len(done | self._failed), len(self._failed), self._running)

    def _read_pod(self, pod: Json) -> SeenPod | None:
        phase, uid = text(pod, "status", "phase"), text(pod, "metadata", "uid")
        notes = field(pod, "metadata", "annotations")
        index, failures = _parse_number(text(notes, _INDEX)), _parse_number(text(notes, _FAILURES)) or 0
        owned = any(text(each, "uid") == self._uid for each in rows(pod, "metadata", "ownerReferences"))
        if phase not in ("Succeeded", "Failed") or index is None or not uid or not owned:
            return None
        if not 0 <= index < self._count:
            return None
        state = _terminated_state(pod)
        code = field(state, "exitCode")
        has_status = isinstance(code, int) and not isinstance(code, bool)
        late = text(pod, "status", "reason") == _LATE
        never = text(state, "reason") in _NEVER_RAN
        attempt = RunAttempt(
            index=index,
            name=text(pod, "metadata", "name")[:300],
            number=failures + 1,
            status=_TIME_IS_UP if late else code & 255 if has_status and not never else None,
            reason=(text(pod, "status", "reason") or text(state, "reason"))[:64],
            seconds=None if never else _seconds(text(state, "startedAt"), text(state, "finishedAt")),
        )
        itself = has_status and code not in (0, *ENDED_FROM_OUTSIDE) and not _disrupted(pod)
        return SeenPod(uid, attempt, phase == "Succeeded", itself or failures >= self._retries)


def indexes(ranges: str, count: int) -> set[int]:
    """The numbers of a Job's list, `1,3-5,7`, that are below `count`. Malformed parts are left out."""
    found: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        begin, end = _parse_number(first), _parse_number(last or first)
        if begin is not None and end is not None:
            found.update(range(begin, min(end, count - 1) + 1))
    return found


def _parse_number(digits: str) -> int | None:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _terminated_state(pod: Json) -> Any:  # noqa: ANN401 - JSON
    statuses = rows(pod, "status", "containerStatuses")
    status = next((each for each in statuses if text(each, "name") == "sandbox"), {})
    return field(status, "state", "terminated")


def _disrupted(pod: Json) -> bool:
    return any(
        text(each, "type") == "DisruptionTarget" and text(each, "status") == "True"
        for each in rows(pod, "status", "conditions")
    )


def _seconds(began: str, ended: str) -> int | None:
    """Between two times of the cluster, which are whole seconds."""
    try:
        first, last = (datetime.datetime.fromisoformat(each) for each in (began, ended))
        return max(0, round((last - first).total_seconds()))
    except (ValueError, TypeError):
        return None


def waiting_reasons(pods: list[Json]) -> Iterator[str]:
    """The reasons why Pods don't run, in the cluster's words."""
    for pod in pods:
        statuses = rows(pod, "status", "containerStatuses")
        state = field(statuses[0], "state", "waiting") if statuses else None
        reason = text(state, "message") or text(state, "reason")
        conditions = rows(pod, "status", "conditions")
        blocked = [text(each, "message") for each in conditions if text(each, "status") == "False"]
        yield from filter(None, (reason, *blocked))
