"""The Pod with its containers and security context, for the Job, and for Podman on one machine.

It meets the Pod Security profile `restricted`, and where the two differ is stricter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from sandwright.errors import RenderError
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy, Resources
from sandwright.render.filters import architecture
from sandwright.render.proxy_env import proxy_environment
from sandwright.resources import shipped_images
from sandwright_kubernetes.naming import labels, sandbox_name
from sandwright_kubernetes.network import ADDRESS, resolution
from sandwright_kubernetes.volumes import VolumeMount

Json = dict[str, Any]

UID = 65532
"""The Pod's user: `nonroot` in our images and in the distroless ones. A cluster does not know the user who
starts it, and files belong to the volume's group, which is this one too."""

CLAIM = "project"
"""The PersistentVolumeClaim with the project, in the sandbox's namespace. The program that fills it creates
it."""

EMPTY_FILE = "empty"
"""The ConfigMap that hides a file, and its key: a file without content."""

TMP_LIMIT = "4Gi"
"""The size of the temporary directory. A Pod that exceeds it is evicted before it fills its node's disk."""

DISK = {"requests": "256Mi", "limits": "5Gi"}
"""The Pod's share of the node's disk, for its log and temporary directory."""

GRACE = 5
"""Seconds between SIGTERM and SIGKILL, and by how much a run can be longer than its time."""

RUNTIME_CLASS = "gvisor"


@dataclass(frozen=True)
class Placed:
    """A Pod's parts that depend on where it is started.

    `profile` is the path of its seccomp profile below the place where the node keeps them. In a cluster the
    project is on a volume, and `$(NAME)` in a value is replaced; Podman has the host's own files, and puts
    in nothing.
    """

    where: Literal["cluster", "podman"]
    name: str
    profile: str
    mounts: tuple[VolumeMount, ...]


def pod_metadata(policy: ResolvedPolicy) -> Json:
    """Name, namespace and labels of the Pod, and of the Job that makes it."""
    name = sandbox_name(policy)
    return {"name": name, "namespace": name, "labels": labels(name)}


def uses_gvisor(policy: ResolvedPolicy) -> bool:
    """Whether the policy asks for gVisor: by naming it among its methods, first choice or not."""
    return "gvisor" in policy.methods


def pod_spec(policy: ResolvedPolicy, placed: Placed) -> Json:
    """The `spec` of the Pod."""
    time = policy.resources.time
    return {
        "restartPolicy": "Never",
        **({} if time is None else {"activeDeadlineSeconds": time}),
        "terminationGracePeriodSeconds": GRACE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": policy.network.mode == "proxy",
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": False,
        **_isolation_fields(policy, placed),
        **resolution(policy),
        "securityContext": _security_context(policy, placed),
        "volumes": list(_pod_volumes(placed)),
        "containers": [_sandbox_container(policy, placed)],
    }


def _isolation_fields(policy: ResolvedPolicy, placed: Placed) -> Json:
    """The isolation between container and node beside namespaces, and the nodes that have it.

    gVisor's shim knows no user namespaces of Kubernetes, whose kubelet refuses the two together. Podman would
    take `hostUsers` for `--userns=auto`, which needs ids set aside for it.
    """
    if placed.where == "podman":
        return {}
    nodes = {"kubernetes.io/os": "linux"}
    if policy.process.seccomp not in SECCOMP_PROFILES:
        nodes["kubernetes.io/arch"] = architecture(policy)
    kernel = {"runtimeClassName": RUNTIME_CLASS} if uses_gvisor(policy) else {"hostUsers": False}
    return {**kernel, "nodeSelector": nodes}


def closed_container() -> Json:
    """The security context of a container without privileges, and with a read-only root."""
    return {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def unprivileged_pod() -> Json:
    """The security context of a Pod that is no sandbox: a plain user, and the runtime's own filter."""
    return {
        "runAsNonRoot": True,
        "runAsUser": UID,
        "runAsGroup": UID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _security_context(policy: ResolvedPolicy, placed: Placed) -> Json:
    run_as = {} if policy.mapping == "off" else {"runAsUser": UID, "runAsGroup": UID}
    group = {"fsGroup": UID, "fsGroupChangePolicy": "OnRootMismatch"} if placed.where == "cluster" else {}
    return {
        "runAsNonRoot": True,
        **run_as,
        **group,
        "seccompProfile": {"type": "Localhost", "localhostProfile": placed.profile},
    }


def _sandbox_container(policy: ResolvedPolicy, placed: Placed) -> Json:
    container: Json = {
        "name": "sandbox",
        "image": f"sandwright/{policy.image}:latest" if _is_shipped_image(policy.image) else policy.image,
        "imagePullPolicy": _pull_policy(policy.image, placed),
        "command": [],
        "env": [
            {"name": name, "value": value} for name, value in sorted(_pod_environment(policy, placed).items())
        ],
        "resources": _resource_requirements(policy.resources, placed),
        "securityContext": closed_container(),
        "volumeMounts": [_volume_mount_json(name, mount, placed) for name, mount in _named_mounts(placed)],
    }
    cwd = policy.canonical(policy.facts.variables["CWD"])
    if any(mount.holds == "project" and is_inside(cwd, mount.path) for mount in placed.mounts):
        container["workingDir"] = cwd
    return container


def _is_shipped_image(image: str) -> bool:
    """Whether it is the name of an image of this project's, which every registry has another of."""
    return image in shipped_images()


def _pull_policy(image: str, placed: Placed) -> str:
    """Ours are put on the nodes, and never looked for elsewhere. A digest is one image, a tag may move."""
    if _is_shipped_image(image):
        return "Never"
    return "IfNotPresent" if "@sha256:" in image or placed.where == "podman" else "Always"


def _pod_environment(policy: ResolvedPolicy, placed: Placed) -> dict[str, str]:
    """The variables that are set, and those of the proxy, whose address is left to the kubelet.

    Kubernetes puts in the value of NAME for `$(NAME)`, and a dollar sign for two; every other one stays.
    """
    policy_set = policy.environment.set
    for name, value in policy_set.items():
        if "\0" in value:
            raise RenderError(f"environment.set: {name} holds a NUL byte, which no variable can")
    if placed.where == "podman":
        return dict(policy_set)
    escaped = {name: value.replace("$", "$$") for name, value in policy_set.items()}
    proxied = policy.network.mode == "proxy"
    return {**escaped, **(proxy_environment(escaped, host=ADDRESS) if proxied else {})}


def _resource_requirements(limits: Resources, placed: Placed) -> Json:
    """Requests equal limits, so the Pod does not depend on resources that others may use up."""
    granted: Json = {}
    if limits.memory is not None:
        granted["memory"] = _quantity(limits.memory)
    if limits.cpus is not None:
        granted["cpu"] = f"{round(limits.cpus * 1000)}m"
    if placed.where == "podman":
        return {"limits": granted} if granted else {}
    return {kind: {**granted, "ephemeral-storage": DISK[kind]} for kind in DISK}


def _quantity(amount: int) -> str:
    """A quantity of Kubernetes, with the largest unit in which it is whole."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        size = 1 << 10 * ("Ki", "Mi", "Gi", "Ti").index(unit) + 10
        if amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def _named_mounts(placed: Placed) -> Iterator[tuple[str, VolumeMount]]:
    """Each mount with the name of its volume. Podman's emptyDir is a volume that all Pods see by its name."""
    for index, mount in enumerate(placed.mounts):
        if placed.where == "cluster":
            yield mount.holds, mount
        elif mount.holds in ("project", "empty-file"):
            yield f"host-{index}", mount
        else:
            yield f"{placed.name}-{mount.holds}", mount


def _pod_volumes(placed: Placed) -> Iterator[Json]:
    """The volumes of the mounts, each once."""
    seen: set[str] = set()
    for name, mount in _named_mounts(placed):
        if name not in seen:
            seen.add(name)
            yield {"name": name, **_source(mount, placed)}


def _source(mount: VolumeMount, placed: Placed) -> Json:
    if placed.where == "podman" and mount.holds in ("project", "empty-file"):
        return {"hostPath": {"path": mount.path if mount.holds == "project" else "/dev/null"}}
    match mount.holds:
        case "project":
            claim: Json = {"claimName": CLAIM}
            writes = any(each.holds == "project" and each.writable for each in placed.mounts)
            return {"persistentVolumeClaim": claim if writes else {**claim, "readOnly": True}}
        case "empty-file":
            return {"configMap": {"name": EMPTY_FILE}}
        case "tmp":
            return {"emptyDir": {"sizeLimit": TMP_LIMIT}}
        case "nothing":
            return {"emptyDir": {}}
        case _:
            assert_never(mount.holds)


def _volume_mount_json(name: str, mount: VolumeMount, placed: Placed) -> Json:
    made: Json = {"name": name, "mountPath": mount.path, "readOnly": not mount.writable}
    if placed.where == "cluster" and mount.holds == "empty-file":
        made["subPath"] = EMPTY_FILE
    elif placed.where == "cluster" and mount.sub:
        made["subPath"] = mount.sub
    return made
