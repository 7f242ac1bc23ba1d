"""The proxy of a policy: the shared part of its starts, the squid that is here, and a start."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from sandwright.egress.inspection_plan import plan_inspection
from sandwright.egress.proxy_plan import ProxyPlan, SquidAccount
from sandwright.egress.squid_settings import InstalledSquid, find_squid, squid_account, squid_restriction
from sandwright.egress.start import Proxy, start_proxy
from sandwright.errors import HostError, UsageError
from sandwright.evaluate.explain.squid import CLIENT
from sandwright.evaluate.proxied import check_inspection, check_proxy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import ProxyPlace, render_proxy
from sandwright.render.proxyfacts import DIRECTORY, LISTEN, OPENER, RELAY, SECCOMP
from sandwright.render.restricted import restricting_launcher


def plan_proxy(
    policy: ResolvedPolicy, *, hosts_file: Path | None = None, nameservers: tuple[str, ...] = ()
) -> ProxyPlan:
    """The plan of a policy's proxies.

    `hosts_file` and `nameservers` take the place of the machine's own. Raise ToolMissing without squid,
    HostError if it cannot be run here, UsageError unless `network.mode` is `proxy`, and ArtifactsTooWide for
    a configuration that lets more through.
    """
    if policy.network.mode != "proxy":
        raise UsageError(f"network.mode is {policy.network.mode}: there is nothing for a proxy to do")
    squid = find_squid()
    account = squid_account(squid)
    relayed = sys.platform == "linux"
    names = None if hosts_file is None else str(hosts_file)
    settings = ProxyPlace(
        log=f"{DIRECTORY}/squid/access.log",
        cache_log=f"{DIRECTORY}/squid/cache.log",
        errors=f"{DIRECTORY}/errors",
        listen=LISTEN,
        word=RELAY if relayed else None,
        opener=OPENER if policy.network.http else None,
        own_addresses=None,
        hosts_file=f"{DIRECTORY}/hosts" if relayed else names,
        nameservers=nameservers,
        icmp=squid.icmp,
    )
    files = {each.name: each.content.decode() for each in render_proxy(policy, settings)}
    configuration = files.pop("squid.conf")
    check_proxy(policy, configuration, client=RELAY if relayed else CLIENT)
    before, seccomp = _restricted(policy, squid, account) if relayed else _unrestricted(account)
    inspection = plan_inspection(policy, account)
    if inspection:
        check_inspection(policy, inspection.configuration, inspection.filtered)
    if inspection and not relayed:
        raise HostError("network.http needs Linux: there is no relay to the proxy that reads requests")
    words = (*before, squid.program)
    return ProxyPlan(configuration, files, words, account, names, seccomp.hex(), inspection)


def _restricted(
    policy: ResolvedPolicy, squid: InstalledSquid, account: SquidAccount | None
) -> tuple[tuple[str, ...], bytes]:
    """The words before squid's, and the filter that they name."""
    launcher, seccomp = restricting_launcher(platform.machine())
    allow = (*policy.network.allow, *(each.pattern for each in policy.network.http))
    listed = None
    if all(each.ports is not None for each in allow):
        listed = {port for each in allow for port in each.ports or ()}
    restriction = squid_restriction(squid, account, listed)
    return restriction.argv(launcher, f"{DIRECTORY}/{SECCOMP}"), seccomp


def _unrestricted(account: SquidAccount | None) -> tuple[tuple[str, ...], bytes]:
    """The settings without Landlock, on macOS."""
    if account is not None:
        raise HostError("squid is not run as root; start this as another user")
    return (), b""


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
