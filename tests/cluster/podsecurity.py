"""The Pod Security profile `restricted`, written from the standard: the fields of a Pod that it does not
admit.

https://kubernetes.io/docs/concepts/security/pod-security-standards/, as of Kubernetes 1.35; one line for each
control, `baseline` included. It belongs to the tests, and shares nothing with the renderer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ping_group_range"}
Json = Mapping[str, Any]


def violations(spec: Json) -> list[str]:
    """The controls that a PodSpec breaks, each as the path of the field."""
    containers = [
        (f"{kind}[{index}]", each)
        for kind in ("containers", "initContainers", "ephemeralContainers")
        for index, each in enumerate(spec.get(kind, ()))
    ]
    own = spec.get("securityContext", {})
    found = [*_pod(spec, own)]
    for where, container in containers:
        found += [
            f"{where}.{each}" for each in _container(container, container.get("securityContext", {}), own)
        ]
    return found


def _pod(spec: Json, own: Json) -> Iterator[str]:
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name, False))
    if own.get("windowsOptions", {}).get("hostProcess", False):
        yield "securityContext.windowsOptions.hostProcess"
    if any(each["name"] not in SYSCTLS for each in own.get("sysctls", ())):
        yield "securityContext.sysctls"
    if own.get("runAsUser", 1) == 0:
        yield "securityContext.runAsUser"
    yield from (f"securityContext.{each}" for each in _labels(own))
    for index, volume in enumerate(spec.get("volumes", ())):
        if set(volume) - {"name"} - VOLUMES:
            yield f"volumes[{index}]"


def _container(container: Json, security: Json, pod: Json) -> Iterator[str]:
    yield from (f"securityContext.{each}" for each in _labels(security))
    if security.get("privileged", False):
        yield "securityContext.privileged"
    if security.get("allowPrivilegeEscalation") is not False:
        yield "securityContext.allowPrivilegeEscalation"
    capabilities = security.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield "securityContext.capabilities.drop"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "securityContext.capabilities.add"
    if security.get("procMount", "Default") != "Default":
        yield "securityContext.procMount"
    if security.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "securityContext.runAsNonRoot"
    if security.get("runAsUser", 1) == 0:
        yield "securityContext.runAsUser"
    seccomp = security.get("seccompProfile", pod.get("seccompProfile", {}))
    if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
        yield "securityContext.seccompProfile"
    if any(port.get("hostPort", 0) for port in container.get("ports", ())):
        yield "ports"
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name, {})
        if any(probe.get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
            yield name


def _labels(security: Json) -> Iterator[str]:
    """AppArmor and SELinux."""
    if security.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in (
        "RuntimeDefault",
        "Localhost",
    ):
        yield "appArmorProfile"
    options = security.get("seLinuxOptions", {})
    types = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
    if options.get("type", "") not in types or options.get("user") or options.get("role"):
        yield "seLinuxOptions"
