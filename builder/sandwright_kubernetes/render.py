"""Renders the objects with which a cluster runs the sandbox: a Job and its Pod, its network, its filter.

Nothing here starts anything. The namespace holds one sandbox and admits nothing but Pods of the Pod Security
profile `restricted`; the volume with the project is a claim that the cluster's user creates and fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandwright.methods.shared.yamltext import yaml_text
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact, json_artifact
from sandwright.render.shell import plain_script, variables
from sandwright_kubernetes import job
from sandwright_kubernetes.filters import pod_filter
from sandwright_kubernetes.naming import sandbox_name
from sandwright_kubernetes.network import network_policy
from sandwright_kubernetes.pod import Placed, uses_gvisor
from sandwright_kubernetes.proxy import proxy_objects
from sandwright_kubernetes.sync.rules import rules_artifact
from sandwright_kubernetes.volumes import volume_mounts

Json = Mapping[str, Any]

PROFILE = "sandwright-"
"""The prefix of our profiles' names, in the directory where a node keeps them; the first half of the digest
follows. Podman takes the name from an annotation of 63 characters at most, without a directory."""


def render_kubernetes(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The manifests, the filter with a script that puts it on a node, and the Pod for Podman.

    Raise RenderError for a path that no volume can be mounted on, a file name that is not UTF-8, or a filter
    from a file that allows calls that must be denied.
    """
    name, gvisor = sandbox_name(policy), uses_gvisor(policy)
    seccomp = json_artifact("seccomp.json", pod_filter(policy, gvisor=gvisor), "the filter of system calls")
    profile = f"{PROFILE}{seccomp.digest.removeprefix('sha256:')[:32]}.json"
    cluster = Placed("cluster", name, profile, volume_mounts(policy))
    resources = list(_manifests(policy, cluster, gvisor=gvisor))
    return (
        *resources,
        kustomization([each.name for each in resources], "all of it, in order: kubectl apply -k"),
        seccomp,
        rules_artifact(policy),
        *_scripts(policy, name, resources, seccomp, profile),
        _podman(policy, cluster),
    )


def _manifests(policy: ResolvedPolicy, cluster: Placed, *, gvisor: bool) -> Iterator[Artifact]:
    """The objects as they are applied: those that close the network come before the Pod."""
    name = cluster.name
    yield manifest(
        "namespace.yaml", "the sandbox's namespace, which admits restricted Pods only", job.namespace(name)
    )
    yield manifest("quota.yaml", "what the namespace may hold", job.quota(policy, name))
    if gvisor:
        yield manifest("runtimeclass.yaml", "the RuntimeClass of gVisor", job.runtime_class())
    if any(mount.holds == "empty-file" for mount in cluster.mounts):
        yield manifest("configmap.yaml", "a file without content, which hides others", job.empty_file(name))
    yield manifest(
        "networkpolicy.yaml", "what reaches the sandbox, and what it reaches", network_policy(policy, name)
    )
    if policy.network.mode == "proxy":
        for each in proxy_objects(policy, name):
            yield manifest(
                f"proxy-{each['kind'].lower()}.yaml", "the proxy, by which alone it reaches hosts", each
            )
    yield manifest("job.yaml", "runs the image's command in the sandbox", job.job(policy, cluster))


def manifest(name: str, purpose: str, document: Json) -> Artifact:
    """An object of a cluster as an artifact."""
    return Artifact(name, yaml_text(document).encode(), purpose)


def kustomization(resources: list[str], purpose: str) -> Artifact:
    """The list by which `kubectl apply -k` takes manifests in order."""
    document: Json = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "sortOptions": {"order": "fifo"},
        "resources": resources,
    }
    return manifest("kustomization.yaml", purpose, document)


WIDE = ("namespace.yaml", "runtimeclass.yaml")
"""Manifests of objects that belong to the whole cluster, which not everybody may make."""


def _scripts(
    policy: ResolvedPolicy, name: str, resources: list[Artifact], seccomp: Artifact, profile: str
) -> Iterator[Artifact]:
    """The objects that close the sandbox are applied at each start, since they may have been changed."""
    values = variables(
        {
            "name": name,
            "closing": [each.name for each in resources if each.name not in (*WIDE, "job.yaml")],
            "proxied": policy.network.mode == "proxy",
            "profile": profile,
            "seccomp": _sum(seccomp),
        },
        rows={"manifests": [(each.name, _sum(each)) for each in resources]},
    )
    yield values
    for script, purpose in (
        ("install-profile", "puts the filter where a node looks for it"),
        ("launch", "runs a command as a Job, and removes it"),
    ):
        yield plain_script("oci", f"kubernetes/{script}.sh", name=script, values=values, purpose=purpose)


def _sum(artifact: Artifact) -> str:
    return artifact.digest.removeprefix("sha256:")


def _podman(policy: ResolvedPolicy, cluster: Placed) -> Artifact:
    """The Pod on one machine, with the project where it is there."""
    placed = Placed("podman", cluster.name, cluster.profile, cluster.mounts)
    text = yaml_text(job.pod(policy, placed), note=_PODMAN)
    return Artifact("pod.yaml", text.encode(), "the same Pod on one machine, for podman kube play")


_PODMAN = (
    "For `podman kube play`, not for a cluster: the Pod for that is in job.yaml. To start it:",
    "  ./install-profile DIRECTORY",
    "  podman kube play --network none --seccomp-profile-root DIRECTORY pod.yaml",
    "The project is mounted from the host. Podman enforces no time limit and no limit of /tmp.",
)
