"""gVisor's runsc on an unpacked image, on the host or in an outer container."""

from __future__ import annotations

from sandwright.methods.contract import Method, MethodVariant, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        exec_unsupported="runsc hands no socket on, by which the first process could be asked",
        root="image",
        needs_image=True,
        own_kernel=True,
        outer_container=True,
        unpacked_image=True,
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 4},
        isolation_layers=(
            "the image's root, with what the policy lists",
            "a separate kernel, in a process",
            "the seccomp filter in that kernel",
            "around that process: namespaces, an empty root, and runsc's own filter of the host's calls",
        ),
        kernel_exploit_impact=(
            "of runsc's kernel: the privileges of its process, which namespaces and a filter confine; of the "
            "host's kernel: all files of the machine, but only through the few calls that runsc makes"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.gvisor.support:DECLARATION",
        render="sandwright.methods.gvisor.render:render_gvisor",
        read_back="sandwright.methods.gvisor.explain:read_gvisor",
        read_others="sandwright.methods.gvisor.explain:read_outer",
        backend="sandwright.methods.gvisor.backend:Gvisor",
        expected="sandwright.methods.gvisor.expected:EXPECTED",
    ),
    variants={
        "gvisor-docker": MethodVariant(
            Parts(backend="sandwright.methods.gvisor.outer.backend:DockerGvisor"), engine="docker"
        ),
        "gvisor-podman": MethodVariant(
            Parts(backend="sandwright.methods.gvisor.outer.backend:PodmanGvisor"), engine="podman"
        ),
    },
)
