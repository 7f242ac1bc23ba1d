"""A ValidatingAdmissionPolicy that admits only a Pod as it was rendered, field by field, in CEL. Pure.

Each rule checks one field and names it in a refusal. A field that the Pod does not have must be absent, or
have the default value. Fields that a run chooses are left open: its command, its labels beside those that
select it.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright_kubernetes.pod import TMP_LIMIT
from sandwright_kubernetes.sync.job import FILL, RETURN, sync_containers

Json = dict[str, Any]

MAKERS = (
    "system:serviceaccount:kube-system:job-controller",
    "system:kube-controller-manager",
    "system:serviceaccount:agent-sandbox-system:agent-sandbox-controller",
)
"""The users that create a sandbox's Pods: the controller of Jobs, under its own or its process' name, and
agent-sandbox's. Another user's Pod could have a Job's labels and be counted as its run."""

INDEX = "JOB_COMPLETION_INDEX"
"""The variable that the controller of Indexed Jobs adds."""

ROWS = ("rows", "/.sandwright-row", "fleet-")
"""A fleet's volume of rows: its name, its mount point, and the prefix of its ConfigMap's name."""

TRAVELS = "has(object.spec.initContainers)"
"""Whether a Pod's project travels."""

REPOSITORY = "params.data.repository"
"""Out of which repository; empty where none may."""

_CHOOSING = (
    *("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io"),
    *("multus-cni.io/", "cri-o", "gvisor.dev/", "dev.gvisor.", "katacontainers", "cdi.k8s.io/", "nri.io"),
)
_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotations by which a Pod chooses profiles, devices, another runtime's flags, or networks beside the one
that NetworkPolicy closes (Multus, whose plugin itself writes `network-status`)."""

_TOLERATED = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
)
"""Taints that the API server lets each Pod tolerate for a while."""

_POD_ABSENT = (
    *("ephemeralContainers", "affinity", "topologySpreadConstraints", "hostAliases"),
    *("resourceClaims", "resources", "hostnameOverride", "setHostnameAsFQDN", "overhead", "imagePullSecrets"),
)
_POD_SECURITY_ABSENT = (
    "supplementalGroups",
    "sysctls",
    "seLinuxOptions",
    "windowsOptions",
    "appArmorProfile",
)
_CONTAINER_ABSENT = (
    *("ports", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "volumeDevices"),
    *("restartPolicy", "restartPolicyRules", "resizePolicy"),
)
_SECURITY_ABSENT = (
    *("runAsUser", "runAsGroup", "seccompProfile", "seLinuxOptions", "windowsOptions", "appArmorProfile"),
)


@dataclass(frozen=True)
class FieldRule:
    """One field, and the CEL expression that is true where it is as it must be."""

    field: str
    expression: str
    must: str

    def validation(self) -> Json:
        """As the policy has it."""
        message = f"{self.field}: {self.must}"
        return {"expression": self.expression, "message": message, "reason": "Forbidden"}


def pod_rules(pod: Mapping[str, Any], labels: Mapping[str, str]) -> list[FieldRule]:
    """The rules for a rendered PodSpec, and the labels by which NetworkPolicies select it."""
    return [
        *identity_rules(labels, MAKERS, "the controller of Jobs: create a Job instead", dry=True),
        *spec_rules(pod),
        *_containers(pod),
    ]


def spec_rules(pod: Mapping[str, Any]) -> Iterator[FieldRule]:
    """The rules for all of a PodSpec but its containers."""
    yield from _node_rules(pod)
    yield from _switches(pod)
    yield from _resolution(pod)
    yield from (_absence_rule("spec", "object.spec", name) for name in _POD_ABSENT)
    yield from _pod_security_rules(pod["securityContext"])
    yield from _volume_rules(pod["volumes"])


def _containers(pod: Mapping[str, Any]) -> Iterator[FieldRule]:
    """One, or where the project travels those that carry it besides, as closed as that one."""
    at = "object.spec.containers"
    yield from container_rules(pod["containers"][0], "spec.containers[0]", f"{at}[0]")
    if not has_project(pod):
        yield FieldRule("spec.containers", f"size({at}) == 1", "must be one container")
        yield _absence_rule("spec", "object.spec", "initContainers")
        return
    most = f"size({at}) == 1 || {TRAVELS} && size({at}) == 2"
    yield FieldRule("spec.containers", most, f"must be one container, and {RETURN} if the project is copied")
    first = "object.spec.initContainers"
    yield FieldRule("spec.initContainers", f"!{TRAVELS} || size({first}) == 1", f"must be {FILL} or absent")
    fill, back = sync_containers()
    yield from _carrier(fill, "spec.initContainers[0]", f"{first}[0]", TRAVELS)
    yield from _carrier(back, "spec.containers[1]", f"{at}[1]", f"size({at}) > 1")


def has_project(pod: Mapping[str, Any]) -> bool:
    """Whether a rendered Pod has a project, which may travel in place of its claim."""
    return any("persistentVolumeClaim" in each for each in pod["volumes"])


def _carrier(container: Json, field: str, at: str, there: str) -> Iterator[FieldRule]:
    """The rules for a container of ours, for where it is there. Its image is in the operator's repository."""
    rules = [
        *container_rules(container, field, at),
        _equal(f"{field}.command", at, "command", container["command"]),
        _absence_rule(field, at, "args"),
    ]
    for each in rules:
        if each.field != f"{field}.image":
            yield FieldRule(each.field, f"!({there}) || ({each.expression})", each.must)
    named = f"{at}.image.startsWith({REPOSITORY} + '@sha256:')"
    yield FieldRule(
        f"{field}.image",
        f"!({there}) || {REPOSITORY} != '' && {named}",
        "must come from the repository that the ConfigMap of projects names",
    )


def identity_rules(
    labels: Mapping[str, str], makers: Sequence[str], named: str, *, dry: bool
) -> Iterator[FieldRule]:
    """Labels, annotations, and the creator of such a Pod; any creator for a dry run that `dry` allows."""
    for name, value in labels.items():
        at = f"object.metadata.?labels[?{_cel_literal(name)}]"
        yield FieldRule(
            f"metadata.labels[{name}]", f"{at}.orValue('') == {_cel_literal(value)}", f"must be {value}"
        )
    keys = "has(object.metadata.annotations) ? object.metadata.annotations : {}"
    yield FieldRule(
        "metadata.annotations",
        f"({keys}).all(key, key != {_cel_literal(_NETWORKS)} && "
        f"!{_cel_literal(list(_CHOOSING))}.exists(part, key.contains(part)))",
        "must not choose profiles, devices, runtimes or networks",
    )
    made = " || ".join(f"request.userInfo.username == {_cel_literal(name)}" for name in makers)
    tried = "request.dryRun == true || " if dry else ""
    yield FieldRule(
        "request.userInfo.username", f"request.operation != 'CREATE' || {tried}{made}", f"must be {named}"
    )


def _node_rules(pod: Mapping[str, Any]) -> Iterator[FieldRule]:
    yield FieldRule(
        "spec.nodeName", "request.operation != 'CREATE' || !has(object.spec.nodeName)", "must be absent"
    )
    yield _equal("spec.nodeSelector", "object.spec", "nodeSelector", pod.get("nodeSelector"))
    yield FieldRule(
        "spec.tolerations",
        "!has(object.spec.tolerations) || object.spec.tolerations.all(each, "
        f"has(each.key) && each.key in {_cel_literal(list(_TOLERATED))})",
        "must tolerate only what every Pod tolerates",
    )
    yield _default("spec", "object.spec", "schedulerName", "default-scheduler")
    yield FieldRule(
        "spec.priorityClassName",
        "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')",
        "must not be a class of the system",
    )
    yield _equal("spec.runtimeClassName", "object.spec", "runtimeClassName", pod.get("runtimeClassName"))


def _switches(pod: Mapping[str, Any]) -> Iterator[FieldRule]:
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        yield _default("spec", "object.spec", name, False)
    yield _equal("spec.hostUsers", "object.spec", "hostUsers", pod.get("hostUsers"))
    yield _equal("spec.automountServiceAccountToken", "object.spec", "automountServiceAccountToken", False)
    for name in ("serviceAccountName", "serviceAccount"):
        yield _default("spec", "object.spec", name, "default")
    yield _equal("spec.restartPolicy", "object.spec", "restartPolicy", pod["restartPolicy"])
    yield _equal("spec.enableServiceLinks", "object.spec", "enableServiceLinks", pod["enableServiceLinks"])
    for name in ("activeDeadlineSeconds", "terminationGracePeriodSeconds"):
        if name in pod:
            at = f"object.spec.{name}"
            yield FieldRule(
                f"spec.{name}", f"has({at}) && {at} <= {pod[name]}", f"must be at most {pod[name]}"
            )


def _resolution(pod: Mapping[str, Any]) -> Iterator[FieldRule]:
    yield _equal("spec.dnsPolicy", "object.spec", "dnsPolicy", pod["dnsPolicy"])
    yield _equal("spec.dnsConfig", "object.spec", "dnsConfig", pod.get("dnsConfig"))


def _pod_security_rules(security: Mapping[str, Any]) -> Iterator[FieldRule]:
    at = "object.spec.securityContext"
    yield FieldRule("spec.securityContext", f"has({at})", "must be present")
    for name in ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup"):
        yield _equal(f"spec.securityContext.{name}", at, name, security.get(name))
    yield from _seccomp_rules("spec.securityContext.seccompProfile", at, security["seccompProfile"])
    for name in _POD_SECURITY_ABSENT:
        yield _absence_rule("spec.securityContext", at, name)


def _seccomp_rules(field: str, at: str, profile: Mapping[str, str]) -> Iterator[FieldRule]:
    for name in profile:
        has_profile = f"has({at}.seccompProfile) && has({at}.seccompProfile.{name})"
        yield FieldRule(
            f"{field}.{name}",
            f"{has_profile} && {at}.seccompProfile.{name} == {_cel_literal(profile[name])}",
            f"must be {profile[name]}",
        )


def _volume_rules(volumes: Sequence[Json]) -> Iterator[FieldRule]:
    """Each volume must be one of those that were rendered, whole; or a fleet's rows."""
    rendered = [_volume(each) for each in volumes]
    name, _, begins = ROWS
    rendered.append(
        f"(each.name == {_cel_literal(name)} && has(each.configMap) && has(each.configMap.name) && "
        f"each.configMap.name.startsWith({_cel_literal(begins)}))"
    )
    for each in volumes:
        if "persistentVolumeClaim" in each:
            travelling = _volume({"name": each["name"], "emptyDir": {"sizeLimit": TMP_LIMIT}})
            rendered.append(f"({TRAVELS} && {travelling})")
    yield FieldRule(
        "spec.volumes",
        f"!has(object.spec.volumes) || object.spec.volumes.all(each, {' || '.join(rendered)})",
        "must be those that were rendered",
    )


def _volume(volume: Json) -> str:
    (kind,) = set(volume) - {"name"}
    parts = [f"each.name == {_cel_literal(volume['name'])}", f"has(each.{kind})"]
    for field, value in volume[kind].items():
        at = f"each.{kind}.{field}"
        if field == "sizeLimit":
            parts.append(f"has({at}) && quantity({at}).compareTo(quantity({_cel_literal(value)})) <= 0")
        else:
            parts.append(f"has({at}) && {at} == {_cel_literal(value)}")
    if kind == "emptyDir":
        parts.append("(!has(each.emptyDir.medium) || each.emptyDir.medium == '')")
    return f"({' && '.join(parts)})"


def container_rules(container: Json, field: str, at: str) -> Iterator[FieldRule]:
    """The rules for a container, but for its command."""
    for name in ("name", "image", "imagePullPolicy"):
        yield _equal(f"{field}.{name}", at, name, container[name])
    yield _equal(f"{field}.workingDir", at, "workingDir", container.get("workingDir"))
    for name in _CONTAINER_ABSENT:
        yield _absence_rule(field, at, name)
    yield _default(field, at, "terminationMessagePath", "/dev/termination-log")
    yield from _container_security(
        f"{field}.securityContext", f"{at}.securityContext", container["securityContext"]
    )
    yield _environment_rule(f"{field}.env", at, container.get("env", []))
    yield _mount_rule(f"{field}.volumeMounts", at, container["volumeMounts"])
    yield from _limit_rules(f"{field}.resources", f"{at}.resources", container["resources"])


def _container_security(field: str, at: str, security: Json) -> Iterator[FieldRule]:
    yield FieldRule(field, f"has({at})", "must be present")
    yield _default(field, at, "privileged", False)
    yield _equal(f"{field}.allowPrivilegeEscalation", at, "allowPrivilegeEscalation", False)
    yield _equal(f"{field}.readOnlyRootFilesystem", at, "readOnlyRootFilesystem", True)
    yield _default(field, at, "runAsNonRoot", True)
    yield _default(field, at, "procMount", "Default")
    drop = f"has({at}.capabilities) && has({at}.capabilities.drop)"
    yield FieldRule(
        f"{field}.capabilities.drop", f"{drop} && {at}.capabilities.drop == ['ALL']", "must be [ALL]"
    )
    yield FieldRule(
        f"{field}.capabilities.add",
        f"!has({at}.capabilities) || !has({at}.capabilities.add) || size({at}.capabilities.add) == 0",
        "must be absent",
    )
    for name in _SECURITY_ABSENT:
        yield _equal(f"{field}.{name}", at, name, security.get(name))


def _environment_rule(field: str, at: str, env: Sequence[Json]) -> FieldRule:
    """Each variable must be one that was rendered, with its value; or a run's index."""
    rendered = [
        f"(each.name == {_cel_literal(each['name'])} && !has(each.valueFrom) && "
        f"(has(each.value) ? each.value : '') == {_cel_literal(each.get('value', ''))})"
        for each in env
        if each["name"] != INDEX
    ]
    rendered.append(
        f"(each.name == {_cel_literal(INDEX)} && has(each.valueFrom) && has(each.valueFrom.fieldRef))"
    )
    return FieldRule(
        field,
        f"!has({at}.env) || {at}.env.all(each, {' || '.join(rendered)})",
        "must be the variables that were rendered",
    )


def _mount_rule(field: str, at: str, mounts: Sequence[Json]) -> FieldRule:
    """All that were rendered, each once (a path is mounted to once): a row takes the place of none."""
    name, path, _ = ROWS
    rows: Json = {"name": name, "mountPath": path, "readOnly": True, "subPathExpr": f"$({INDEX})"}
    rendered = [_mount_expression(each) for each in (*mounts, rows)]
    without_rows = f"{at}.volumeMounts.filter(each, each.name != {_cel_literal(name)})"
    there = f"has({at}.volumeMounts) && size({without_rows}) >= {len(mounts)}"
    return FieldRule(
        field,
        f"{there} && {at}.volumeMounts.all(each, (!has(each.mountPropagation) || "
        f"each.mountPropagation == 'None') && ({' || '.join(rendered)}))",
        "must be those that were rendered",
    )


def _mount_expression(mount: Json) -> str:
    parts = [f"each.{name} == {_cel_literal(mount[name])}" for name in ("name", "mountPath")]
    parts.append(f"(has(each.readOnly) && each.readOnly) == {_cel_literal(mount.get('readOnly', False))}")
    for name in ("subPath", "subPathExpr"):
        parts.append(f"(has(each.{name}) ? each.{name} : '') == {_cel_literal(mount.get(name, ''))}")
    return f"({' && '.join(parts)})"


def _limit_rules(field: str, at: str, resources: Json) -> Iterator[FieldRule]:
    yield _absence_rule(field, at, "claims")
    for name, most in resources["limits"].items():
        key = _cel_literal(name)
        yield FieldRule(
            f"{field}.limits.{name}",
            f"has({at}.limits) && {key} in {at}.limits && "
            f"quantity(string({at}.limits[{key}])).compareTo(quantity({_cel_literal(most)})) <= 0",
            f"must be at most {most}",
        )
    names = _cel_literal(sorted({*resources["limits"], "cpu", "memory", "ephemeral-storage"}))
    for kind in ("limits", "requests"):
        yield FieldRule(
            f"{field}.{kind}",
            f"!has({at}.{kind}) || {at}.{kind}.all(key, key in {names})",
            "must not request devices",
        )


def _equal(field: str, at: str, name: str, value: object) -> FieldRule:
    """It must be there with this value; absent where that is None."""
    if value is None:
        return FieldRule(field, f"!has({at}.{name})", "must be absent")
    expected = value if isinstance(value, str) else json.dumps(value)
    return FieldRule(field, f"has({at}.{name}) && {_equality(f'{at}.{name}', value)}", f"must be {expected}")


def _equality(at: str, value: object) -> str:
    """Objects have no more fields than these."""
    if not isinstance(value, dict):
        return f"{at} == {_cel_literal(value)}"
    if all(isinstance(each, str) for each in value.values()):
        return f"{at} == {_cel_literal(value)}"
    parts = [f"has({at}.{name}) && {_equality(f'{at}.{name}', each)}" for name, each in value.items()]
    others = ("nameservers", "searches", "options")
    parts += [f"!has({at}.{name})" for name in others if name not in value]
    return f"({' && '.join(parts)})"


def _default(field: str, at: str, name: str, value: object) -> FieldRule:
    """It may be absent."""
    expected = value if isinstance(value, str) else json.dumps(value)
    return FieldRule(
        f"{field}.{name}",
        f"!has({at}.{name}) || {at}.{name} == {_cel_literal(value)}",
        f"must be {expected} or absent",
    )


def _absence_rule(field: str, at: str, name: str) -> FieldRule:
    return FieldRule(f"{field}.{name}", f"!has({at}.{name})", "must be absent")


def _cel_literal(value: object) -> str:
    """A value in CEL, which writes texts, lists and maps as JSON does, but for pairs of surrogates."""
    return json.dumps(value, ensure_ascii=False)
