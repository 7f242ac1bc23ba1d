"""The time of a comparison grows with a policy's length, not with its square: strangers choose the length."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from sandwright.api import Policy
from sandwright.change import questions
from sandwright.change.compare import compare_policies
from sandwright.policy import load
from sandwright.policy.facts import HostFacts
from support.thorough import representative

FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p")
LISTS = {
    "hosts": ("network: {{mode: proxy, allow: [{}]}}", "h{}.example.org"),
    "wildcards": ("network: {{mode: proxy, allow: [{}]}}", "'*.h{}.example.org'"),
    "ports": ("network: {{mode: proxy, allow: [{}]}}", "'h{0}.example.org:1{0}'"),
    "private": ("network: {{mode: proxy, allow: [{}]}}", "{{host: h{}.example.org, private: true}}"),
    "sockets": ("network: {{unix_sockets: [{}]}}", "/srv/s{}"),
    "localhost": ("network: {{localhost: [{}]}}", "20{}"),
    "variables": ("environment: {{pass: [{}]}}", "NAME_{}"),
    "denied": ("filesystem: {{deny: [{}]}}", "$PROJECT/d{}"),
    "written": ("filesystem: {{write: [{}]}}", "/srv/d{}"),
}


def _calls(text: str) -> int:
    """Count the function calls of a comparison with an empty policy: the time, without its noise."""
    old, new = (
        Policy.from_layers([load.layer(each)]).resolve(FACTS)
        for each in ("extends: []", f"extends: []\n{text}")
    )
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = compare_policies(old, new, ["bwrap"])
    finally:
        sys.setprofile(None)
    assert found.asked > 50
    return calls


@pytest.mark.parametrize("kind", representative(LISTS, "hosts", "private", "localhost", "denied", "written"))
def test_a_comparison_is_linear(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_calls", lambda _policies: ())  # the same for all
    text, item = LISTS[kind]
    _calls(text.format(item.format(1)))  # computed once for all policies
    lists = [", ".join(item.format(number) for number in range(100, 100 + n)) for n in (6, 12, 24)]
    few, some, many = (_calls(text.format(each)) for each in lists)
    # Doubling the extra items doubles the extra cost; with a list that each question searches, it is 2.15.
    assert many - some <= 2.05 * (some - few), (few, some, many)
