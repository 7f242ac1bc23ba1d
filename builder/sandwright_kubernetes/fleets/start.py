"""Starts a fleet in a cluster, and finds one again."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandwright.methods.fleets import FleetOrder
from sandwright_kubernetes import admission
from sandwright_kubernetes.admission import NothingRan
from sandwright_kubernetes.connection import ApiRefused, Connection, connect
from sandwright_kubernetes.fleets import records
from sandwright_kubernetes.fleets.fleet import ClusterFleet
from sandwright_kubernetes.fleets.objects import fleet_documents, fleet_job, has_rows, rows_map
from sandwright_kubernetes.fleets.records import FleetRecord
from sandwright_kubernetes.objects import differences, path_of, rows, text
from sandwright_kubernetes.records import SESSION, owner
from sandwright_kubernetes.start import check_cluster, notify, read_manifests
from sandwright_kubernetes.sync.transfer import ProjectTransfer, prepared

Json = dict[str, Any]

_NEEDED = (("watch", "Job"), ("list", "Job"), ("patch", "Job"), ("watch", "Pod"))
"""The rights that a fleet needs beside those of a run."""

STAYS = "each run has the project as it is now; what a run writes to it does not come back"


def start_cluster_fleet(directory: Path, order: FleetOrder) -> ClusterFleet:
    """Make the Job, and let it go. Raise SandwrightError when nothing was started, and nothing is left."""
    if records.read_fleet_record(order.name) is not None:
        raise NothingRan(
            f"there is a fleet {order.name} of yours: --resume goes on with it, --remove ends it"
        )
    connection = connect()
    documents = read_manifests(directory)
    with prepared(directory, documents["job.yaml"], suffix=f"-{order.name}", returns=False) as transfer:
        if transfer is not None:
            documents["job.yaml"] = transfer.job
        return _start_fleet(connection, documents, order, transfer)


def _start_fleet(
    connection: Connection, documents: Mapping[str, Json], order: FleetOrder, transfer: ProjectTransfer | None
) -> ClusterFleet:
    proxied = admission.is_proxied(admission.manifests_of(documents))
    documents = fleet_documents(documents, order, proxied=proxied)
    session = secrets.token_hex(8)
    job = fleet_job(documents["job.yaml"], order, session=session, owner=owner())
    if has_rows(order):
        rows_map(order, job)  # refuses rows that do not fit before creating any object
    check_cluster(connection, {**documents, "job.yaml": job})
    _check_rights(connection, job, order)
    for line in (*transfer.send(), STAYS) if transfer is not None else ():
        notify(line)
    cluster = connection.place
    record = FleetRecord(order.name, session, "", job, cluster.kubeconfig, cluster.context)
    with records.new(record):
        fleet = ClusterFleet(connection, record.made(_create_job(connection, job)))
        try:
            if has_rows(order):
                _make_rows(connection, order, {**job, "metadata": {**job["metadata"], "uid": fleet.id}})
            fleet.release()
        except BaseException:
            fleet.remove()
            raise
    return fleet


def find_cluster_fleet(name: str) -> ClusterFleet | None:
    """The fleet of a name, where this user started it from this machine, and its Job is there."""
    record = records.read_fleet_record(name)
    if record is None:
        return None
    connection = connect(record.cluster)
    if not record.uid:  # who started it was killed in between
        found = _looked_up(connection, record.job)
        if found is None or text(found, "metadata", "labels", SESSION) != record.session:
            record.forget()
            return None
        record = record.made(text(found, "metadata", "uid"))
    return ClusterFleet(connection, record)


def _check_rights(connection: Connection, job: Json, order: FleetOrder) -> None:
    namespace = str(job["metadata"]["namespace"])
    needed = [*_NEEDED, *[("create", "ConfigMap")] * has_rows(order)]
    lacking = [
        f"{verb} {kind.lower()}s"
        for verb, kind in needed
        if not admission.is_allowed(connection, namespace, verb, kind)
    ]
    if lacking:
        raise NothingRan(f"in the namespace {namespace} we may not: {', '.join(lacking)}")


def _create_job(connection: Connection, job: Json) -> str:
    """Make the Job; give its uid. Raise NothingRan where one of that name is there, or it is made otherwise.

    An answer may have been lost, and the request been made again: its labels have our session, which was
    unknown to others.
    """
    metadata = job["metadata"]
    try:
        made = connection.ask("POST", path_of("Job", metadata["namespace"]), job)
    except ApiRefused as error:
        found = _looked_up(connection, job) if error.reason == "AlreadyExists" else None
        if found is None:
            raise NothingRan(f"the cluster takes no Job: {error}") from error
        made = found
    if text(made, "metadata", "labels", SESSION) != metadata["labels"][SESSION]:
        raise NothingRan(
            f"there is a Job {metadata['namespace']}/{metadata['name']}, and it is not of this fleet: "
            "take another --name"
        )
    uid = text(made, "metadata", "uid")
    if changed := list(differences(job["spec"], made.get("spec"))):
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        path = path_of("Job", metadata["namespace"], metadata["name"])
        connection.ask("DELETE", path, {**options, "propagationPolicy": "Background"})
        raise NothingRan(f"the cluster made another Job of it: {', '.join(changed[:5])}")
    return uid


def _looked_up(connection: Connection, job: Json) -> Json | None:
    metadata = job["metadata"]
    try:
        return connection.ask("GET", path_of("Job", metadata["namespace"], metadata["name"]))
    except ApiRefused as error:
        if error.status != 404:
            raise
        return None


def _make_rows(connection: Connection, order: FleetOrder, job: Json) -> None:
    """Make the ConfigMap. Raise NothingRan where one is there that holds something else."""
    document = rows_map(order, job)
    metadata = document["metadata"]
    path = path_of("ConfigMap", metadata["namespace"], metadata["name"])
    try:
        made = connection.ask("POST", path.rpartition("/")[0], document)
    except ApiRefused as error:
        if error.reason != "AlreadyExists":
            raise NothingRan(f"the cluster takes no rows: {error}") from error
        made = connection.ask("GET", path)
    same = made.get("data") == document["data"] and made.get("immutable") is True
    if not same or metadata["ownerReferences"][0]["uid"] not in _owners(made):
        raise NothingRan(f"there is a ConfigMap {metadata['name']}, and it is not of this fleet")


def _owners(document: Json) -> list[str]:
    return [text(each, "uid") for each in rows(document, "metadata", "ownerReferences")]
