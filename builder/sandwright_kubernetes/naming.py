"""The names of a policy's objects in a cluster."""

from __future__ import annotations

import hashlib
import re

from sandwright.policy.resolved import ResolvedPolicy

_MANAGED = {"app.kubernetes.io/managed-by": "sandwright"}
_LONGEST = 30


def sandbox_name(policy: ResolvedPolicy) -> str:
    """The name of the namespace, the Job and their objects: an RFC 1123 label of the project's path.

    Readable, and unique for every project: the checksum distinguishes similar names.
    """
    path = policy.canonical(policy.facts.project)
    words = re.sub(r"[^a-z0-9]+", "-", path.rpartition("/")[2].lower())[:_LONGEST].strip("-")
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return "-".join(filter(None, ("sandbox", words, digest)))


def labels(name: str, component: str = "sandbox") -> dict[str, str]:
    """The labels of an object; the first two select it."""
    return {**selector(name, component), **_MANAGED}


def selector(name: str, component: str = "sandbox") -> dict[str, str]:
    """The labels by which the Pods of a component are selected."""
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}
