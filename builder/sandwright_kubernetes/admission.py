"""The checks in a cluster before anything runs in it: rights, namespace, and its changes to the Pod."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from sandwright.errors import HostError
from sandwright_kubernetes.connection import ApiRefused, Connection, Json
from sandwright_kubernetes.job import LEVEL
from sandwright_kubernetes.objects import PLURALS, WIDE, differences, field, path_of, rows, text

NEEDED = (
    ("create", "Job", ""),
    ("get", "Job", ""),
    ("delete", "Job", ""),
    ("list", "Pod", ""),
    ("get", "Pod", "log"),
)
"""The rights that a run needs beside those to apply the sandbox's restrictions: verb, kind, subresource."""

FIELD_MANAGER = "sandwright"
_PROXY_LIMIT = 120.0
_ACCOUNT_LIMIT = 30.0
_LOOK = 0.5
_ENFORCE = "pod-security.kubernetes.io/enforce"


class NothingRan(HostError):
    """The cluster can't run it as it was rendered, and nothing was run."""


def check_rights(
    connection: Connection,
    namespace: str,
    manifests: Sequence[Json],
    more: Sequence[tuple[str, str, str]] = (),
) -> None:
    """Ask for our rights (SelfSubjectAccessReview). Raise NothingRan that names the missing ones.

    `more` are rights that only this run needs: verb, kind, subresource.
    """
    applied = [("patch", str(each["kind"]), "") for each in manifests if each["kind"] not in WIDE]
    if is_proxied(manifests):
        applied += [("get", "Deployment", ""), ("list", "NetworkPolicy", "")]
    lacking = [
        f"{verb} {PLURALS[kind][1]}" + (f"/{sub}" if sub else "")
        for verb, kind, sub in dict.fromkeys((*NEEDED, *applied, *more))
        if not is_allowed(connection, namespace, verb, kind, sub)
    ]
    if lacking:
        raise NothingRan(f"in the namespace {namespace} we may not: {', '.join(lacking)}")


def is_allowed(connection: Connection, namespace: str, verb: str, kind: str, subresource: str = "") -> bool:
    """Whether the cluster lets us do something."""
    version, plural = PLURALS[kind]
    group = version.split("/")[1] if version.startswith("apis/") else ""
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    within = {} if kind in WIDE else {"namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **within}},
    }
    answer = connection.ask("POST", path_of("SelfSubjectAccessReview"), review)
    return field(answer, "status", "allowed") is True


def apply_around(connection: Connection, namespace: str, manifests: Sequence[Json]) -> None:
    """Restore the sandbox's surrounding objects as rendered: they may have been changed.

    Objects of the whole cluster are created if they are missing, and never changed. Raise NothingRan.
    """
    for each in manifests:
        kind, name = str(each["kind"]), str(each["metadata"]["name"])
        path = path_of(kind, namespace, name)
        try:
            if kind in WIDE:
                _make_wide(connection, each, path)
                continue
            made = connection.ask("PATCH", path, each, apply=True, fieldManager=FIELD_MANAGER, force="true")
        except ApiRefused as error:
            raise NothingRan(f"{kind} {name} is not taken by the cluster: {error}") from error
        changed = list(differences(each.get("spec", {}), made.get("spec")))
        if changed:
            raise NothingRan(f"the cluster changed {kind} {name}: {', '.join(changed[:5])}")
    if is_proxied(manifests):
        _await_proxy(connection, namespace)


def _make_wide(connection: Connection, manifest: Json, path: str) -> None:
    try:
        connection.ask("GET", path)
    except ApiRefused as error:
        if error.status == 403:
            return  # without the right to see it, its content shows whether it exists
        if error.status != 404:
            raise
        try:
            connection.ask("POST", path_of(str(manifest["kind"])), manifest)
        except ApiRefused as refused:
            if refused.reason != "AlreadyExists":
                raise


def _await_proxy(connection: Connection, namespace: str) -> None:
    deadline = time.monotonic() + _PROXY_LIMIT
    path = path_of("Deployment", namespace, "proxy")
    while time.monotonic() < deadline:
        found = connection.ask("GET", path)
        current = field(found, "status", "observedGeneration") == field(found, "metadata", "generation")
        if current and field(found, "status", "availableReplicas") == 1:
            return
        time.sleep(_LOOK)
    raise NothingRan(f"the proxy does not start within {_PROXY_LIMIT:.0f} s")


def check_closed(connection: Connection, namespace: str) -> None:
    """Have the namespace refuse a Pod that it must not admit. Nothing is made (dryRun). Raise NothingRan."""
    path = path_of("Pod", namespace)
    try:
        _dry_run_pod(connection, path)
    except ApiRefused as error:
        if error.reason == "Forbidden" and "violates PodSecurity" in str(error):
            return
        labels = field(connection.ask("GET", path_of("Namespace", name=namespace)), "metadata", "labels")
        if not is_allowed(connection, namespace, "create", "Pod") and text(labels, _ENFORCE) == LEVEL:
            return  # that is the word of its label: we may not try it out
        raise NothingRan(
            f"whether {namespace} admits restricted Pods alone is not to be seen: {error}"
        ) from error
    raise NothingRan(
        f"the namespace {namespace} admits a Pod in the node's own namespaces: it must enforce {LEVEL}"
    )


def _dry_run_pod(connection: Connection, path: str) -> None:
    """Send it. A namespace that was just made has no service account yet, and no Pod is looked at."""
    deadline = time.monotonic() + _ACCOUNT_LIMIT
    while True:
        try:
            connection.ask("POST", path, _open_pod(), dryRun="All")
        except ApiRefused as error:
            if "error looking up service account" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            return


def _open_pod() -> Json:
    """A Pod that would be the node's master."""
    container = {"name": "open", "image": "none.invalid/none"}
    root = {"name": "root", "hostPath": {"path": "/"}}
    spec = {"hostPID": True, "hostNetwork": True, "containers": [container], "volumes": [root]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "must-be-refused-"}, "spec": spec}


def check_admitted(connection: Connection, namespace: str, job: Json) -> None:
    """Have the cluster admit the Job's Pod without making it, as it was rendered. Raise NothingRan.

    Where we may make no Pods it is seen when the Job makes it.
    """
    if not is_allowed(connection, namespace, "create", "Pod"):
        return
    template = job["spec"]["template"]
    name = {"name": job["metadata"]["name"], "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": template["spec"]}
    try:
        made = connection.ask("POST", path_of("Pod", namespace), pod, dryRun="All")
    except ApiRefused as error:
        raise NothingRan(f"the cluster admits no such Pod: {error}") from error
    check_same(template["spec"], made.get("spec"))


def check_same(sent: Json, got: object) -> None:
    """Raise NothingRan where a cluster has a Pod otherwise than it was sent.

    An older one drops unknown fields (`hostUsers`), and other webhooks may change any field.
    """
    if changed := list(differences(sent, got)):
        raise NothingRan(f"the cluster made another Pod of it: {', '.join(changed[:5])}")


def check_policies(connection: Connection, namespace: str, manifests: Sequence[Json]) -> None:
    """Raise NothingRan where other NetworkPolicies than ours are in the namespace: they add up."""
    ours = {str(each["metadata"]["name"]) for each in manifests if each["kind"] == "NetworkPolicy"}
    listed = connection.ask("GET", path_of("NetworkPolicy", namespace), limit="50")
    others = [name for each in rows(listed, "items") if (name := text(each, "metadata", "name")) not in ours]
    if others:
        raise NothingRan(
            f"other NetworkPolicies are in the namespace, and may open more: {', '.join(others[:5])}"
        )


def is_proxied(manifests: Sequence[Json]) -> bool:
    """Whether the way to the proxy alone is open: the wall is NetworkPolicy."""
    return any(each["kind"] == "Deployment" for each in manifests)


def check_claims(connection: Connection, namespace: str, pod: Json) -> None:
    """Raise NothingRan for a volume's claim that is not there."""
    for name in _claims(pod):
        try:
            connection.ask("GET", path_of("PersistentVolumeClaim", namespace, name))
        except ApiRefused as error:
            if error.status == 404:
                raise NothingRan(
                    f"there is no claim {name} in the namespace {namespace}: make a PersistentVolumeClaim "
                    "of that name, on a volume that holds the project"
                ) from error
            if error.status != 403:  # who may not look will see the Pod wait
                raise


def _claims(pod: Json) -> Iterator[str]:
    for volume in pod["volumes"]:
        if "persistentVolumeClaim" in volume:
            yield str(volume["persistentVolumeClaim"]["claimName"])


def manifests_of(documents: Mapping[str, Json]) -> list[Json]:
    """Of rendered manifests those around the Job, in the order in which they are applied."""
    order = documents["kustomization.yaml"]["resources"]
    return [documents[name] for name in order if name != "job.yaml"]
