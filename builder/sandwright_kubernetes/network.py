"""Connections of a Pod: NetworkPolicies, and its way to the proxy.

NetworkPolicies are enforced by the cluster's network plugin, where it has that, and never for the Pod's own
node. They add up: another one in the namespace that selects these Pods may open more, so the namespace holds
one sandbox. None can name a host, which is why names are the proxy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxyfacts import PORT
from sandwright_kubernetes.naming import labels, selector

Json = dict[str, Any]

PROXY = "proxy"
"""The proxy's Service, and the component by which its Pods are selected."""

ADDRESS = "$(PROXY_SERVICE_HOST)"
"""The address of the proxy's Service, put in by the kubelet: a variable for each Service that is there when
the Pod starts. It is how a Pod without DNS finds the proxy; without the Service, the text stays and leads
nowhere."""


def network_policy(policy: ResolvedPolicy, name: str) -> Json:
    """The connections to the sandbox (none), and those from it."""
    return policy_object(name, "sandbox", ingress=[], egress=list(_egress(policy, name)))


def _egress(policy: ResolvedPolicy, name: str) -> Iterator[Json]:
    match policy.network.mode:
        case "none":
            return
        case "proxy":
            target = {"podSelector": {"matchLabels": selector(name, PROXY)}}
            yield {"to": [target], "ports": [{"protocol": "TCP", "port": PORT}]}
        case "host":
            yield {}
        case _:
            assert_never(policy.network.mode)


def policy_object(name: str, component: str, *, ingress: list[Json], egress: list[Json]) -> Json:
    """A NetworkPolicy for the Pods of a component; without rules nothing goes in or out."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": component, "namespace": name, "labels": labels(name, component)},
        "spec": {
            "podSelector": {"matchLabels": selector(name, component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def resolution(policy: ResolvedPolicy) -> Json:
    """The Pod's resolution of names: with a closed network there is none, and no wait for it."""
    if policy.network.mode == "host":
        return {"dnsPolicy": "ClusterFirst"}
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
