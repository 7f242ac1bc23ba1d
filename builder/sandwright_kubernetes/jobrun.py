"""One Job in a cluster from its creation to its end: its Pod, log and status, or that its Pod was lost."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sandwright.errors import HostError
from sandwright_kubernetes.admission import NothingRan, check_same
from sandwright_kubernetes.connection import ApiRefused, ApiUnreachable, Connection, Json
from sandwright_kubernetes.objects import differences, field, path_of, rows, text
from sandwright_kubernetes.pod import GRACE
from sandwright_kubernetes.records import OWNER, SESSION

START_LIMIT = 180.0
"""Seconds until the container must run: the node may be pulling its image."""

END_LIMIT = 60.0
"""Seconds after the end of its log in which the cluster must report how the container ended."""

GONE_LIMIT = 10.0
"""The same where its Pod is gone."""

REMOVE_LIMIT = GRACE + 60.0
"""Seconds for a Pod to go once its Job is deleted."""

_LATE = "DeadlineExceeded"
_MOST_PODS = "50"
_SILENCE = 600.0
_LOOK = 0.25
_BREATH = 1.0
_FATAL = ("Err", "BackOff", "Invalid", "CreateContainer", "RunContainer", "StartError")
"""Parts of the reasons for which a container waits in vain."""

_REMEDIES = (
    ("seccomp", "run `install-profile` on each node"),
    ("does not support user namespaces", "the node's runtime has to: containerd 2.0, runc 1.2, Linux 6.3"),
    ("exceeded quota", "another run is in this namespace, which holds one"),
)


class TimeIsUp(HostError):
    """The run's time was up."""


class Lost(HostError):
    """It ran, and how it ended is not known."""


@dataclass(frozen=True)
class ContainerEnd:
    """The end of the container, by its status in the cluster. `reason` is the cluster's word."""

    status: int
    reason: str


def with_command(job: Json, argv: Sequence[str], *, name: str, session: str, owner: str) -> Json:
    """The rendered Job as that of one run. Raise NothingRan for words that no Job can hold."""
    made = copy.deepcopy(job)
    labels = {SESSION: session, OWNER: owner}
    for each in (made, made["spec"]["template"]):
        each["metadata"]["labels"] = {**each["metadata"]["labels"], **labels}
    made["metadata"]["name"] = name
    container = made["spec"]["template"]["spec"]["containers"][0]
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise NothingRan(f"{word!r} is no UTF-8, and a Job holds nothing else") from error
    container["command"] = [word.replace("$", "$$") for word in argv]
    return made


class JobRun:
    """A Job of ours. `job` is the object to be made."""

    def __init__(self, connection: Connection, job: Json) -> None:
        """Nothing is made yet."""
        self.connection = connection
        self._job = job
        self._namespace = str(job["metadata"]["namespace"])
        self.name = str(job["metadata"]["name"])
        self._path = path_of("Job", self._namespace, self.name)
        self._uid = ""
        self._pod: Json = {}

    def create(self) -> None:
        """Make it. Raise NothingRan where the cluster does not take it, or makes another one of it."""
        try:
            made = self.connection.ask("POST", path_of("Job", self._namespace), self._job)
        except ApiRefused as error:
            if error.reason != "AlreadyExists":
                raise NothingRan(f"the cluster takes no Job: {error}") from error
            made = self.connection.ask("GET", self._path)  # an answer was lost, and it was asked again
        self._uid = text(made, "metadata", "uid")
        if changed := list(differences(self._job["spec"], made.get("spec"))):
            raise NothingRan(f"the cluster made another Job of it: {', '.join(changed[:5])}")

    @property
    def pod(self) -> str:
        """The path of its Pod, which is known when it has started."""
        return path_of("Pod", self._namespace, text(self._pod, "metadata", "name"))

    def await_start(self, limit: float = START_LIMIT) -> None:
        """Wait until the container runs, or has run. Raise NothingRan with the reason why it does not."""
        deadline = time.monotonic() + limit
        while not self._has_started():
            if time.monotonic() > deadline:
                raise NothingRan(f"the Pod does not start within {limit:.0f} s: {self._waits_for()}")
            time.sleep(_LOOK)
        check_same(self._job["spec"]["template"]["spec"], self._pod.get("spec"))

    def follow(self, write: Callable[[bytes], None]) -> None:
        """Write the container's log as it comes, to its end. No part is written twice."""
        path = f"{self.pod}/log"
        written = 0
        while True:
            skipped = 0
            try:
                with self.connection.stream(
                    path, silence=_SILENCE, container="sandbox", follow="true"
                ) as pieces:
                    for piece in pieces:
                        new = piece[max(0, written - skipped) :]
                        skipped += len(piece)
                        if new:
                            write(new)
                            written += len(new)
            except (ApiRefused, ApiUnreachable):
                time.sleep(_BREATH)
            time.sleep(_LOOK)  # the status is known a little later than the end of the log
            if self.is_over():
                return

    def is_over(self) -> bool:
        """Whether the container has ended, or its Pod is gone."""
        return self._look_up_pod() is None or self._container_end() is not None or self._over()

    def end(self) -> ContainerEnd:
        """Wait for the end of the run. Raise TimeIsUp; Lost if the cluster does not report it."""
        deadline = time.monotonic() + END_LIMIT
        while True:
            pod = self._look_up_pod()
            if self._is_late(is_there=pod is not None):
                raise TimeIsUp("the time limit (resources.time) was reached")
            if (found := self._container_end()) is not None:
                return found
            if pod is None:  # the Job's word on why comes a little later
                deadline = min(deadline, time.monotonic() + GONE_LIMIT)
            if time.monotonic() > deadline:
                why = text(self._pod, "status", "message") or text(self._pod, "status", "reason")
                gone = "its Pod is gone" if pod is None else "its Pod has no status of it"
                raise Lost(f"how the command ended is not known: {why or gone}")
            time.sleep(_LOOK)

    def await_beside(self, name: str) -> str:
        """Wait until a container beside the command's runs; give its Pod's path. Raise HostError."""
        deadline = time.monotonic() + END_LIMIT
        while self._look_up_pod() is not None and time.monotonic() < deadline:
            if field(self._container_status(name), "state", "running") is not None:
                return self.pod
            time.sleep(_LOOK)
        raise HostError(f"the container {name}, which reads the changes, does not run")

    def remove(self) -> None:
        """Delete it with its Pod, and wait until no program of it runs. Raise HostError when it stays."""
        alone = len(self._job["spec"]["template"]["spec"]["containers"]) == 1
        over = alone and self._container_end() is not None
        remove_job(self.connection, self._namespace, self.name, over=over)

    def _look_up_pod(self) -> Json | None:
        """Its Pod now, which is kept; None where there is none. Others may bear its label, not its owner."""
        listed = self.connection.ask(
            "GET", path_of("Pod", self._namespace), labelSelector=f"job-name={self.name}", limit=_MOST_PODS
        )
        found = [each for each in rows(listed, "items") if self._owns(each)]
        self._pod = found[0] if found else self._pod
        return found[0] if found else None

    def _owns(self, pod: Json) -> bool:
        return bool(self._uid) and any(
            text(each, "uid") == self._uid for each in rows(pod, "metadata", "ownerReferences")
        )

    def _container_status(self, name: str = "sandbox") -> Json:
        """A container's status in the Pod, by its name."""
        listed = rows(self._pod, "status", "containerStatuses")
        return next((each for each in listed if text(each, "name") == name), {})

    def _waiting(self) -> Iterator[Json]:
        """The states of containers that do not run yet."""
        for kind in ("initContainerStatuses", "containerStatuses"):
            for each in rows(self._pod, "status", kind):
                yield field(each, "state", "waiting") or {}

    def _container_end(self) -> ContainerEnd | None:
        state = field(self._container_status(), "state", "terminated")
        code = field(state, "exitCode")
        if isinstance(code, int) and not isinstance(code, bool):
            return ContainerEnd(code & 255, text(state, "reason")[:64])
        return None

    def _has_started(self) -> bool:
        """Whether it runs or has run. Raise NothingRan where it never will."""
        if self._look_up_pod() is None:
            self._check_job()
            return False
        status = self._container_status()
        if field(status, "state", "running") is not None or self._container_end() is not None:
            ended = self._container_end()
            if ended is not None and ended.reason in ("StartError", "ContainerCannotRun"):
                why = text(field(status, "state", "terminated"), "message")
                raise NothingRan(self._with_remedy(f"cannot start the command: {why}"))
            return True
        for waiting in self._waiting():
            reason = text(waiting, "reason")
            if any(each in reason for each in _FATAL):
                why = text(waiting, "message") or reason
                raise NothingRan(self._with_remedy(f"the Pod does not start: {why}"))
        if text(self._pod, "status", "phase") == "Failed":
            raise NothingRan(self._with_remedy(f"the Pod does not start: {self._waits_for()}"))
        return False

    def _check_job(self) -> None:
        """Look why there is no Pod. Raise NothingRan where there will be none."""
        for each in self._conditions():
            if text(each, "type") in ("Failed", "FailureTarget") and text(each, "status") == "True":
                raise NothingRan(f"the Job failed before it ran: {text(each, 'message')}")

    def _is_late(self, *, is_there: bool) -> bool:
        """Whether its time was up, as the Pod says, or the Job where the Pod goes for that or is gone."""
        if text(self._pod, "status", "reason") == _LATE:
            return True
        if is_there and not text(self._pod, "metadata", "deletionTimestamp"):
            return False
        return any(text(each, "reason") == _LATE for each in self._conditions())

    def _conditions(self) -> list[Json]:
        """The Job's; none where the Job is gone."""
        try:
            return rows(self.connection.ask("GET", self._path), "status", "conditions")
        except ApiRefused as error:
            if error.status != 404:
                raise
            return []

    def _over(self) -> bool:
        return text(self._pod, "status", "phase") in ("Failed", "Succeeded")

    def _waits_for(self) -> str:
        """The reason why the Pod does not run, in the cluster's words."""
        conditions = rows(self._pod, "status", "conditions")
        messages = [text(each, "message") for each in conditions if text(each, "status") == "False"]
        waiting = text(self._container_status(), "state", "waiting", "message")
        message = text(self._pod, "status", "message")
        before = [
            text(each, "state", "terminated", "message")
            for each in rows(self._pod, "status", "initContainerStatuses")
        ]
        return (
            "; ".join(
                dict.fromkeys(filter(None, (message, waiting, *before, *messages, *self._warning_events())))
            )
            or "no reason given"
        )

    def _warning_events(self) -> list[str]:
        """The cluster's last warnings about the Job and its Pod."""
        names = filter(None, (self.name, text(self._pod, "metadata", "name")))
        found = [each for name in names for each in warnings_of(self.connection, self._namespace, name)]
        return found[-2:]

    @staticmethod
    def _with_remedy(message: str) -> str:
        remedy = next((help_ for word, help_ in _REMEDIES if word in message), "")
        return f"{message}; {remedy}" if remedy else message


def warnings_of(connection: Connection, namespace: str, name: str) -> list[str]:
    """The cluster's warnings about an object, such as a used-up quota; empty without permission."""
    selector, path = f"involvedObject.name={name},type=Warning", f"/api/v1/namespaces/{namespace}/events"
    try:
        listed = connection.ask("GET", path, fieldSelector=selector, limit="5")
    except ApiRefused:
        return []
    return [text(each, "message") for each in rows(listed, "items")]


def remove_job(connection: Connection, namespace: str, name: str, *, over: bool = False) -> None:
    """Delete a Job; wait until its Pods are gone, unless they are `over`. Raise HostError when they stay."""
    deadline = time.monotonic() + REMOVE_LIMIT
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    try:
        connection.ask("DELETE", path_of("Job", namespace, name), options)
    except ApiRefused as error:
        if error.status != 404:
            raise
    path = path_of("Pod", namespace)
    while not over:
        if not rows(connection.ask("GET", path, labelSelector=f"job-name={name}", limit="1"), "items"):
            return
        if time.monotonic() > deadline:
            raise HostError(f"Pods of the Job {namespace}/{name} are there after {REMOVE_LIMIT:.0f} s")
        time.sleep(_LOOK)
