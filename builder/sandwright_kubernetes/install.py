"""The objects that an administrator installs once for a sandbox: the form `kubernetes-install`. Pure.

A Kustomize base: namespaces with Pod Security, quota and limits, the policies of who makes which Pods, the
filter on each node by a DaemonSet, the RuntimeClass; and beside it the same sandbox for agent-sandbox
(https://agent-sandbox.sigs.k8s.io), whose kinds are there only where that is installed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact, json_artifact, json_text
from sandwright_kubernetes import job
from sandwright_kubernetes.cel import has_project
from sandwright_kubernetes.filters import pod_filter
from sandwright_kubernetes.fleets.objects import fleet_namespace
from sandwright_kubernetes.guard import PROFILES, admission_policies, projects_name
from sandwright_kubernetes.naming import labels, sandbox_name, selector
from sandwright_kubernetes.network import network_policy
from sandwright_kubernetes.pod import DISK, Placed, closed_container, pod_spec, uses_gvisor
from sandwright_kubernetes.proxy import proxy_objects
from sandwright_kubernetes.render import PROFILE, kustomization, manifest
from sandwright_kubernetes.sync.job import CARRIER_MEMORY
from sandwright_kubernetes.volumes import volume_mounts

Json = dict[str, Any]

NODE_PROFILES = "/var/lib/kubelet/seccomp"
"""The directory in which a kubelet looks for filters, unless it has another `--root-dir`."""

IMAGE = "sandwright/debian:latest"
"""The image that copies the filter: any with a shell, `cp` and `mv`."""


def render_install(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The manifests. Raise RenderError like the method's own."""
    name, gvisor = sandbox_name(policy), uses_gvisor(policy)
    content = pod_filter(policy, gvisor=gvisor)
    profile = (
        f"{PROFILE}{json_artifact('seccomp.json', content, '').digest.removeprefix('sha256:')[:32]}.json"
    )
    placed = Placed("cluster", name, profile, volume_mounts(policy))
    found = list(_base_manifests(policy, placed, json_text(content)))
    names = [each.name for each in found]
    return (
        *found,
        kustomization(names, "all of the base, in order: kubectl apply -k"),
        *_agent_sandbox(policy, placed),
    )


def _base_manifests(policy: ResolvedPolicy, placed: Placed, content: str) -> Iterator[Artifact]:
    name = placed.name
    proxied = policy.network.mode == "proxy"
    yield manifest("namespace.yaml", "the namespace of single runs", job.namespace(name))
    fleets = copy.deepcopy(job.namespace(name))
    fleets["metadata"]["name"] = fleet_namespace(name)
    yield manifest("namespace-fleet.yaml", "the namespace of fleets", fleets)
    if uses_gvisor(policy):
        yield manifest("runtimeclass.yaml", "the RuntimeClass of gVisor", job.runtime_class())
    pod = pod_spec(policy, placed)
    yield manifest("quota.yaml", "what the namespace of single runs may hold", job.quota(policy, name))
    for space, suffix in ((name, ""), (fleet_namespace(name), "-fleet")):
        yield manifest(
            f"limitrange{suffix}.yaml",
            "the most that a container may ask for",
            _limit_range(policy, pod, space),
        )
    around = [network_policy(policy, name)]
    if any(mount.holds == "empty-file" for mount in placed.mounts):
        around.append(job.empty_file(name))
    around += proxy_objects(policy, name) if proxied else []
    for each in around:
        file = f"{each['kind'].lower()}-{each['metadata']['name']}.yaml"
        yield manifest(file, "as each run applies it", each)
    proxy = next((each for each in around if each["kind"] == "Deployment"), None)
    proxy_pod = proxy["spec"]["template"]["spec"] if proxy is not None else None
    for each in admission_policies(name, pod, proxy_pod):
        kind = "binding" if each["kind"].endswith("Binding") else "policy"
        part = each["metadata"]["name"].rpartition("-")[2]
        yield manifest(f"admission-{part}-{kind}.yaml", "who may make which Pods", each)
    for each in _profile_objects(name, placed.profile, content):
        yield manifest(f"profile-{each['kind'].lower()}.yaml", "puts the filter on each node", each)
    if has_project(pod):
        yield manifest("projects.yaml", "out of which repository projects may travel", _projects(name))


def _projects(name: str) -> Json:
    """An empty name lets none travel."""
    metadata = {"name": projects_name(name), "namespace": PROFILES, "labels": labels(name, "profile")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"repository": ""}}


def _limit_range(policy: ResolvedPolicy, pod: Json, space: str) -> Json:
    """No container asks for more than the sandbox's, the proxy's, and those that carry a project."""
    name = sandbox_name(policy)
    most = {"ephemeral-storage": DISK["limits"]}
    proxied = policy.network.mode == "proxy"
    if policy.resources.memory is not None:
        others = 256 << 20 if proxied else CARRIER_MEMORY << 20 if has_project(pod) else 0
        most["memory"] = str(max(policy.resources.memory, others))
    if policy.resources.cpus is not None:
        most["cpu"] = f"{max(round(policy.resources.cpus * 1000), 500 if proxied else 0)}m"
    metadata = {"name": "sandbox", "namespace": space, "labels": labels(name)}
    spec = {"limits": [{"type": "Container", "max": most}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}


def _profile_objects(name: str, profile: str, content: str) -> list[Json]:
    """A namespace that admits a path of the node, the filter, and the DaemonSet that copies it.

    The container is root without any capability: it writes where root does, and does nothing else.
    """
    metadata = {"name": name, "namespace": PROFILES, "labels": labels(name, "profile")}
    space = {"pod-security.kubernetes.io/enforce": "privileged"}
    managed = {"app.kubernetes.io/managed-by": "sandwright"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": PROFILES, "labels": {**managed, **space}},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {profile: content}},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": selector(name, "profile")},
                "template": {
                    "metadata": {"labels": labels(name, "profile")},
                    "spec": _profile_pod(name, profile),
                },
            },
        },
    ]


def _profile_pod(name: str, profile: str) -> Json:
    script = f"cp /filter/{profile} /node/.{profile}.part && mv -f /node/.{profile}.part /node/{profile}"
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "profile",
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", f"{script} && exec sleep 2147483647"],
                "resources": {
                    "requests": {"cpu": "5m", "memory": "16Mi"},
                    "limits": {"cpu": "100m", "memory": "32Mi"},
                },
                "securityContext": {"runAsUser": 0, **closed_container()},
                "volumeMounts": [
                    {"name": "filter", "mountPath": "/filter", "readOnly": True},
                    {"name": "node", "mountPath": "/node"},
                ],
            }
        ],
        "volumes": [
            {"name": "filter", "configMap": {"name": name}},
            {"name": "node", "hostPath": {"path": NODE_PROFILES, "type": "DirectoryOrCreate"}},
        ],
    }


def _agent_sandbox(policy: ResolvedPolicy, placed: Placed) -> Iterator[Artifact]:
    """The same Pod as a Sandbox, and as a template of which a SandboxClaim makes one.

    Its controller starts the image's command: a Sandbox is for a program that stays, a Job for one that ends.
    """
    name = placed.name
    pod = pod_spec(policy, placed)
    container = {key: value for key, value in pod["containers"][0].items() if key != "command"}
    template = {
        "metadata": {"labels": labels(name)},
        "spec": {**pod, "containers": [container]},
    }
    network = network_policy(policy, name)["spec"]
    metadata = {"name": name, "namespace": name, "labels": labels(name)}
    yield manifest(
        "sandbox.yaml",
        "the same sandbox for agent-sandbox",
        {
            "apiVersion": "agents.x-k8s.io/v1beta1",
            "kind": "Sandbox",
            "metadata": metadata,
            "spec": {"podTemplate": template},
        },
    )
    yield manifest(
        "sandboxtemplate.yaml",
        "what agent-sandbox makes more of them of",
        {
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxTemplate",
            "metadata": metadata,
            "spec": {
                "podTemplate": template,
                "networkPolicyManagement": "Managed",
                "networkPolicy": {way: network[way] for way in ("ingress", "egress")},
                "envVarsInjectionPolicy": "Disallowed",
                "volumeClaimTemplatesPolicy": "Disallowed",
            },
        },
    )
