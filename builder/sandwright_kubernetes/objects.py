"""Paths of objects in the API, and their comparison with the sent ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

Json = dict[str, Any]

PLURALS: Mapping[str, tuple[str, str]] = {
    "Namespace": ("api/v1", "namespaces"),
    "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses"),
    "ResourceQuota": ("api/v1", "resourcequotas"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Service": ("api/v1", "services"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "Pod": ("api/v1", "pods"),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "Job": ("apis/batch/v1", "jobs"),
    "SelfSubjectAccessReview": ("apis/authorization.k8s.io/v1", "selfsubjectaccessreviews"),
}
"""By kind: the group's version, and the name of its objects in a path."""

WIDE = frozenset(("Namespace", "RuntimeClass", "SelfSubjectAccessReview"))
"""Kinds that are in no namespace."""

_COUNTED = frozenset(("resources", "hard", "sizeLimit"))
"""Fields of quantities, which the API server writes in another way than they came."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|Pi|Ei|[umkMGTPE]?|[eE][0-9]{1,2})")
_DECIMAL = {"u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_FALSE = frozenset(("hostIPC", "hostNetwork", "hostPID", "readOnly"))
"""Fields that are left out where they are false. Absent others are true, or not known to a cluster."""


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """The path of an object, or without a name of all of its kind."""
    version, plural = PLURALS[kind]
    within = "" if kind in WIDE else f"/namespaces/{namespace}"
    return f"/{version}{within}/{plural}" + (f"/{name}" if name else "")


def differences(sent: Any, got: Any, at: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """The fields of a sent object that differ in the cluster: dropped, or changed on the way.

    Additions are not listed, except entries of lists. An empty value may be absent; so may false where
    that means the same.
    """
    if isinstance(sent, dict):
        for name, value in sent.items():
            other = got.get(name) if isinstance(got, dict) else None
            yield from differences(value, other, f"{at}.{name}".lstrip("."))
    elif isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        for index, (value, other) in enumerate(zip(sent, got, strict=True)):
            yield from differences(value, other, f"{at}[{index}]")
    elif not (sent == got or _is_omitted(sent, got, at) or _is_amount(sent, got, at)):
        yield at


def _is_omitted(sent: Any, got: Any, at: str) -> bool:  # noqa: ANN401 - JSON
    """Whether a sent value is the default of an absent field."""
    if sent is False:
        return got is None and at.rpartition(".")[2] in _FALSE
    return not sent and not got and got is not False


def _is_amount(sent: Any, got: Any, at: str) -> bool:  # noqa: ANN401 - JSON
    """Whether both are the same quantity, in a field of such."""
    if not _COUNTED.intersection(at.split(".")) or not isinstance(got, str | int):
        return False
    amount = _amount(str(sent))
    return amount is not None and amount == _amount(str(got))


def _amount(text: str) -> Fraction | None:
    """The number that a quantity of Kubernetes is; None for another text."""
    found = _QUANTITY.fullmatch(text[:40])
    if found is None:
        return None
    number, unit = Fraction(found[1]), found[2]
    if unit.endswith("i"):
        return number * (1 << 10 * ("KMGTPE".index(unit[0]) + 1))
    power = _DECIMAL[unit] if unit in _DECIMAL else int(unit[1:])
    return Fraction(f"{found[1]}e{power}")


def field(value: Any, *names: str | int) -> Any:  # noqa: ANN401 - JSON of a cluster, of any shape
    """The value at a path of an object, None where there is none."""
    for name in names:
        if isinstance(name, int):
            value = value[name] if isinstance(value, list) and len(value) > name else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def text(value: Any, *names: str | int) -> str:  # noqa: ANN401 - likewise
    """The text there; empty for anything else."""
    found = field(value, *names)
    return found if isinstance(found, str) else ""


def rows(value: Any, *names: str | int) -> list[Json]:  # noqa: ANN401 - likewise
    """The objects in the list there; none for anything else."""
    found = field(value, *names)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
