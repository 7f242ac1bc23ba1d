"""The probes of the inspecting proxy: they pass here, and fail with a rule that is too wide.

Tests of verify/requests.py.
Tests of verify/signed_requests.py.
Tests of evaluate/explain/haproxy.py: the effect of a superfluous rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.egress import inspection_plan, plan
from sandwright.policy.facts import CERTIFICATES, HostFacts
from sandwright.policy.load import layer, run_layer
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.haproxy import haproxy_configuration
from sandwright.verify.requests import (
    ALLOWED,
    HOST,
    REFUSED,
    SECRET,
    SETTINGS,
    SIGNATURE,
    TOOLS,
    request_outcomes,
)
from sandwright.verify.verdict import Verdict

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "setpriv")

BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def _resolve(settings: Sequence[str]) -> ResolvedPolicy:
    facts = HostFacts(
        os="linux",
        home="/home/a",
        project="/home/a/p",
        texts={CERTIFICATES: f"# {BUNDLE}\n{BUNDLE.read_text()}"},
    )
    project = layer("schema: 1\nmethod: bwrap\nnetwork: {mode: proxy}\n", kind="project")
    run = run_layer(settings)
    assert run is not None
    return Policy.from_layers([project, run]).resolve(facts)


def _verdicts() -> dict[str, Verdict]:
    return {each.probe: each.verdict for each in request_outcomes(_resolve, "bwrap")}


def test_the_proxy_of_this_machine_passes() -> None:
    assert any(HOST in each for each in SETTINGS)
    assert _verdicts() == dict.fromkeys((ALLOWED, REFUSED, TOOLS, SECRET, SIGNATURE), Verdict.PASS)


@pytest.mark.parametrize(
    ("old", "new", "failed"),
    [
        ("acl methods_1 method -m str GET", "acl methods_1 method -m str GET DELETE", REFUSED),
        ("acl spelled path -m reg '", "acl spelled path -m reg '^/|", REFUSED),
        ("unless one_name one_host this_host", "unless one_name", REFUSED),
        ("use_backend filter_2 if tools", "# none", TOOLS),
        ("acl tools path -m reg -i '^(/|%2[Ff])mcp((/|%2[Ff]).*)?$'", "acl tools path -m str /mcp", TOOLS),
        ("given_1 !placeholder_1", "given_1 placeholder_1 !given_1", SECRET),
        ("!{ var(txn.verified) -m found }", "{ var(txn.verified) -m str x }", SIGNATURE),
    ],
)
def test_a_rule_that_is_too_wide_fails(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, failed: str
) -> None:
    rendered = haproxy_configuration

    def wider(policy: ResolvedPolicy, authorities: str) -> str:
        text = rendered(policy, authorities)
        assert old in text
        return text.replace(old, new)

    monkeypatch.setattr(inspection_plan, "haproxy_configuration", wider)
    monkeypatch.setattr(plan, "check_inspection", lambda *_: None)
    assert _verdicts()[failed] is Verdict.FAIL
