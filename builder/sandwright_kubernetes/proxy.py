"""The proxy of a sandbox in a cluster: squid under `network.allow`, in the sandbox's namespace.

Refusals are enforced twice: squid decides by names and their addresses, and a NetworkPolicy by
addresses alone, so that the proxy reaches nothing inside the cluster but DNS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import ProxyPlace, refused_networks, render_proxy
from sandwright.render.proxyfacts import PORT
from sandwright_kubernetes.naming import labels, selector
from sandwright_kubernetes.network import PROXY, policy_object
from sandwright_kubernetes.pod import closed_container, unprivileged_pod

Json = dict[str, Any]

IMAGE = "sandwright/proxy:latest"
"""Our image with squid; it is put on the nodes like all of ours."""

PROGRAM = "/usr/sbin/squid"

FOLDER = "/etc/sandwright"
"""The directory of the proxy's configuration, and of its error pages."""


def proxy_objects(policy: ResolvedPolicy, name: str) -> list[Json]:
    """The proxy's objects in the order to apply them: configuration, network policy, service, deployment."""
    return [_configuration(policy, name), _network_policy(policy, name), _service(name), _deployment(name)]


def _metadata(name: str) -> Json:
    return {"name": PROXY, "namespace": name, "labels": labels(name, PROXY)}


def _configuration(policy: ResolvedPolicy, name: str) -> Json:
    """Squid's rules. The NetworkPolicy distinguishes clients by their Pods."""
    settings = ProxyPlace(
        log="/dev/stdout",
        cache_log="/dev/stderr",
        errors=FOLDER,
        listen="0.0.0.0",  # noqa: S104 - in a separate Pod
        clients=("0.0.0.0/0", "::/0"),
    )
    files = {each.name.rpartition("/")[2]: each.content.decode() for each in render_proxy(policy, settings)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name), "data": files}


def _network_policy(policy: ResolvedPolicy, name: str) -> Json:
    client = {"podSelector": {"matchLabels": selector(name)}}
    refused = refused_networks(policy.network.allow)
    return policy_object(
        name,
        PROXY,
        ingress=[{"from": [client], "ports": [{"protocol": "TCP", "port": PORT}]}],
        egress=[
            {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
            {"to": [_all_but(4, refused), _all_but(6, refused)], "ports": [{"protocol": "TCP"}]},
        ],
    )


def _all_but(version: int, refused: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> Json:
    some = [str(network) for network in refused if network.version == version]
    return {"ipBlock": {"cidr": "0.0.0.0/0" if version == 4 else "::/0", "except": some}}


def _service(name: str) -> Json:
    port = {"protocol": "TCP", "port": PORT, "targetPort": PORT}
    spec = {"type": "ClusterIP", "selector": selector(name, PROXY), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name), "spec": spec}


def _deployment(name: str) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selector(name, PROXY)},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels(name, PROXY)}, "spec": _proxy_pod()},
        },
    }


def _proxy_pod() -> Json:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostUsers": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": 5,
        "securityContext": unprivileged_pod(),
        "volumes": [{"name": "configuration", "configMap": {"name": PROXY}}],
        "containers": [
            {
                "name": PROXY,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "command": [PROGRAM, "-N", "-n", "sandwright", "-f", f"{FOLDER}/squid.conf"],
                "ports": [{"containerPort": PORT, "protocol": "TCP"}],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
                "resources": {kind: {"cpu": "500m", "memory": "256Mi"} for kind in ("requests", "limits")},
                "securityContext": closed_container(),
                "volumeMounts": [{"name": "configuration", "mountPath": FOLDER, "readOnly": True}],
            }
        ],
    }
