"""The plan for the host's CA certificates, and the variables that name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandwright.api import Policy
from sandwright.launcher.plan import NAME, AuthorityPlan, LaunchPlan, parse_plan
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.authorities import authority_environment

DEBIAN, FEDORA = "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"
JAVA = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")
NAMES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
DIRECTORIES = ("/", "/etc", "/etc/ssl", "/etc/ssl/certs", "/etc/pki", "/etc/pki/tls", "/etc/pki/tls/certs")
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        **dict.fromkeys((*DIRECTORIES, "/home", "/home/u", "/home/u/p"), HostEntry("directory")),
        FEDORA: HostEntry("file"),
    },
)
ON_DEBIAN = replace(FACTS, entries={**FACTS.entries, DEBIAN: HostEntry("file")})


def _resolved(text: str, facts: HostFacts = FACTS) -> ResolvedPolicy:
    return Policy.from_text(f"schema: 1\n{text}").resolve(facts)


def _plan(method: str, text: str) -> LaunchPlan:
    artifacts = render(_resolved(f"method: {method}\n{text}"), method).artifacts
    return parse_plan(next(each.content for each in artifacts if each.name == NAME))


@pytest.mark.parametrize("method", ["docker", "podman", "oci", "gvisor"])
def test_wherever_there_is_a_network(method: str) -> None:
    """A variable of the host is passed to no image, where its path means nothing."""
    for mode in ("host", "proxy"):
        plan = _plan(method, f"network: {{mode: {mode}}}\nenvironment: {{pass: [SSL_CERT_FILE]}}\n")
        assert plan.authorities == AuthorityPlan(
            bundles=(DEBIAN, FEDORA, "/etc/ssl/cert.pem"), stores=JAVA, variables=NAMES
        )
        assert set(NAMES) <= set(plan.never)
    for text in ("", "network: {mode: host, ca: image}\n"):
        plan = _plan(method, text)
        assert plan.authorities == AuthorityPlan()
        assert not set(NAMES) & set(plan.never)


def test_a_listed_path_of_the_host_stays_what_it_is() -> None:
    plan = _plan("docker", "network: {mode: host}\nfilesystem: {read: [/etc/ssl/certs]}\n")
    assert (plan.authorities.bundles, plan.authorities.stores) == ((FEDORA, "/etc/ssl/cert.pem"), JAVA[1:])


def test_the_hosts_own_file_where_its_root_is_seen() -> None:
    text = "network: {mode: host}\n"
    assert authority_environment(_resolved(text)) == dict.fromkeys(NAMES, FEDORA)
    assert authority_environment(_resolved(text, ON_DEBIAN)) == dict.fromkeys(NAMES, DEBIAN)
    denied = "network: {mode: host}\nfilesystem: {deny: [/etc/ssl]}\n"
    assert authority_environment(_resolved(denied, ON_DEBIAN)) == dict.fromkeys(NAMES, FEDORA)
    own = f"{text}environment: {{set: {{SSL_CERT_FILE: /a}}, pass: [NODE_*]}}\n"
    assert authority_environment(_resolved(own)) == {"REQUESTS_CA_BUNDLE": FEDORA}
    for none in ("", "network: {mode: host, ca: image}\n"):
        assert authority_environment(_resolved(none)) == {}
    assert authority_environment(_resolved(text, replace(FACTS, entries={}))) == {}
