"""The objects of a fleet, made of those of one run. Pure.

A fleet has a separate namespace, since that of single runs holds one Pod. Otherwise it is the same.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sandwright.errors import UsageError
from sandwright.methods.fleets import FleetOrder
from sandwright_kubernetes.records import OWNER, SESSION

Json = dict[str, Any]

INDEX = "JOB_COMPLETION_INDEX"
"""The variable with a run's index. The Job's controller would set it; it is in the Job so that Pods are equal
to it."""

KEPT = 24 * 3600
"""Seconds for which an ended fleet is kept for its owner's return."""

ENDED_FROM_OUTSIDE = (128, 137, 143)
"""Statuses of a command that SIGKILL and SIGTERM ended: its Pod was deleted, or the command reached a limit;
and of one that was never run, as where a kubelet is killed while it starts a container (StartError). A Job's
rules know the status alone."""

ROWS = "rows"
ROW = "/.sandwright-row"
"""The path of a Pod's own row, a shell script."""

MOST_ROWS = 900_000
"""Bytes of all rows: they are in one ConfigMap, which may hold 1 MiB."""

_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


def fleet_namespace(name: str) -> str:
    """The namespace of fleets, by that of single runs."""
    return f"{name}-fleet"


def fleet_documents(documents: Mapping[str, Json], order: FleetOrder, *, proxied: bool) -> dict[str, Json]:
    """The manifests of one run as those around a fleet: its namespace, and a quota of `parallel` Pods."""
    made = copy.deepcopy(dict(documents))
    name = made["job.yaml"]["metadata"]["namespace"]
    for document in made.values():
        metadata = document.get("metadata", {})
        if metadata.get("namespace") == name:
            metadata["namespace"] = fleet_namespace(name)
    made["namespace.yaml"]["metadata"]["name"] = fleet_namespace(name)
    made["quota.yaml"]["spec"]["hard"]["pods"] = str(order.parallel + int(proxied))
    return made


def fleet_job(job: Json, order: FleetOrder, *, session: str, owner: str) -> Json:
    """The Job, which starts nothing before it is let go (`suspend`)."""
    made = copy.deepcopy(job)
    for each in (made, made["spec"]["template"]):
        each["metadata"]["labels"] = {**each["metadata"]["labels"], SESSION: session, OWNER: owner}
    made["metadata"]["name"] = f"fleet-{order.name}"
    made["spec"] = {
        "backoffLimitPerIndex": order.retries,
        "completionMode": "Indexed",
        "completions": len(order.rows),
        "parallelism": min(order.parallel, len(order.rows)),
        "podFailurePolicy": {"rules": _failure_rules()},
        "podReplacementPolicy": "Failed",
        "suspend": True,
        "template": made["spec"]["template"],
        "ttlSecondsAfterFinished": KEPT,
    }
    pod = made["spec"]["template"]["spec"]
    container = pod["containers"][0]
    path = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{_INDEX_LABEL}']"}}
    variables = [each for each in container["env"] if each["name"] != INDEX]
    container["env"] = [{"name": INDEX, "valueFrom": path}, *variables]
    if has_rows(order):
        container["command"] = ["sh", ROW]
        mount = {"name": ROWS, "mountPath": ROW, "readOnly": True, "subPathExpr": f"$({INDEX})"}
        container["volumeMounts"] = [*container["volumeMounts"], mount]
        pod["volumes"] = [*pod["volumes"], {"name": ROWS, "configMap": {"name": rows_name(order)}}]
    else:
        _check_words(order.command)
        container["command"] = [word.replace("$", "$$") for word in order.command]
    return made


def _failure_rules() -> list[Json]:
    """The rules for failed Pods: a command that ended by itself has ended, with any status.

    A Pod that the cluster gave up (drained node, eviction, lost node) is replaced, for any exit status of its
    command; so is one that was killed.
    """
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    ended = {"containerName": "sandbox", "operator": "NotIn", "values": [0, *ENDED_FROM_OUTSIDE]}
    return [
        {"action": "Count", "onPodConditions": disrupted},
        {"action": "FailIndex", "onExitCodes": ended},
    ]


def has_rows(order: FleetOrder) -> bool:
    """Whether its runs differ by more than their index."""
    return any(order.rows)


def rows_name(order: FleetOrder) -> str:
    """The name of the ConfigMap with its rows."""
    return f"fleet-{order.name}-rows"


def rows_map(order: FleetOrder, job: Json) -> Json:
    """The rows, each a line of the shell; it goes with `job`, the object that the cluster made.

    Raise UsageError for words that no ConfigMap holds.
    """
    data = {str(index): _row_script((*order.command, *row)) for index, row in enumerate(order.rows)}
    size = sum(len(key) + len(text.encode()) for key, text in data.items())
    if size > MOST_ROWS:
        raise UsageError(f"the rows take {size} bytes, and a fleet holds {MOST_ROWS}: make several of them")
    metadata = job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": rows_name(order),
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
            "ownerReferences": [owner],
        },
        "immutable": True,
        "data": data,
    }


def _row_script(words: Sequence[str]) -> str:
    _check_words(words)
    return f"exec {shlex.join(words)}\n"


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if "\0" in word:
            raise UsageError(f"{word!r} holds a NUL byte, which no argument can")
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{word!r} is no UTF-8, and a Job holds nothing else") from error
