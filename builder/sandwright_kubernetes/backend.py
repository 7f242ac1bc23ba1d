"""Starts a policy's Job in a cluster from here, and removes the leftovers of a killed run there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Leftover, Preflight, RemoteCanary
from sandwright.methods.fleets import Fleet, FleetOrder
from sandwright.methods.shared.launched import Launched
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import Question
from sandwright_kubernetes import records
from sandwright_kubernetes.canary import cluster_canary
from sandwright_kubernetes.connection import EXTRA, ApiRefused, ApiUnreachable, Connection, connect
from sandwright_kubernetes.fleets.start import find_cluster_fleet, start_cluster_fleet
from sandwright_kubernetes.jobrun import remove_job
from sandwright_kubernetes.naming import labels, sandbox_name
from sandwright_kubernetes.objects import field, path_of, text
from sandwright_kubernetes.records import OWNER, SESSION, JobRecord
from sandwright_kubernetes.sync import REGISTRY
from sandwright_kubernetes.sync.layers import parse_registry

OLDEST = 30
"""The oldest minor version: before it a Pod's user namespace is not there by itself (hostUsers)."""

_MINOR = re.compile("[0-9]{1,6}")
_ROOT = str(Path(__file__).parents[1])
_CODE = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from sandwright_kubernetes.start import main; sys.exit(main(sys.argv[2:]))"
)


@dataclass(frozen=True)
class Kubernetes(Launched):
    """The row of kubernetes."""

    name: str = "kubernetes"

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """This program, which talks to the cluster; no module of the current directory is imported."""
        return (sys.executable, "-I", "-X", "utf8", "-c", _CODE, _ROOT, str(directory), *argv)

    def depends(self, host: MachineFacts) -> Iterator[Question]:  # noqa: ARG002
        """On which cluster kubeconfig leads to."""
        home = os.environ.get("HOME", "")
        for path in (os.environ.get("KUBECONFIG") or f"{home}/.kube/config").split(os.pathsep):
            yield "stamp", os.path.abspath(path)  # noqa: PTH100 - it need not be there

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:  # noqa: ARG002
        """Ask the cluster for its version. Each run tries the rest (`start.check_cluster`)."""
        try:
            version = connect().ask("GET", "/version", patience=0)
        except ApiUnreachable as error:
            if isinstance(error.__cause__, ImportError):
                return Preflight(self.name, "program-missing", "its Python client is not installed", EXTRA)
            return Preflight(self.name, "daemon-dead", str(error), "see `kubectl cluster-info`")
        except ApiRefused as error:
            return Preflight(self.name, "no-permission", f"the cluster turns us away: {error}")
        except HostError as error:
            return Preflight(self.name, "not-started", str(error))
        minor = text(version, "minor").rstrip("+")
        if text(version, "major") != "1" or not _MINOR.fullmatch(minor) or int(minor) < OLDEST:
            found = text(version, "gitVersion")[:40]
            return Preflight(
                self.name, "not-started", f"the cluster is {found}; it must be 1.{OLDEST} or later"
            )
        return Preflight(self.name, "ready")

    def start_fleet(self, directory: Path, order: FleetOrder) -> Fleet:
        """An Indexed Job."""
        return start_cluster_fleet(directory, order)

    def find_fleet(self, name: str) -> Fleet | None:
        """By its record, and the Job's uid."""
        return find_cluster_fleet(name)

    def leftovers(self, running: Iterable[str]) -> Iterable[Leftover]:
        """The Jobs of runs that were killed, by their records here. No cluster is queried."""
        alive = set(running)
        for record in records.read_job_records():
            if record.session not in alive and record.is_stale:
                where = f"{record.context} {record.namespace}/{record.job}".lstrip()
                yield Leftover(self.name, "job", where, record.session)

    def remove(self, leftover: Leftover) -> None:
        """Delete a Job that bears our labels."""
        name = leftover.name.rpartition("/")[2]
        record = next((each for each in records.read_job_records() if each.job == name), None)
        if record is None or not record.is_stale:
            raise HostError(f"{leftover} is not recorded, or its run goes on")
        connection = connect(record.cluster)
        if _job_is_ours(connection, record):
            remove_job(connection, record.namespace, record.job)
        record.forget()

    def canary(self, policy: ResolvedPolicy) -> AbstractContextManager[RemoteCanary]:
        """A Pod in a namespace beside the policy's."""
        registry = parse_registry(os.environ.get(REGISTRY, ""))
        return cluster_canary(connect(), sandbox_name(policy), registry)

    def purge(self, policy: ResolvedPolicy) -> None:
        """The namespace with all its objects, if it has our labels."""
        name = sandbox_name(policy)
        path = path_of("Namespace", name=name)
        connection = connect()
        with suppress(ApiRefused):
            found = field(connection.ask("GET", path), "metadata", "labels")
            if labels(name).items() <= (found or {}).items():
                connection.ask("DELETE", path)


def _job_is_ours(connection: Connection, record: JobRecord) -> bool:
    """Whether the Job is there and bears our labels. Raise HostError for another one of its name."""
    try:
        found = connection.ask("GET", path_of("Job", record.namespace, record.job))
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise
    borne = field(found, "metadata", "labels")
    if text(borne, SESSION) != record.session or text(borne, OWNER) != records.owner():
        raise HostError(f"the Job {record.namespace}/{record.job} is not this user's; it stays")
    return True
