"""squid refuses opened hosts to the sandbox, and limits their proxy to them; the gate enforces both.

Tests of evaluate/proxied.py: hosts of network.http.
"""

from __future__ import annotations

import pytest

from sandwright.api import Policy
from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.proxied import check_inspection, check_proxy
from sandwright.policy.facts import HostFacts
from sandwright.render.haproxy import haproxy_configuration
from sandwright.render.proxy import ProxyPlace, render_proxy
from sandwright.render.proxyfacts import OPENER, RELAY

POLICY = Policy.from_text(
    "schema: 1\nmethod: bwrap\nnetwork: {mode: proxy, allow: ['*.example.org'], "
    "http: [{host: api.example.org, methods: [GET], paths: ['/repos/*']}]}\n"
).resolve(HostFacts(os="linux", home="/home/a", project="/home/a/p"))


def _squid() -> str:
    place = ProxyPlace(log="/l", cache_log="/c", errors="/e", word=RELAY, opener=OPENER)
    return next(each.content.decode() for each in render_proxy(POLICY, place) if each.name == "squid.conf")


def test_the_configurations_allow_no_more() -> None:
    check_proxy(POLICY, _squid(), client=RELAY)
    check_inspection(POLICY, haproxy_configuration(POLICY, "/authorities.pem"))


@pytest.mark.parametrize(
    "line",
    [
        "http_access deny sw_opened_name !sw_opener sw_is_http\n",
        "http_access deny sw_opener !sw_opened sw_is_host\n",
    ],
)
def test_squid_without_a_rule_is_refused(line: str) -> None:
    assert line in _squid()
    with pytest.raises(ArtifactsTooWide):
        check_proxy(POLICY, _squid().replace(line, ""), client=RELAY)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("method -m str GET", "method -m str GET DELETE"),
        ("acl paths_1 path -m reg '", "acl paths_1 path -m reg '^/|"),
        ("verifyhost api.example.org", "verifyhost other.example"),
    ],
)
def test_haproxy_with_a_wider_rule_is_refused(old: str, new: str) -> None:
    text = haproxy_configuration(POLICY, "/authorities.pem")
    assert old in text
    with pytest.raises(ArtifactsTooWide):
        check_inspection(POLICY, text.replace(old, new))
