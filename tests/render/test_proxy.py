"""The proxy's configuration and the environment that leads to it; no value of a policy adds a rule.

Tests of oci/proxy/squid.conf.j2.
Tests of render/proxy.py: the ACL.
"""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import RenderError
from sandwright.policy.hosts import WEB_PORTS, HostPattern, ListedHost, host_pattern, listed_pattern
from sandwright.render.proxy import ProxyPlace, pages, refused_networks, squid_configuration
from sandwright.render.proxy_env import proxy_environment
from sandwright.render.proxyfacts import REASONS

PLACE = ProxyPlace(log="/run/p/access.log", cache_log="/run/p/cache.log", errors="/run/p/errors")

RULES = [
    "http_access deny !sw_clients sw_is_client",
    "http_access deny manager sw_is_method",
    "http_access deny sw_echo sw_is_method",
    "http_access deny !sw_connect !sw_http sw_is_method",
    "http_access deny !sw_spelling sw_is_spelling",
    "http_access deny !sw_listed sw_is_host",
    "http_access deny sw_never sw_is_address",
    "http_access deny sw_inside sw_is_address",
    "http_access deny !sw_resolved sw_is_unresolved",
    "http_access allow all",
]
"""The order of the rules: the same for every policy with a list of hosts."""


def directives(text: str) -> list[str]:
    """The directives that squid reads: lines that are neither empty nor comments."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def rendered(*allow: str, place: ProxyPlace = PLACE) -> list[str]:
    return directives(squid_configuration([host_pattern(text) for text in allow], place))


def test_patterns_become_lists_by_their_ports() -> None:
    lines = rendered(
        "b.example", "a.example", "*.c-d.example", "192.0.2.7", "a.example:8443", "*:22", "any.example:*"
    )
    assert [
        line for line in lines if re.match(r"acl sw_(host|below|address|hosts|ports|group|listed)", line)
    ] == [
        "acl sw_host_1 dstdomain -n a.example",
        "acl sw_host_1 dstdomain -n b.example",
        r"acl sw_below_1 dstdom_regex -n ^.+\.c-d\.example$",
        "acl sw_address_1 dst -n 192.0.2.7",
        "acl sw_hosts_1 any-of sw_host_1",
        "acl sw_hosts_1 any-of sw_below_1",
        "acl sw_hosts_1 any-of sw_address_1",
        "acl sw_ports_1 port 80",
        "acl sw_ports_1 port 443",
        "acl sw_group_1 all-of sw_ports_1 sw_hosts_1",
        "acl sw_listed any-of sw_group_1",
        "acl sw_host_2 dstdomain -n a.example",
        "acl sw_hosts_2 any-of sw_host_2",
        "acl sw_ports_2 port 8443",
        "acl sw_group_2 all-of sw_ports_2 sw_hosts_2",
        "acl sw_listed any-of sw_group_2",
        "acl sw_hosts_3 any-of all",
        "acl sw_ports_3 port 22",
        "acl sw_group_3 all-of sw_ports_3 sw_hosts_3",
        "acl sw_listed any-of sw_group_3",
        "acl sw_host_4 dstdomain -n any.example",
        "acl sw_hosts_4 any-of sw_host_4",
        "acl sw_group_4 all-of sw_hosts_4",
        "acl sw_listed any-of sw_group_4",
    ]


def test_the_rules_stand_in_one_order() -> None:
    assert [line for line in rendered("a.example") if line.startswith("http_access")] == RULES


def test_a_policy_without_hosts_lets_nothing_through() -> None:
    rules = [line for line in rendered() if line.startswith("http_access")]
    assert rules == [rule.replace("!sw_listed", "all") for rule in RULES]


@pytest.mark.parametrize(
    "line",
    [
        "cache deny all", "via off", "forwarded_for delete", "icp_port 0", "relaxed_header_parser off",
        "uri_whitespace deny", "pid_filename none", "coredump_dir none", "pinger_enable off",
        "pipeline_prefetch 0", "http_port 127.0.0.1:3128", "cache_log /run/p/cache.log",
        "error_directory /run/p/errors",
        "acl sw_clients src 127.0.0.1/32", "acl sw_clients src ::1/128", "acl sw_never dst 169.254.0.0/16",
        "acl sw_inside dst 10.0.0.0/8", "acl sw_never dst fd00:ec2::/32",
    ],
)  # fmt: skip
def test_it_says(line: str) -> None:
    assert line in rendered("a.example")


def test_private_names_pass_one_rule_and_no_other() -> None:
    allow = [listed_pattern(each) for each in ("a.example", ListedHost("b.example", private=True))]
    lines = directives(squid_configuration(allow, PLACE))
    assert [line for line in lines if line.startswith("http_access")] == [
        rule.replace("deny sw_inside", "deny sw_inside !sw_private") for rule in RULES
    ]
    assert [line for line in lines if line.startswith("acl sw_private")] == [
        "acl sw_private any-of sw_group_2"
    ]
    assert "acl sw_host_2 dstdomain -n b.example" in lines
    never, inside = (
        {line.split()[3] for line in lines if line.startswith(f"acl {name} ")}
        for name in ("sw_never", "sw_inside")
    )
    assert inside >= {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
    special = {
        "127.0.0.0/8",
        "169.254.0.0/16",
        "0.0.0.0/8",
        "::/96",
        "fe80::/9",
        "2002::/16",
        "64:ff9b:1::/48",
    }
    assert special <= never
    assert not special & inside
    assert {line.split()[3] for line in rendered("a.example") if " dst " in line} == never | inside | {"all"}


def test_its_place_is_written_where_it_belongs() -> None:
    place = ProxyPlace(
        "/l", "/c", "/e", "[::1]", 8000, ("10.0.0.0/8",), ("20.1.2.3",), "/h", ("20.0.0.1",), icmp=False
    )
    lines = rendered("a.example", place=place)
    assert "http_port [::1]:8000" in lines
    assert "acl sw_clients src 10.0.0.0/8" in lines
    assert "acl sw_never dst 20.1.2.3/32" in lines
    assert "hosts_file /h" in lines
    assert "dns_nameservers 20.0.0.1" in lines
    assert "pinger_enable off" not in lines
    assert "acl sw_relay" not in "\n".join(lines)
    lines = rendered("a.example", place=ProxyPlace("/l", "/c", "/e", word="fd00::1"))
    assert "http_port 127.0.0.1:3128 require-proxy-header" in lines
    assert [line for line in lines if line.startswith("acl sw_clients")] == ["acl sw_clients src fd00::1"]


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("0.0.0.1", True), ("10.1.2.3", True), ("100.64.0.1", True), ("100.128.0.1", False),
        ("127.9.9.9", True),
        ("169.254.169.254", True), ("172.15.255.255", False), ("172.16.0.1", True), ("172.31.255.255", True),
        ("172.32.0.1", False), ("192.168.1.1", True), ("198.19.0.1", True),
        ("203.0.113.9", True), ("8.8.8.8", False),
        ("224.0.0.1", True), ("255.255.255.255", True), ("::", True), ("::1", True), ("::a00:1", True),
        ("2606:4700::1", False), ("fc00::1", True), ("fd00:ec2::254", True), ("fe80::1", True),
        ("168.63.129.16", True), ("168.63.129.15", False), ("64:ff9b::a83f:8110", True),
        ("::ffff:0:a00:1", True),
        ("fec0::1", True),
        ("ff02::1", True), ("2001:db8::1", True), ("2002:a00:1::1", True), ("2001:0:1::1", True),
        ("2001:200::1", False), ("64:ff9b::a00:1", True), ("64:ff9b::a9fe:a9fe", True),
        ("64:ff9b::808:808", False), ("64:ff9b:1::a00:1", True),
    ],
)  # fmt: skip
def test_addresses_that_nothing_leads_to(address: str, *, refused: bool) -> None:
    assert _refuses(refused_networks([host_pattern("*")]), address) is refused


def test_an_address_that_the_policy_lists_is_taken_out_alone() -> None:
    networks = refused_networks([host_pattern("10.1.2.3:8080"), host_pattern("[fd00::7]:443")])
    assert not _refuses(networks, "10.1.2.3")
    assert not _refuses(networks, "64:ff9b::a01:203")
    assert not _refuses(networks, "fd00::7")
    for address in (
        "10.1.2.2",
        "10.1.2.4",
        "10.0.0.0",
        "10.255.255.255",
        "fd00::6",
        "fd00::8",
        "64:ff9b::a01:204",
    ):
        assert _refuses(networks, address), address


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "::1",
        "fe80::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:42::42",
        "168.63.129.16",
        "fd00:ec2::23",
    ],
)
def test_some_addresses_can_not_be_listed(host: str) -> None:
    assert _refuses(refused_networks([HostPattern(host, WEB_PORTS)]), host)


def test_the_machine_itself_can_not_be_listed() -> None:
    assert not _refuses(refused_networks([host_pattern("10.1.2.3")]), "10.1.2.3")
    assert _refuses(refused_networks([host_pattern("10.1.2.3")], own_addresses=("10.1.2.3",)), "10.1.2.3")
    assert _refuses(refused_networks([], own_addresses=("20.1.2.3",)), "64:ff9b::1401:203")


def _refuses(networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network], address: str) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


HOSTILE = st.text(st.sampled_from("a.*-:/#\"' \t\n\r\\$(){}[]\0é^|%0"), max_size=30) | st.text(max_size=30)


@given(HOSTILE)
def test_no_host_adds_a_directive(text: str) -> None:
    plain = rendered("a.example")
    try:
        pattern = host_pattern(text)
    except ValueError:
        pattern = HostPattern(text, WEB_PORTS)  # no loader produces this
    try:
        lines = directives(squid_configuration([pattern], PLACE))
    except (RenderError, ValueError):
        return
    own = [line for line in lines if line not in plain]
    assert len(own) <= 40, "an address that is taken out leaves the halves around it"
    for line in own:
        assert re.fullmatch(
            r"acl sw_(host_1 dstdomain -n [a-z0-9][a-z0-9.-]*|below_1 dstdom_regex -n \^\.\+[a-z0-9\\.-]+\$"
            r"|address_1 dst -n [0-9a-f.:]+|hosts_1 any-of (all|sw_(below|address)_1)|ports_1 port [0-9]+"
            r"|inside dst [0-9a-f.:/]+)",
            line,
        ), line
    assert [line for line in lines if line.startswith("http_access")] == RULES


@given(HOSTILE, st.sampled_from(["log", "cache_log", "errors", "listen", "hosts_file"]))
def test_no_place_adds_a_directive(text: str, field: str) -> None:
    given_ = {"log": "/l", "cache_log": "/c", "errors": "/e", "listen": "127.0.0.1", "hosts_file": "/h"}
    try:
        lines = rendered("a.example", place=ProxyPlace(**{**given_, field: text}))  # type: ignore[arg-type]
    except RenderError:
        return
    plain = rendered("a.example", place=ProxyPlace(**given_))  # type: ignore[arg-type]
    assert len(lines) == len(plain)
    assert sum(old != new for old, new in zip(plain, lines, strict=True)) <= 1
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in plain]


@pytest.mark.parametrize(
    "word", ["", "-x", '"/etc/passwd"', "a b", "a\nhttp_access", "#", "${x}", "a'b", "/a b", None]
)
def test_words_that_squid_would_read_otherwise_are_refused(word: str) -> None:
    with pytest.raises(RenderError, match="cannot be a word of squid's configuration"):
        squid_configuration([], ProxyPlace(log=word, cache_log="/c", errors="/e"))


def test_each_refusal_has_a_page_that_starts_with_its_reason() -> None:
    written = {page.name: page.content.decode() for page in pages()}
    assert set(written) == {f"errors/ERR_SANDWRIGHT_{reason.upper()}" for reason in REASONS}
    for reason in REASONS:
        text = written[f"errors/ERR_SANDWRIGHT_{reason.upper()}"]
        assert text.startswith(f"sandwright: refused: {reason}: ")
        assert text.count("\n") == 1


def test_the_environment_that_leads_to_the_proxy() -> None:
    url, local = "http://127.0.0.1:3128", "localhost,127.0.0.1,::1"
    assert proxy_environment() == {
        "http_proxy": url, "https_proxy": url, "all_proxy": url, "no_proxy": local,
        "HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": local,
        "NODE_USE_ENV_PROXY": "1",
        "npm_config_proxy": url, "npm_config_https_proxy": url, "npm_config_noproxy": local,
        "YARN_HTTP_PROXY": url, "YARN_HTTPS_PROXY": url, "PIP_PROXY": url, "CARGO_HTTP_PROXY": url,
        "JAVA_TOOL_OPTIONS": (
            "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1"
            " -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
        ),
    }  # fmt: skip


def test_what_the_policy_sets_stays() -> None:
    found = proxy_environment({"NO_PROXY": "x", "JAVA_TOOL_OPTIONS": "-Xmx1g"}, host="proxy", port=8000)
    assert "NO_PROXY" not in found
    assert found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert found["https_proxy"] == "http://proxy:8000"
    assert found["JAVA_TOOL_OPTIONS"].startswith("-Xmx1g -Dhttp.proxyHost=proxy -Dhttp.proxyPort=8000 ")
