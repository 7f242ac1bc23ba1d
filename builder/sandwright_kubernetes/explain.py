"""Reads the manifests of a cluster back: the Job's Pod, its network policy, and the filter for the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sandwright.documents.document import Document
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.yaml import parse_yaml
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls, Enclosure, Passing
from sandwright.evaluate.explain.isolation import ENGINE_DEFAULTS, Isolation
from sandwright.evaluate.explain.shape import Each, OneOf, Shape, check_shape, keys
from sandwright.evaluate.explain.squid import FILE as FILE_OF_PROXY
from sandwright.evaluate.explain.squid import Squid, parse_squid
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, position_in
from sandwright.policy.declaration import Namespace
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered
from sandwright_kubernetes.pod import RUNTIME_CLASS
from sandwright_kubernetes.support import DECLARATION

FILE = "job.yaml"
_POD: FieldPath = ("spec", "template", "spec")

_OFF = OneOf((False,))
_CONTAINER: Shape = {
    **keys("name", "image", "imagePullPolicy", "command", "env", "resources", "workingDir"),
    "securityContext": {
        **keys("readOnlyRootFilesystem", "allowPrivilegeEscalation"),
        "privileged": _OFF,
        "capabilities": keys("drop", "add"),
    },
    "volumeMounts": Each(keys("name", "mountPath", "readOnly", "subPath")),
}
_SPEC: Shape = {
    **keys("restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "enableServiceLinks"),
    **keys("hostNetwork", "hostPID", "hostIPC", "hostUsers", "runtimeClassName", "nodeSelector"),
    **keys("dnsPolicy", "dnsConfig"),
    "automountServiceAccountToken": _OFF,
    "shareProcessNamespace": _OFF,
    "securityContext": {
        **keys("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "seccompProfile"),
        "runAsNonRoot": OneOf((True,)),
    },
    "volumes": Each(keys("name", "emptyDir", "configMap", "persistentVolumeClaim")),
    "containers": Each(_CONTAINER),
}
"""The rendered keys of a PodSpec. Volumes of the node, other containers, hooks and all else are refused."""


class ReadCluster(Enclosure):
    """The container of a Job, in which the project is the only part of the host."""

    def why_stricter(self, policy: ResolvedPolicy, question: Asked) -> str | None:
        """Paths of the host outside the project are not there."""
        project = policy.canonical(policy.facts.project)
        if question.path and not is_inside(question.path, project):
            return DECLARATION.of("filesystem.read").reason
        return super().why_stricter(policy, question)


def read_cluster(rendered: Rendered, _policy: ResolvedPolicy) -> ReadCluster:
    """The container that the Job makes, with the network that the policy leaves its Pod."""
    document = parse_yaml(rendered.artifact(FILE).content, file=FILE)
    rules = parse_yaml(rendered.artifact("networkpolicy.yaml").content, file="networkpolicy.yaml")
    filter_ = calls.of_json(rendered.artifact("seccomp.json").content, "seccomp.json")
    proxy = proxy_of(rendered, "proxy-configmap.yaml")
    return replace(read_pod(document, _POD, way_out(rules, ("spec",)), filter_), proxy=proxy)


def read_pod(
    document: Document, at: FieldPath, network: tuple[ArtifactPosition | None, bool], filter_: Calls
) -> ReadCluster:
    """The container of a PodSpec that stands in a manifest at a path."""
    pod: Any = value_at(document, at)
    check_shape(document, _SPEC, pod, at)
    document.refuse([((*at, "containers", 1), "is a second container")] if len(pod["containers"]) > 1 else [])
    container = pod["containers"][0]
    network_position, proxied = network
    return ReadCluster(
        "image",
        tuple(_mounts(document, at)),
        network=None if pod["hostNetwork"] else network_position,
        environment={
            each["name"]: _position(
                document, at, ("containers", 0, "env", index), f"{each['name']}={each.get('value', '')}"
            )
            for index, each in enumerate(container.get("env", ()))
        },
        passing=Passing(),
        calls=filter_,
        isolated=_isolation(document, at, pod),
        proxied=proxied,
        sockets=False,
    )


def _isolation(document: Document, at: FieldPath, pod: Any) -> Isolation:  # noqa: ANN401 - YAML
    """A Pod has the node's users by default; gVisor's kernel has separate users."""
    rights = pod["containers"][0]["securityContext"]
    here = _position(document, at, ("containers", 0, "securityContext"), "securityContext")
    own_users = pod.get("hostUsers") is False or pod.get("runtimeClassName") == RUNTIME_CLASS
    capabilities = rights.get("capabilities", {})
    held = {each.removeprefix("CAP_"): here for each in capabilities.get("add", ())}
    separate: dict[Namespace, bool] = {
        "pid": not pod.get("hostPID", False),
        "ipc": not pod.get("hostIPC", False),
        "user": own_users,
    }
    return Isolation(
        _position(document, at, (), "spec"),
        {kind for kind, each in separate.items() if each},
        held if capabilities.get("drop") == ["ALL"] else {**held, ENGINE_DEFAULTS: here},
        gains_rights=None if rights.get("allowPrivilegeEscalation") is False else here,
        writable_root=None if rights.get("readOnlyRootFilesystem") is True else here,
    )


def proxy_of(rendered: Rendered, name: str) -> Callable[[], Squid] | None:
    """The proxy whose configuration a ConfigMap holds; None where it is not among the manifests."""
    configuration = next((each for each in rendered.artifacts if each.name == name), None)
    if configuration is None:
        return None
    data: Any = value_at(parse_yaml(configuration.content, file=name), ("data",))
    return lambda: parse_squid(data[FILE_OF_PROXY], FILE_OF_PROXY)


def way_out(rules: Document, at: FieldPath) -> tuple[ArtifactPosition | None, bool]:
    """The rule that closes all ways out, None if one leads anywhere, and whether one leads to the proxy."""
    spec: Any = value_at(rules, at)
    if "Egress" not in spec.get("policyTypes", ["Egress"]) or "egress" not in spec:
        return None, True
    proxied = False
    for rule in spec["egress"]:
        labels = [
            to.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
            for to in rule.get("to", ())
        ]
        if labels != ["proxy"]:
            return None, True
        proxied = True
    return _position(rules, at, ("egress",), "egress"), proxied


def _mounts(document: Document, at: FieldPath) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """The runtime's own mounts, then the volumes, parents first."""
    brought = ArtifactPosition(document.file, "brought by the runtime")
    yield Mount("/dev", "dev", writable=True), brought
    yield Mount("/proc", "proc", writable=True), brought
    yield Mount("/sys", "proc"), brought
    pod: Any = value_at(document, at)
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    for index, each in sorted(enumerate(mounts), key=lambda each: each[1]["mountPath"].count("/")):
        target, writable = each["mountPath"], not each.get("readOnly", False)
        text = f"{each['name']} on {target}, {'rw' if writable else 'ro'}"
        position = _position(document, at, ("containers", 0, "volumeMounts", index), text)
        if "emptyDir" in volumes[each["name"]]:
            yield Mount(target, "tmpfs", writable), position
        elif "configMap" in volumes[each["name"]]:
            yield Mount(target, "mask", entry="file"), position  # a file without content
        else:
            yield Mount(target, "bind", writable, source=target), position


def value_at(document: Document, path: FieldPath) -> Any:  # noqa: ANN401 - YAML
    """The value at a path of a manifest. Raise KeyError."""
    value: Any = document.data
    for step in path:
        value = value[step]
    return value


def _position(document: Document, at: FieldPath, path: FieldPath, text: str) -> ArtifactPosition:
    if at == _POD:
        return position_in(document, path, text, below=at)
    return position_in(document, (*at, *path), text)
