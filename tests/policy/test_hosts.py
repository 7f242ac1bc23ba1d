"""Hosts and their patterns: one spelling, exact matching, and no bypass by another spelling.

Tests of policy/hosts.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.evaluate.explain.squid import PLACE, Squid
from sandwright.policy.hosts import WEB_PORTS, HostIndex, HostPattern, canonical_host, endpoint, host_pattern
from sandwright.render.proxy import squid_configuration


def exactly(message: str) -> str:
    """The pattern that only this message matches."""
    return rf"\A{re.escape(message)}\Z"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("github.com", "github.com"),
        ("GitHub.COM", "github.com"),
        ("github.com.", "github.com"),
        ("github.com:443", "github.com:443"),
        ("github.com:*", "github.com:*"),
        ("*.example.org", "*.example.org"),
        ("*.Example.ORG.:8443", "*.example.org:8443"),
        ("*", "*"),
        ("*:443", "*:443"),
        ("intranet", "intranet"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("B\u00dcCHER.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("stra\u00dfe.example", "xn--strae-oqa.example"),
        ("*.b\u00fccher.example", "*.xn--bcher-kva.example"),
        ("github\u3002com", "github.com"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7.", "192.0.2.7"),
        ("10.0.0.5:8080", "10.0.0.5:8080"),
        ("[2001:DB8::7]:443", "[2001:db8::7]:443"),
        ("[2001:db8:0:0:0:0:0:7]", "[2001:db8::7]"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("a-b.c-d.example", "a-b.c-d.example"),
        ("1password.com", "1password.com"),
        ("3.example", "3.example"),
    ],
)
def test_one_spelling(text: str, shown: str) -> None:
    pattern = host_pattern(text)
    assert str(pattern) == shown
    assert host_pattern(shown) == pattern


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("https://github.com/x", "'https://github.com/x' is a URL; name the host: github.com"),
        ("https://user:pw@github.com", "'https://user:pw@github.com' is a URL; name the host: github.com"),
        ("github.com/x", "'github.com/x' is more than a host; leave out the part after /"),
        ("10.0.0.0/8", "'10.0.0.0/8' is a network; name its hosts"),
        ("fd00::/8", "'fd00::/8' is a network; name its hosts"),
        ("me@github.com", "'me@github.com' holds a user; name only the host"),
        ("github.com:0", "'github.com:0': the port must be 1 to 65535, or * for any"),
        ("github.com:65536", "'github.com:65536': the port must be 1 to 65535, or * for any"),
        ("github.com:https", "'github.com:https': the port must be 1 to 65535, or * for any"),
        ("github.com:", "'github.com:': the port must be 1 to 65535, or * for any"),
        ("github.com:0443", "'github.com:0443': the port must be 1 to 65535, or * for any"),
        ("*.com", "'*.com' would cover a whole top-level domain; name hosts in it"),
        ("*.", "'*.': * stands only for the whole first part: *.example.org"),
        ("git*.com", "'git*.com': * stands only for the whole first part: *.example.org"),
        ("a.*.com", "'a.*.com': * stands only for the whole first part: *.example.org"),
        ("*.*.com", "'*.*.com': * stands only for the whole first part: *.example.org"),
        ("*.10.0.0.1", "'*.10.0.0.1': * stands only for the whole first part: *.example.org"),
        ("a..b", "'a..b' is no host: it has an empty part"),
        (".github.com", "'.github.com' is no host: it has an empty part"),
        ("github.com..", "'github.com..' is no host: it has an empty part"),
        ("-a.example", "'-a.example' is no host: '-a' holds other than letters, digits and inner hyphens"),
        ("my_host.example", "'my_host.example' is no host: 'my_host' holds other than letters, digits and inner hyphens"),
        ("a b.example", "'a b.example' holds a blank or a control character"),
        ("a\nb.example", "'a\\nb.example' holds a blank or a control character"),
        ("a\0b.example", "'a\\x00b.example' holds a blank or a control character"),
        ("x" * 64 + ".example", "'" + "x" * 57 + "...' is no host: a part is longer than 63 characters"),
        ("x." * 127 + "example", "'" + "x." * 28 + "x...' is longer than a host's name can be (253)"),
        ("localhost", "localhost is no host of the network; list its ports in network.localhost"),
        ("x.localhost", "localhost is no host of the network; list its ports in network.localhost"),
        ("127.0.0.1", "127.0.0.1 is this machine; list its ports in network.localhost"),
        ("127.9.9.9", "127.9.9.9 is this machine; list its ports in network.localhost"),
        ("[::1]:80", "::1 is this machine; list its ports in network.localhost"),
        ("::ffff:127.0.0.1", "127.0.0.1 is this machine; list its ports in network.localhost"),
        ("64:ff9b::127.0.0.1", "64:ff9b::7f00:1 is this machine; list its ports in network.localhost"),
        ("2002:7f00:1::", "2002:7f00:1:: is this machine; list its ports in network.localhost"),
        ("0.0.0.0", "0.0.0.0 is link-local, unspecified or multicast, which is never let through"),
        ("169.254.169.254", "169.254.169.254 is link-local, unspecified or multicast, which is never let through"),
        ("fe80::1", "fe80::1 is link-local, unspecified or multicast, which is never let through"),
        ("fe80::1%eth0", "'fe80::1%eth0': a zone ID is valid only on one machine"),
        ("127.1", "'127.1' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("2130706433", "'2130706433' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("0x7f.0.0.1", "'0x7f.0.0.1' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("0x7f000001", "'0x7f000001' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("0177.0.0.1", "'0177.0.0.1' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1 is this machine; list its ports in network.localhost"),
        ("[::1", "'[::1': an IPv6 address with a port is written [address]:port"),
        ("[github.com]:443", "'[github.com]:443': an IPv6 address with a port is written [address]:port"),
        ("1:2:3:4", "'1:2:3:4' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        host_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("github.com", "github.com", 443, True),
        ("github.com", "github.com", 80, True),
        ("github.com", "github.com", 22, False),
        ("github.com", "api.github.com", 443, False),
        ("github.com", "github.com.evil.com", 443, False),
        ("github.com", "evilgithub.com", 443, False),
        ("github.com:22", "github.com", 22, True),
        ("github.com:22", "github.com", 443, False),
        ("github.com:*", "github.com", 9418, True),
        ("*.github.com", "api.github.com", 443, True),
        ("*.github.com", "a.b.github.com", 443, True),
        ("*.github.com", "github.com", 443, False),
        ("*.github.com", "evilgithub.com", 443, False),
        ("*.github.com", "api.github.com.evil.com", 443, False),
        ("*", "anything.example", 443, True),
        ("*", "anything.example", 25, False),
        ("10.0.0.5:*", "10.0.0.5", 1, True),
        ("10.0.0.5:*", "10.0.0.50", 1, False),
    ],
)
def test_matching(pattern: str, host: str, port: int, matches: bool) -> None:
    assert host_pattern(pattern).matches(canonical_host(host), port) is matches


@pytest.mark.parametrize(
    ("limit", "given", "covers"),
    [
        ("github.com", "github.com", True),
        ("github.com", "github.com:443", True),
        ("github.com", "github.com:22", False),
        ("github.com:443", "github.com", False),
        ("github.com:*", "github.com:22", True),
        ("github.com:443", "github.com:*", False),
        ("*.github.com", "api.github.com", True),
        ("*.github.com", "*.github.com", True),
        ("*.github.com", "*.api.github.com", True),
        ("*.api.github.com", "*.github.com", False),
        ("*.github.com", "github.com", False),
        ("api.github.com", "*.github.com", False),
        ("*", "*.github.com", True),
        ("*", "10.0.0.5", True),
        ("*.github.com", "*", False),
    ],
)
def test_covering(limit: str, given: str, covers: bool) -> None:
    assert host_pattern(limit).covers(host_pattern(given)) is covers


LABELS = st.sampled_from(["a", "b", "ab", "b-a", "xn--bcher-kva"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.sampled_from([None, "*", "80", "443", "8443"])


@st.composite
def _patterns(draw: st.DrawFn) -> HostPattern:
    name = draw(NAMES)
    host = draw(st.sampled_from(["*", name, f"*.{name}.c"]))
    port = draw(PORTS)
    return host_pattern(host if port is None else f"{host}:{port}")


@settings(deadline=None)
@given(_patterns(), _patterns(), NAMES, st.sampled_from([80, 443, 8443, 22]))
def test_what_is_covered_matches_no_more(
    limit: HostPattern, inner: HostPattern, name: str, port: int
) -> None:
    if limit.covers(inner):
        for host in (name, f"{name}.c", f"{inner.host.removeprefix('*.')}", f"{name}.{inner.host[2:]}"):
            assert not inner.matches(host, port) or limit.matches(host, port)
    else:
        example = inner.host.replace("*", "b.b.b.b.b")
        ports = inner.ports if inner.ports is not None else {80, 443, 8443, 22}
        wild = inner.host.startswith("*") and not limit.host.startswith("*")
        assert wild or any(inner.matches(example, p) and not limit.matches(example, p) for p in ports)


ADDRESSES = st.sampled_from(["192.0.2.7", "2001:db8::7"])
HOSTS = st.one_of(NAMES, NAMES.map("{}.c".format), NAMES.map("a.{}.c".format), ADDRESSES)
LISTED = st.lists(
    st.one_of(_patterns(), st.builds(HostPattern, ADDRESSES, st.sampled_from([None, WEB_PORTS]))), max_size=8
)


@settings(deadline=None)
@given(LISTED, HOSTS, st.sampled_from([80, 443, 8443, 22]))
def test_an_index_finds_what_a_search_of_the_list_finds(
    listed: list[HostPattern], host: str, port: int
) -> None:
    searched = [(at, pattern) for at, pattern in enumerate(listed) if pattern.matches(host, port)]
    assert HostIndex(listed).first(host, port) == (searched[0] if searched else None)
    for other in listed:
        for index in range(len(listed) + 1):
            some = listed[:index]
            assert HostIndex(some).covers(other) == any(each.covers(other) for each in some)


@settings(deadline=None)
@given(LISTED, HOSTS, st.sampled_from([80, 443, 8443, 22]))
def test_squid_is_read_as_the_patterns_mean(listed: list[HostPattern], host: str, port: int) -> None:
    squid = Squid(squid_configuration(listed, PLACE))
    own = host in ("192.0.2.7", "2001:db8::7") and HostPattern(host, None) not in listed
    reserved = own and HostPattern(host, WEB_PORTS) not in listed  # for documentation: private, unless listed
    allowed = any(each.matches(host, port) for each in listed) and not reserved
    assert squid.verdict(host, port).allowed is allowed


@settings(deadline=None)
@given(st.text(max_size=40))
def test_a_spelling_is_final(text: str) -> None:
    try:
        once = canonical_host(text)
    except ValueError:
        return
    assert canonical_host(once) == once
    assert once.isascii()
    assert once == once.lower()


@pytest.mark.parametrize(
    ("text", "answer"),
    [("API.github.com.:443", ("api.github.com", 443)), ("[2001:db8::7]:22", ("2001:db8::7", 22))],
)
def test_endpoints(text: str, answer: tuple[str, int]) -> None:
    assert endpoint(text) == answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("github.com", "'github.com' has no port; write host:port"),
        ("github.com:*", "'github.com:*': the port must be 1 to 65535, or * for any"),
        ("*.github.com:443", "'*.github.com' is no host: '*' holds other than letters, digits and inner hyphens"),
        ("github.com:x", "'github.com:x': the port must be 1 to 65535, or * for any"),
    ],
)  # fmt: skip
def test_what_is_no_endpoint(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        endpoint(text)
