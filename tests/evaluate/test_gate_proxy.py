"""An artifact with a proxy that permits more than the policy is not used.

Tests of evaluate/explain/squid.py: a line of squid.conf that is not known.
Tests of evaluate/explain/squid_lines.py.
Tests of evaluate/proxied.py.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sandwright import Policy, ResolvedPolicy
from sandwright.egress import plan
from sandwright.egress.squid_settings import InstalledSquid
from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.proxied import check_proxy
from sandwright.methods import registry
from sandwright.render.artifact import Artifact
from sandwright.render.proxy import ProxyPlace, render_proxy, squid_configuration
from sandwright.render.proxyfacts import LISTEN, RELAY
from support.gateplants import FACTS, check_planted

HOST_LIST = "acl sw_host_1 dstdomain -n h.example"
INSIDE, PORT = "acl sw_inside dst 172.16.0.0", "acl sw_ports_1 port"
ADDRESS = "http_access deny sw_inside"
UNSAFE_PROXIES = [
    ("http_access deny sw_never sw_is_address\n", "", "connect h.example at 169.254.169.254"),
    ("http_access deny sw_inside sw_is_address\n", "", "connect h.example at 10.0.0.1"),
    (f"{ADDRESS} ", f"{ADDRESS} !sw_hosts_1 ", "connect h.example at 10.0.0.1"),
    ("acl sw_never dst 127.0.0.0/8\n", "", "connect h.example at 127.0.0.0"),
    (f"{INSIDE}/12\n", f"{INSIDE}/16\n", "connect h.example at 172.31.255.255"),
    ("http_access deny !sw_clients sw_is_client\n", "", "requests of 192.0.2.2"),
    ("http_access deny sw_gateway sw_is_client\n", "", "requests of 192.0.2.1"),
    ("http_access deny manager sw_is_method\n", "http_access allow manager\n", "the proxy's own pages"),
    ("http_access deny sw_echo sw_is_method\n", "", "TRACE"),
    ("http_access deny !sw_connect !sw_http sw_is_method\n", "", "FTP"),
    (f"{HOST_LIST}\n", f"{HOST_LIST} other.example\n", "connect other.example:443"),
    (f"{PORT} 443\n", f"{PORT} 443\n{PORT} 22\n", "connect h.example:22"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "case"), UNSAFE_PROXIES)
def test_a_proxy_that_leads_where_no_name_may_lead_is_refused(
    old: str, new: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_planted(proxied(), "docker", "proxy/squid.conf", (old, new), case, monkeypatch)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("always_direct allow all", "cache_peer 10.0.0.1 parent 3128 0\nnever_direct allow all"),
        ("always_direct allow all", "always_direct deny all"),
        ("cache deny all", "cache deny all\nurl_rewrite_program /bin/sh"),
        ("http_port 0.0.0.0:3128", "http_port 0.0.0.0:3128 intercept"),
        ("via off", "via on"),
        (HOST_LIST, "acl sw_host_1 dstdomain -n .h.example"),
        (HOST_LIST, f"{HOST_LIST}\nacl sw_host_1 dstdom_regex -n example"),
        ("port 443", "port 22-443"),
    ],
)
def test_a_line_of_the_proxy_that_is_not_known_is_refused(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_planted(proxied(), "docker", "proxy/squid.conf", (old, new), "is unknown", monkeypatch)


@pytest.mark.parametrize(
    "allow",
    [
        "[h.example, '*.below.example', '*:8443']",
        "[{host: h.example, private: true}, h.example:22]",
        "[h.example, 10.0.0.1, 192.168.0.1]",
    ],
)
def test_a_proxy_of_the_policy_is_not_refused(allow: str) -> None:
    registry.render(proxied(allow), "docker")
    if "private" not in allow:
        registry.render(proxied(allow, "kubernetes"), "kubernetes")


def proxied(allow: str = "[h.example]", method: str = "docker") -> ResolvedPolicy:
    text = f"method: {method}\nnetwork: {{mode: proxy, allow: {allow}}}\nresources: {{pids: unlimited}}\n"
    return Policy.from_text(text).resolve(FACTS)


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [each for each in UNSAFE_PROXIES if "gateway" not in each[0] and "sw_clients" not in each[0]],
)
@pytest.mark.parametrize("client", [RELAY, "127.0.0.1"])
def test_a_session_s_proxy_that_allows_more_is_refused(client: str, old: str, new: str, case: str) -> None:
    """Here the artifacts contain no proxy."""
    settings = ProxyPlace("/log", "/log", "/errors", listen=LISTEN, own_addresses=None)
    settings = replace(settings, word=RELAY) if client == RELAY else settings
    policy = proxied()
    rendered = squid_configuration(policy.network.allow, settings)
    check_proxy(policy, rendered, client=client)
    assert old in rendered
    with pytest.raises(ArtifactsTooWide, match=re.escape(case)):
        check_proxy(policy, rendered.replace(old, new), client=client)


def test_a_session_s_proxy_is_checked_before_it_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def rendered(policy: ResolvedPolicy, settings: ProxyPlace) -> tuple[Artifact, ...]:
        first, *others = render_proxy(policy, settings)
        return replace(first, content=first.content.replace(b"deny sw_never ", b"allow sw_never ")), *others

    monkeypatch.setattr(
        plan, "find_squid", lambda: InstalledSquid("/usr/sbin/squid", icmp=False, account="", data=())
    )
    monkeypatch.setattr(plan, "render_proxy", rendered)
    with pytest.raises(ArtifactsTooWide, match=r"connect h\.example at 169\.254\.169\.254"):
        plan.plan_proxy(proxied(method="bwrap"))


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_engine_s_own_network_beside_the_proxy_is_refused(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher puts the container on a network that reaches only the proxy."""
    change = ("--rm\0", "--network=host\0")
    check_planted(proxied(method=engine), engine, "launch.plan", change, "connect 192.0.2.1:443", monkeypatch)
