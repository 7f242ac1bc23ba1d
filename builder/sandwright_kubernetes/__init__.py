"""A Job in a cluster."""

from __future__ import annotations

from sandwright.methods.contract import Method, MethodVariant, Parts
from sandwright.methods.properties import Properties
from sandwright_kubernetes.sync import REGISTRY

METHOD = Method(
    properties=Properties(
        root="image",
        needs_image=True,
        proxy="launcher",
        isolation_layers=(
            "an image's root, with the project's volume",
            "no capabilities and no new privileges (Pod Security `restricted`)",
            "the node's namespaces",
            "the seccomp filter",
        ),
        kernel_exploit_impact=(
            "all files of the node and of its Pods; with gVisor's RuntimeClass, as under `gvisor`. Your own "
            "machine is not affected"
        ),
        remote=True,
        copies_project=REGISTRY,
        verifiable=True,
    ),
    parts=Parts(
        declaration="sandwright_kubernetes.support:DECLARATION",
        render="sandwright_kubernetes.render:render_kubernetes",
        read_back="sandwright_kubernetes.explain:read_cluster",
        backend="sandwright_kubernetes.backend:Kubernetes",
        expected="sandwright_kubernetes.expected:EXPECTED",
    ),
    variants={
        # What an administrator of a cluster installs for the sandbox.
        "kubernetes-install": MethodVariant(
            Parts(
                render="sandwright_kubernetes.install:render_install",
                read_back="sandwright_kubernetes.install_explain:read_sandbox",
                read_others="sandwright_kubernetes.install_explain:read_template",
            )
        ),
    },
)
