"""A listener in the cluster, for `verify`: no sandbox may reach it, and every other Pod does.

It is a Pod in a separate namespace, which no NetworkPolicy closes, and accepts the first client. The
control client is another Pod there: the same program, under the filter of the node's runtime.
Both run the probe program, out of an image that holds nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.runtime.probe import PROBE
from sandwright_kubernetes.connection import ApiRefused, Connection, Json
from sandwright_kubernetes.job import namespace
from sandwright_kubernetes.naming import labels
from sandwright_kubernetes.objects import field, path_of, rows, text
from sandwright_kubernetes.pod import closed_container, unprivileged_pod
from sandwright_kubernetes.sync.layers import Registry, program_image

PORT = 4100
"""The listening port."""

LIFE = 3600
"""Seconds for which it listens; `verify` is over before."""

_START = 120.0
_LOOK = 0.25
_PROGRAM = f"/{PROBE.name}"


@dataclass(frozen=True)
class ClusterCanary:
    """A listener that runs. `address` is its Pod's, `image` the image of it and its control."""

    connection: Connection
    namespace: str
    image: str
    address: str
    port: int = PORT

    def first_word(self, control: str) -> str:
        """The first client's name for itself. After the last probe another Pod connects, and sends `control`.

        Raise HostError where that does not run.
        """
        command = [_PROGRAM, "tcp", self.address, str(self.port), control]
        _start_pod(self.connection, self.namespace, _canary_pod("control", self.image, command))
        _await(self.connection, self.namespace, "control", "terminated")
        path = f"{path_of('Pod', self.namespace, 'canary')}/log"
        with self.connection.stream(path, silence=_START, container="canary") as pieces:
            return b"".join(pieces).decode(errors="replace")


@contextmanager
def cluster_canary(connection: Connection, name: str, registry: Registry) -> Iterator[ClusterCanary]:
    """One for the length of a `with`, in a namespace that is made for it. Raise SandwrightError."""
    space = f"{name}-canary"
    with tempfile.TemporaryDirectory() as folder, program_image(PROBE, Path(folder)) as staged:
        staged.push(registry, space)
        image = f"{registry.reference.host}/{registry.reference.repository}@{staged.digest}"
    made = namespace(space)
    made["metadata"]["labels"] |= labels(name, "canary")
    connection.ask("POST", path_of("Namespace"), made)
    try:
        serve = [_PROGRAM, "serve", "0.0.0.0", str(PORT), "heard", str(LIFE * 1000)]  # noqa: S104 - a Pod's own
        _start_pod(connection, space, _canary_pod("canary", image, serve))
        running = _await(connection, space, "canary", "running")
        yield ClusterCanary(connection, space, image, text(running, "status", "podIP"))
    finally:
        with suppress(ApiRefused):
            connection.ask("DELETE", path_of("Namespace", name=space))


def _canary_pod(name: str, image: str, command: list[str]) -> Json:
    """As Pod Security `restricted` wants it, without our filter and NetworkPolicy."""
    container = {
        "name": name,
        "image": image,
        "command": command,
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
        "securityContext": closed_container(),
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LIFE,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": unprivileged_pod(),
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _start_pod(connection: Connection, space: str, pod: Json) -> None:
    """Make a Pod. A namespace that was just made has no service account yet."""
    deadline = time.monotonic() + _START
    while True:
        try:
            connection.ask("POST", path_of("Pod", space), pod)
        except ApiRefused as error:
            if error.reason == "AlreadyExists":  # an answer was lost, and it was asked again
                return
            if "error looking up service account" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            return


def _await(connection: Connection, space: str, name: str, state: str) -> Json:
    """The Pod once its container is in a state. Raise HostError where it does not get there."""
    deadline = time.monotonic() + _START
    while True:
        found = connection.ask("GET", path_of("Pod", space, name))
        status = next(iter(rows(found, "status", "containerStatuses")), {})
        if field(status, "state", state) is not None:
            return found
        if time.monotonic() > deadline or field(status, "state", "terminated") is not None:
            why = text(status, "state", "waiting", "message") or text(found, "status", "phase")
            raise HostError(f"the Pod {name} in {space} is not {state}: {why}")
        time.sleep(_LOOK)
