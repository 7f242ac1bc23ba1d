"""The probes of rules about tools over standard input and output: they pass, and fail with a wider filter.

Tests of verify/messages.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright.runtime.probe import own_probe
from sandwright.verify import messages
from sandwright.verify.messages import ALLOWED, ANSWERS, REFUSED, message_outcomes
from sandwright.verify.sandbox import RenderedSandbox
from sandwright.verify.verdict import Verdict
from support.httpsessions import http_gaps
from support.proving import Prove
from support.thorough import representative

PASS, FAIL, UNPROVED = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
UNGATED = "import sandwright.mcp.messages as m; m._listed_tool = lambda message, allows: 'x'; "
UNCHECKED = (
    "import sandwright.mcp.stdio as s; s.client_message = lambda raw, _: s.ClientMessage(raw, '', ''); "
)
UNMATCHED = (
    "import sandwright.mcp.stdio as s; one = s.server_message; "
    "s.server_message = lambda raw, allows, awaited: one(raw, allows); "
)
UNLISTED = "import sandwright.mcp.messages as m; m._is_listed = lambda tool, allows: True; "
CLOSED = "import sandwright.mcp.messages as m; m.REQUESTS = frozenset(); "


def _verdicts(*tools: str) -> dict[str, Verdict]:
    """The verdicts on the filter alone: the probe program is started without a sandbox."""
    sandbox = RenderedSandbox("bwrap", Path("/usr/bin/env"), own_probe(), os.environ)
    return {each.probe: each.verdict for each in message_outcomes(tools, sandbox)}


@pytest.mark.parametrize("tools", [("search",), ("get_*", "search"), ("*",), ()])
def test_the_filter_passes(tools: tuple[str, ...]) -> None:
    assert _verdicts(*tools) == dict.fromkeys((ALLOWED, REFUSED, ANSWERS), PASS)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(UNGATED, (PASS, FAIL, FAIL), id="every tool is called"),
        pytest.param(UNCHECKED, (FAIL, FAIL, UNPROVED), id="every message passes"),
        pytest.param(UNMATCHED, (PASS, PASS, FAIL), id="every answer passes"),
        pytest.param(UNLISTED, (PASS, PASS, FAIL), id="every tool is shown"),
        pytest.param(CLOSED, (FAIL, UNPROVED, UNPROVED), id="nothing but calls passes"),
    ],
)
def test_a_wider_filter_fails(
    monkeypatch: pytest.MonkeyPatch, change: str, found: tuple[Verdict, ...]
) -> None:
    monkeypatch.setattr(messages, "_CODE", change + messages._CODE)
    assert _verdicts("search") == dict(zip((ALLOWED, REFUSED, ANSWERS), found, strict=True))


@pytest.mark.parametrize("method", representative(["bwrap", "landlock", "oci", "vm"], "bwrap", "landlock"))
def test_a_policy_for_servers_is_proved(prove_with: Prove, method: str) -> None:
    """Its launcher starts only for someone who reads the messages."""
    policy = f"schema: 1\nmethod: {method}\nmcp: {{tools: [search]}}\n{http_gaps(method)}"
    assert {"lifecycle/starts", ALLOWED, REFUSED, ANSWERS}.isdisjoint(prove_with(method, policy))
