"""Questions to a running sandbox, and the verdict if it doesn't answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.bridging import _talking
from sandwright.verify.outcome import judge
from sandwright.verify.probe import Family, Probe
from sandwright.verify.report import PolicyReport
from sandwright.verify.sandbox import RenderedSandbox
from sandwright.verify.subject import step

ASKED = [attempt("echo", "alive"), attempt("echo", "still")]


def _sandbox(tmp_path: Path, script: str) -> RenderedSandbox:
    launch = tmp_path / "launch"
    launch.write_text(f"#!/bin/sh\n{script}\n")
    launch.chmod(0o755)
    return RenderedSandbox("it", launch, Path("/bin/true"), {"PATH": "/usr/bin:/bin"})


ENDS = [
    pytest.param("echo why not >&2; exit 125", "the launcher ended with 125: why not", id="refused"),
    pytest.param("exec >&-; sleep 0.3; exit 3", "the launcher ended with 3", id="ends after its output"),
    pytest.param("kill -9 $$", "the launcher was ended by signal 9", id="killed"),
    pytest.param("exec sleep 3", "not within 1 s", id="silent"),
]


@pytest.mark.parametrize(("script", "why"), ENDS)
def test_why_there_is_no_answer(tmp_path: Path, script: str, why: str) -> None:
    sandbox = _sandbox(tmp_path, script)
    with _talking(sandbox) as talk:
        found = talk.ask(ASKED, limit=1.0)
    batch = sandbox.attempt(ASKED, limit=1.0)
    for each in (*found, *batch.answers):
        assert (each.kind, each.detail) == ("none", why)


def test_what_was_answered_stays(tmp_path: Path) -> None:
    """Each other attempt only gets the reason for the missing answer."""
    with _talking(
        _sandbox(tmp_path, 'read word rest; echo "$word 0 ok 61"; echo cut off >&2; exit 1')
    ) as talk:
        first, second = talk.ask(ASKED)
    assert (first.kind, first.value) == ("ok", b"a")
    assert (second.kind, second.detail) == ("none", "the launcher ended with 1: cut off")


def test_evidence_and_summary_say_why(tmp_path: Path) -> None:
    """The reason is given once, however many attempts had no answer."""
    probe = Probe("x/y", Family.FILES, "about", (step("works", "echo", "a"),), (step("works", "echo", "b"),))
    batch = _sandbox(tmp_path, "echo why not >&2; exit 125").attempt([each.attempt for each in probe.asked])
    outcome = judge(probe, "bwrap", batch.answers)
    assert outcome.evidence.count("no answer: the launcher ended with 125: why not") == 1
    (fault,) = PolicyReport("p", ("bwrap",), (outcome,), (), "", 0.0, "").faults()
    assert fault.endswith("; no answer: the launcher ended with 125: why not")
