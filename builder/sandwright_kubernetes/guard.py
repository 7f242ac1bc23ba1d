"""Admission rules beside a sandbox's namespace, which an operator installs: for Pods, and their users. Pure.

Pod Security, quota and NetworkPolicy hold for every Pod; a ValidatingAdmissionPolicy allows no
other Pod than the rendered one, for every user with rights in the namespace.
"""

from __future__ import annotations

import json
from typing import Any

from sandwright_kubernetes.cel import (
    FieldRule,
    container_rules,
    has_project,
    identity_rules,
    pod_rules,
    spec_rules,
)
from sandwright_kubernetes.fleets.objects import fleet_namespace
from sandwright_kubernetes.naming import labels, selector
from sandwright_kubernetes.network import PROXY
from sandwright_kubernetes.sync.job import RETURN, diff_command
from sandwright_kubernetes.sync.returned import MOST

Json = dict[str, Any]

_POLICY = "ValidatingAdmissionPolicy"
_VERSION = "admissionregistration.k8s.io/v1"


PROFILES = "sandwright-profiles"
"""The namespace of the filter installer for nodes, and of objects that only operators may change."""


def projects_name(name: str) -> str:
    """The ConfigMap with the repository of a sandbox's projects."""
    return f"{name}-projects"


def admission_policies(name: str, pod: Json, proxy: Json | None) -> list[Json]:
    """The policies of a sandbox's namespaces, each with its binding. `proxy` is the proxy's PodSpec."""
    pods = _policy(name, "pods", pod_rules(pod, selector(name)), _PODS, _not_proxy() if proxy else [])
    entered = [_ONLY_READER if has_project(pod) else _NO_EXEC]
    found = [*pods, *_policy(name, "exec", entered, _EXEC, [])]
    if has_project(pod):
        policy, binding = (each["spec"] for each in pods)
        policy["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
        where = {"name": projects_name(name), "namespace": PROFILES}
        binding["paramRef"] = {**where, "parameterNotFoundAction": "Deny"}
    if proxy is not None:
        found += _policy(name, "proxy", _proxy_rules(name, proxy), _PODS, _only_proxy())
    return found


_PODS = {"operations": ["CREATE", "UPDATE"], "resources": ["pods", "pods/ephemeralcontainers", "pods/resize"]}
_EXEC = {"operations": ["CONNECT"], "resources": ["pods/exec", "pods/portforward", "pods/proxy"]}
_NO_EXEC = FieldRule("pods/exec", "false", "nobody enters a sandbox, or its network, from outside")
_ONLY_READER = FieldRule(
    "pods/exec",
    f"request.subResource == 'exec' && has(object.container) && object.container == '{RETURN}' && "
    f"has(object.command) && object.command == {json.dumps(diff_command(MOST))}",
    f"nobody enters a sandbox, or its network, from outside, but to ask {RETURN} what was changed",
)
_COMPONENT = "object.metadata.?labels[?'app.kubernetes.io/component'].orValue('')"


def _not_proxy() -> list[Json]:
    return [{"name": "not-the-proxy", "expression": f"{_COMPONENT} != 'proxy'"}]


def _only_proxy() -> list[Json]:
    return [{"name": "the-proxy", "expression": f"{_COMPONENT} == 'proxy'"}]


def _proxy_rules(name: str, pod: Json) -> list[FieldRule]:
    """The proxy's Pod is as it was rendered, in each field, and is made by its Deployment's controller."""
    container = pod["containers"][0]
    field, at = "spec.containers[0]", "object.spec.containers[0]"
    makers = ("system:serviceaccount:kube-system:replicaset-controller", "system:kube-controller-manager")
    probe = f"{at}.readinessProbe"
    served = [
        FieldRule(
            f"{field}.ports",
            f"!has({at}.ports) || {at}.ports.all(each, !has(each.hostPort))",
            "must not be ports of the node",
        ),
        FieldRule(
            f"{field}.readinessProbe",
            f"!has({probe}) || has({probe}.tcpSocket) && !has({probe}.tcpSocket.host)",
            "must be a connection to the proxy itself",
        ),
    ]
    served_fields = {each.field for each in served}
    words = json.dumps(container["command"])
    return [
        *identity_rules(selector(name, PROXY), makers, "the controller of Deployments", dry=False),
        *spec_rules({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", **pod}),
        FieldRule("spec.initContainers", "!has(object.spec.initContainers)", "must be absent"),
        FieldRule("spec.containers", "size(object.spec.containers) == 1", "must be one container"),
        *(each for each in container_rules(container, field, at) if each.field not in served_fields),
        *served,
        FieldRule(
            f"{field}.command",
            f"has({at}.command) && {at}.command == {words} && !has({at}.args)",
            "must be squid, as it was rendered",
        ),
    ]


def _policy(name: str, part: str, rules: list[FieldRule], what: Json, conditions: list[Json]) -> list[Json]:
    """A policy, and the binding that makes it hold in the sandbox's namespaces: for runs, and for fleets."""
    metadata = {"name": f"{name}-{part}", "labels": labels(name)}
    spaces = [name, fleet_namespace(name)]
    within = {
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": spaces},
            ]
        }
    }
    policy: Json = {
        "apiVersion": _VERSION,
        "kind": _POLICY,
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "scope": "Namespaced", **what}]
            },
            **({"matchConditions": conditions} if conditions else {}),
            "validations": [each.validation() for each in rules],
        },
    }
    binding = {
        "apiVersion": _VERSION,
        "kind": f"{_POLICY}Binding",
        "metadata": metadata,
        "spec": {
            "policyName": metadata["name"],
            "validationActions": ["Deny"],
            "matchResources": within,
        },
    }
    return [policy, binding]
