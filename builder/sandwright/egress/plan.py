"""The proxy of a policy: what its starts have in common, the squid that is here, and a start."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from sandwright.egress.place import find_squid, squid_account, unprivileged
from sandwright.egress.start import Proxy, ProxyPlan, start_proxy
from sandwright.errors import UsageError
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import ProxyPlace, render_proxy
from sandwright.render.proxyfacts import DIRECTORY, LISTEN, RELAY


def plan_proxy(
    policy: ResolvedPolicy, *, hosts_file: Path | None = None, nameservers: tuple[str, ...] = ()
) -> ProxyPlan:
    """The plan of a policy's proxies.

    `hosts_file` and `nameservers` take the place of the machine's own. Raise ToolMissing without squid,
    HostError when it can't be run here, and UsageError for a policy whose network has another mode.
    """
    if policy.network.mode != "proxy":
        raise UsageError(f"network.mode is {policy.network.mode}: there is nothing for a proxy to do")
    squid = find_squid()
    account = squid_account(squid)
    relayed = sys.platform == "linux"
    names = None if hosts_file is None else str(hosts_file)
    place = ProxyPlace(
        log=f"{DIRECTORY}/squid/access.log",
        cache_log=f"{DIRECTORY}/squid/cache.log",
        errors=f"{DIRECTORY}/errors",
        listen=LISTEN,
        word=RELAY if relayed else None,
        own=None,
        hosts_file=f"{DIRECTORY}/hosts" if relayed else names,
        nameservers=nameservers,
        icmp=squid.icmp,
    )
    files = {each.name: each.content.decode() for each in render_proxy(policy, place)}
    configuration = files.pop("squid.conf")
    return ProxyPlan(configuration, files, (*unprivileged(account), squid.program), account, names)


@contextlib.contextmanager
def proxy(
    policy: ResolvedPolicy,
    *,
    log: Path | None = None,
    hosts_file: Path | None = None,
    nameservers: tuple[str, ...] = (),
    timeout: float = 15.0,
) -> Iterator[Proxy]:
    """Run a proxy for a policy for the length of a `with`. See the package for the contract.

    `hosts_file` and `nameservers` take the place of the machine's own, for names that only it should know.
    `timeout` is how many seconds squid may take until it answers.
    """
    plan = plan_proxy(policy, hosts_file=hosts_file, nameservers=nameservers)
    with start_proxy(plan, log=log, timeout=timeout) as running:
        yield running
