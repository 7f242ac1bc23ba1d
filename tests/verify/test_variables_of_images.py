"""Variables that an image sets belong to the image: they prove nothing about the host's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import pytest

from sandwright import HostFacts, Policy
from sandwright.policy.facts import HostEntry
from sandwright.runtime.probe.protocol import ProbeAnswer
from sandwright.verify.catalogue import environment
from sandwright.verify.expected import expected
from sandwright.verify.fixture import Fixture
from sandwright.verify.listeners import CanaryListeners
from sandwright.verify.outcome import _compare_answer
from sandwright.verify.probe import ProbeStep
from sandwright.verify.subject import Canaries, ProofSubject
from sandwright.verify.verdict import Verdict

HOST, OTHER = "word-of-the-host", "/nonexistent/1"
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries=dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory")),
)


def _steps() -> dict[str, ProbeStep]:
    policy = Policy.from_text("method: kubernetes\nenvironment: {pass: [LANG]}\n").resolve(FACTS)
    fixture = Fixture(Path("/tmp/fixture"), "word", "plain", Path("/tmp/hidden"), Path("/tmp/runtime"))
    subject = ProofSubject(
        "kubernetes",
        policy,
        fixture,
        cast("CanaryListeners", None),
        Canaries({}, {"LANG": HOST, "GITHUB_TOKEN": OTHER}),
        host_process=1,
    )
    withheld = next(iter(environment.probes(dataclasses.replace(subject, word="w"))))
    return {each.attempt.arguments[0].decode(): each for each in withheld.steps[:2]}


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("LANG", b"C.UTF-8", Verdict.PASS),
        ("LANG", HOST.encode(), Verdict.FAIL),
        ("GITHUB_TOKEN", b"of the image", Verdict.FAIL),
    ],
)
def test_an_images_own_value_is_no_leak(name: str, value: bytes, verdict: Verdict) -> None:
    step = _steps()[name]
    answers = expected(step.claim, "kubernetes").answers
    assert _compare_answer(step, answers, ProbeAnswer("ok", value=value))[0] is verdict
