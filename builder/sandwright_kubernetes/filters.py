"""The seccomp profile of a Pod, and without a network one that makes no IP sockets.

A NetworkPolicy closes nothing by itself: it needs a network plugin that enforces it, and it always leaves the
way to the Pod's own node open. A filter is enforced by the kernel of the node, or the Pod doesn't start.
"""

from __future__ import annotations

from typing import Any

from sandwright.errors import RenderError
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.filters import architecture, engine_profile
from sandwright.seccomp import gvisor_json, oci_json
from sandwright.seccomp.adapt import for_gvisor, in_order, without_ip
from sandwright.seccomp.sockets import makes_ip_sockets

Json = dict[str, Any]


def pod_filter(policy: ResolvedPolicy, *, gvisor: bool) -> Json:
    """`linux.seccomp` for the Pod's containers, for runsc with `gvisor`.

    Raise RenderError for a file that lets IP sockets be made where the policy has no network.
    """
    closed = policy.network.mode == "none"
    chosen = engine_profile(policy, host_sockets=False)
    shipped = chosen.first_wins
    if closed and shipped:
        chosen = without_ip(chosen)
    if gvisor and not shipped:
        chosen = in_order(chosen, arch=architecture(policy))
    if closed and not shipped and makes_ip_sockets(for_gvisor(chosen) if gvisor else chosen):
        raise RenderError(
            f"{policy.source('process.seccomp')}: process.seccomp: {policy.process.seccomp} lets IP "
            "sockets be made; with network.mode: none a Pod's filter must refuse them: "
            "socket with argument 0 of 2 and 10, socketcall and io_uring_setup"
        )
    return gvisor_json(chosen) if gvisor else oci_json(chosen)
