"""Records of fleets that this user started from this machine: a file for each, by its name.

With it a fleet is found again, by the Job's UID: another Job may have the same name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright_kubernetes.admission import NothingRan
from sandwright_kubernetes.connection import Place
from sandwright_kubernetes.records import clusters_directory

Json = dict[str, Any]


@dataclass(frozen=True)
class FleetRecord:
    """One fleet: its Job as it was sent, and the cluster's id for it (`uid`, empty before that)."""

    name: str
    session: str
    uid: str
    job: Json
    kubeconfig: str
    context: str

    @property
    def cluster(self) -> Place:
        """The cluster."""
        return Place(self.kubeconfig, self.context)

    @property
    def namespace(self) -> str:
        """The Job's."""
        return str(self.job["metadata"]["namespace"])

    @property
    def job_name(self) -> str:
        """The Job's."""
        return str(self.job["metadata"]["name"])

    def made(self, uid: str) -> FleetRecord:
        """Record that the Job was made."""
        found = replace(self, uid=uid)
        user_dirs.write(_record_path(self.name), json.dumps(asdict(found)).encode())
        return found

    def forget(self) -> None:
        """The Job is gone."""
        Path(_record_path(self.name)).unlink(missing_ok=True)


@contextmanager
def new(record: FleetRecord) -> Iterator[None]:
    """Record a fleet before it is made; forget it where nothing was.

    It stays where that is not known: when the cluster did not answer, or a signal came. Raise HostError for a
    known name.
    """
    path = _record_path(record.name)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise HostError(
            f"there is a fleet {record.name} of yours: --resume goes on with it, --remove ends it"
        ) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(asdict(record)).encode())
    try:
        yield
    except (NothingRan, UsageError):
        record.forget()
        raise


def read_fleet_record(name: str) -> FleetRecord | None:
    """The fleet of a name. Raise HostError for a record that can't be read."""
    try:
        data = strictjson.loads_record(Path(_record_path(name)).read_bytes())
        record = FleetRecord(**data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise HostError(f"cannot read {_record_path(name)}") from error
    return record if record.name == name else None


def _record_path(name: str) -> str:
    return str(clusters_directory("fleets") / f"{name}.json")
