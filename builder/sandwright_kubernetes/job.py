"""The objects of a cluster: namespace, Job, and the objects that they need."""

from __future__ import annotations

from typing import Any

from sandwright.policy.resolved import ResolvedPolicy
from sandwright_kubernetes.naming import labels
from sandwright_kubernetes.pod import EMPTY_FILE, RUNTIME_CLASS, Placed, pod_metadata, pod_spec

Json = dict[str, Any]

KEPT = 3600
"""Seconds for which an ended Job and its log are kept."""

LEVEL = "restricted"
"""The Pod Security profile that the namespace enforces; other Pods are not admitted."""


def namespace(name: str) -> Json:
    """The namespace of one sandbox."""
    modes = {f"pod-security.kubernetes.io/{mode}": LEVEL for mode in ("enforce", "audit", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**labels(name), **modes}},
    }


def job(policy: ResolvedPolicy, placed: Placed) -> Json:
    """The Job. Its Pod is started once: a half-finished command is not run again unasked."""
    metadata = pod_metadata(policy)
    spec: Json = {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "ttlSecondsAfterFinished": KEPT,
        "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod_spec(policy, placed)},
    }
    if policy.resources.time is not None:
        spec = {"activeDeadlineSeconds": policy.resources.time, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def pod(policy: ResolvedPolicy, placed: Placed) -> Json:
    """The same Pod alone, for Podman.

    Podman 4.3 doesn't look at `seccompProfile` and starts the Pod under its default filter (measured); it
    takes the path from the annotation that Kubernetes had before.
    """
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": f"localhost/{placed.profile}"}
    metadata = {"name": placed.name, "labels": labels(placed.name), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(policy, placed)}


def quota(policy: ResolvedPolicy, name: str) -> Json:
    """The quota of the namespace: one run at a time, and no service that is reachable from outside."""
    hard = {"pods": "2" if policy.network.mode == "proxy" else "1"}
    hard |= dict.fromkeys(("services.loadbalancers", "services.nodeports"), "0")
    metadata = {"name": "sandbox", "namespace": name, "labels": labels(name)}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def empty_file(name: str) -> Json:
    """A file without content, as a ConfigMap."""
    metadata = {"name": EMPTY_FILE, "namespace": name, "labels": labels(name)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {EMPTY_FILE: ""},
    }


def runtime_class() -> Json:
    """The RuntimeClass of gVisor, for clusters that have none; `runsc` is the handler's usual name."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME_CLASS},
        "handler": "runsc",
    }
