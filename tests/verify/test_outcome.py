"""A denial is never proved by accident: a breach fails, and without a control it is inconclusive.

Tests of methods/<name>/expected.py: an answer that differs has a reason.
Tests of verify/expected.py.
Tests of verify/outcome.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.runtime.probe.protocol import NO_ANSWER, ProbeAnswer, attempt
from sandwright.verify.catalogue.processes import kernel_memory
from sandwright.verify.expected import claims, expected
from sandwright.verify.outcome import judge
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.verdict import Verdict

OK, EROFS, EACCES = ProbeAnswer("ok"), ProbeAnswer("errno", "EROFS"), ProbeAnswer("errno", "EACCES")
DENIED = ProbeStep(attempt("create", "/x"), "readonly.write")
CONTROL = ProbeStep(attempt("create", "/y"), "works")


def _probe(*steps: ProbeStep, controls: tuple[ProbeStep, ...] = (), **more: object) -> Probe:
    return Probe("files/x", Family.FILES, "about", steps, controls, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        pytest.param((OK, EROFS), Verdict.PASS, id="denied as expected, and the control works"),
        pytest.param((OK, OK), Verdict.FAIL, id="not denied"),
        pytest.param((OK, EACCES), Verdict.INCONCLUSIVE, id="denied for another reason"),
        pytest.param((OK, ProbeAnswer("signal", "9")), Verdict.INCONCLUSIVE, id="killed"),
        pytest.param((OK, NO_ANSWER), Verdict.INCONCLUSIVE, id="no answer"),
        pytest.param((EROFS, EROFS), Verdict.INCONCLUSIVE, id="the control is denied too"),
        pytest.param((NO_ANSWER, EROFS), Verdict.INCONCLUSIVE, id="the control has no answer"),
        pytest.param((EROFS, OK), Verdict.FAIL, id="a breach, whatever the control says"),
    ],
)
def test_a_denial_and_its_control(answers: tuple[ProbeAnswer, ...], verdict: Verdict) -> None:
    assert judge(_probe(DENIED, controls=(CONTROL,)), "bwrap", answers).verdict is verdict


def test_a_denial_without_a_control_proves_nothing() -> None:
    outcome = judge(_probe(DENIED), "bwrap", (EROFS,))
    assert (outcome.verdict, "there is no control" in outcome.evidence) == (Verdict.INCONCLUSIVE, True)
    assert judge(_probe(DENIED, CONTROL), "bwrap", (EROFS, OK)).verdict is Verdict.PASS
    assert judge(_probe(DENIED), "bwrap", (OK,)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        pytest.param(EACCES, Verdict.PASS, id="a device that can't be opened covers it"),
        pytest.param(OK, Verdict.PASS, id="an empty file covers it"),
        pytest.param(ProbeAnswer("ok", value=b"\x7fELF"), Verdict.FAIL, id="it can be read"),
    ],
)
def test_kernel_memory(answer: ProbeAnswer, verdict: Verdict) -> None:
    """The host has /proc/kcore, unlike many containers."""
    answers = (OK, answer, ProbeAnswer("errno", "ENOENT"))
    assert judge(kernel_memory(has_core=True), "bwrap", answers).verdict is verdict


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        pytest.param(OK, Verdict.PASS, id="works"),
        pytest.param(EROFS, Verdict.FAIL, id="what is allowed is denied"),
        pytest.param(ProbeAnswer("late", "0"), Verdict.INCONCLUSIVE, id="it hangs"),
        pytest.param(ProbeAnswer("unknown"), Verdict.INCONCLUSIVE, id="it can't be tried"),
    ],
)
def test_a_grant(answer: ProbeAnswer, verdict: Verdict) -> None:
    assert judge(_probe(CONTROL), "bwrap", (answer,)).verdict is verdict


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        pytest.param(ProbeStep(attempt("read"), "works", value=b"all"), Verdict.PASS, id="the value"),
        pytest.param(ProbeStep(attempt("read"), "works", value=b"al"), Verdict.FAIL, id="another value"),
        pytest.param(ProbeStep(attempt("read"), "works", holds=b"l"), Verdict.PASS, id="holds"),
        pytest.param(ProbeStep(attempt("read"), "works", holds=b"x"), Verdict.FAIL, id="does not hold"),
        pytest.param(ProbeStep(attempt("read"), "works", lacks=(b"x",)), Verdict.PASS, id="lacks"),
        pytest.param(
            ProbeStep(attempt("read"), "works", lacks=(b"x", b"a")), Verdict.FAIL, id="does not lack"
        ),
    ],
)
def test_values(step: ProbeStep, verdict: Verdict) -> None:
    assert judge(_probe(step), "bwrap", (ProbeAnswer("ok", value=b"all"),)).verdict is verdict


def test_the_kernel_s_own_answer_is_a_breach() -> None:
    step = ProbeStep(attempt("syscall", 321), "filtered", breach=("E2BIG",))
    probe = _probe(step, controls=(CONTROL,))
    assert judge(probe, "bwrap", (OK, ProbeAnswer("errno", "EPERM"))).verdict is Verdict.PASS
    assert judge(probe, "bwrap", (OK, ProbeAnswer("errno", "E2BIG"))).verdict is Verdict.FAIL
    assert judge(probe, "bwrap", (OK, ProbeAnswer("errno", "EINVAL"))).verdict is Verdict.INCONCLUSIVE


def test_what_was_made_on_the_host_fails_and_is_removed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.touch()
    outcome = judge(_probe(DENIED, controls=(CONTROL,), never=(made,)), "bwrap", (OK, EROFS))
    assert outcome.verdict is Verdict.FAIL
    assert "was made" in outcome.evidence
    assert not made.exists()


def test_the_host_s_word_counts() -> None:
    outcome = judge(_probe(CONTROL, check=lambda: "a listener was reached"), "bwrap", (OK,))
    assert (outcome.verdict, outcome.evidence.splitlines()[-1]) == (
        Verdict.FAIL,
        "on the host: a listener was reached",
    )


def test_private_values_are_not_told() -> None:
    step = ProbeStep(attempt("environment"), "works", lacks=(b"secret",), private=True)
    outcome = judge(_probe(step), "bwrap", (ProbeAnswer("ok", value=b"TOKEN=secret"),))
    assert outcome.verdict is Verdict.FAIL
    assert "secret" not in str(outcome.to_json())


def test_a_skip_says_why() -> None:
    outcome = judge(_probe(DENIED, skip="there is none here"), "bwrap", ())
    assert (outcome.verdict, outcome.evidence) == (Verdict.SKIPPED, "there is none here")


@pytest.mark.parametrize(
    ("claim", "method", "answers"),
    [
        ("readonly.write", "bwrap", ("EROFS",)),
        ("readonly.write", "docker", ("EROFS",)),
        ("readonly.write", "seatbelt", ("EPERM",)),
        ("readonly.move", "oci", ("EBUSY",)),
        ("hidden.entry", "podman", ("ENOENT",)),
        ("hidden.file", "bwrap", ("EACCES",)),
        ("link.across", "gvisor", ("EXDEV",)),
        ("filtered", "gvisor", ("EPERM",)),
        ("filtered.nosys", "bwrap", ("ENOSYS",)),
        ("foreign-abi", "oci", ("SIGSYS",)),
        ("unix.unlisted", "bwrap", ("ECONNREFUSED",)),
        ("net.outside", "bwrap", ("ENETUNREACH",)),
        ("limit.pids", "oci", ("EAGAIN",)),
    ],
)
def test_what_is_expected(claim: str, method: str, answers: tuple[str, ...]) -> None:
    assert expected(claim, method).answers == answers


@pytest.mark.parametrize("claim", list(claims()))
def test_where_a_method_s_answer_is_another_a_reason_is_given(claim: str) -> None:
    common = expected(claim, "noop")  # it has no answers of its own
    assert common.answers
    for method in ("bwrap", "oci", "gvisor", "docker", "podman", "seatbelt"):
        one = expected(claim, method)
        assert one.answers == common.answers or len(one.reason) > 10, method
