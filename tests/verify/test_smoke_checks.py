"""The judgement of evidence: for each check, evidence that passes, and evidence that must fail."""

from __future__ import annotations

from typing import Any

import pytest

from sandwright.verify.smoke.checks import CHECKS, evaluate
from sandwright.verify.smoke.evidence import Evidence
from sandwright.verify.smoke.expected import GuestExpectation, ImageProgram, Outside
from sandwright.verify.verdict import ProbeFinding, Verdict
from sandwright.watchdog import Ended, How

P, F, U, S = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.SKIPPED

EXPECTED = GuestExpectation(
    platform="linux/amd64",
    uid=65532,
    gid=65532,
    outside=Outside("6.1.0", "mnt:[1]"),
    user="nonroot",
    environment={"LANG": "C.UTF-8"},
    programs=(ImageProgram("tool", ("tool", "--version"), prints="tool 1"),),
    authorities=True,
)

GOOD: dict[str, Any] = {
    "begin": "3.11.2 (main)",
    "surroundings": {
        "namespaces": {"mnt": "mnt:[2]", "pid": "pid:[2]", "net": "net:[2]"},
        "kernel": "6.1.0",
        "machine": "x86_64",
        "elf": 62,
        "pid": 1,
    },
    "identity": {"uid": [65532, 65532], "gid": [65532, 65532], "groups": [], "name": "nonroot"},
    "privileges": {"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1"},
    "root": {"/": "EROFS", "/etc": "EROFS", "/home/x": "EACCES"},
    "temporary": {"mode": "0o1777", "write": "done"},
    "network": {"interfaces": ["lo"], "loopback": "done", "listener": "ECONNREFUSED", "route": "ENETUNREACH"},
    "environment": {"variables": {"LANG": "C.UTF-8", "HOME": "/"}, "leaks": []},
    "programs": [{"status": 0, "stdout": "tool 1.2\n", "stderr": ""}],
    "tls": {
        "library": "OpenSSL 3",
        "authorities": {"file": 140, "directory": 0},
        "trusted": "done",
        "untrusted": "refused 20",
        "misnamed": "refused 62",
    },
    "end": 42,
}

NAMES = [
    "starts",
    "exit status",
    "inside",
    "architecture",
    "identity",
    "privileges",
    "read-only root",
    "tmp",
    "no network",
    "environment",
    "certificates",
    "program: tool",
]


def _evaluate(
    changes: dict[str, Any] | None = None,
    ended: Ended | None = None,
    expected: GuestExpectation = EXPECTED,
    **more: Any,
) -> dict[str, ProbeFinding]:
    attempts = {**GOOD}
    for name, value in (changes or {}).items():
        if value is None:
            del attempts[name]
        else:
            attempts[name] = {**attempts[name], **value} if isinstance(value, dict) else value
    evidence = Evidence(ended or Ended("exited", 42, b"", "", 0.5), attempts)
    return {finding.check: finding for finding in evaluate(evidence, expected, **more)}


def test_a_good_start_passes_every_check() -> None:
    findings = _evaluate()
    assert list(findings) == NAMES
    assert {name: finding.verdict for name, finding in findings.items()} == dict.fromkeys(NAMES, P)


@pytest.mark.parametrize(
    ("check", "changes", "verdict", "detail"),
    [
        ("inside", {"surroundings": {"kernel": "4.4", "namespaces": {"mnt": "ENOENT"}}}, P, "another kernel"),
        ("inside", {"surroundings": {"namespaces": {"mnt": "mnt:[1]"}}}, F, "in the host's mount namespace"),
        ("inside", {"surroundings": {"namespaces": {"mnt": "EACCES"}}}, U, "no namespace to be seen"),
        ("architecture", {"surroundings": {"machine": "aarch64"}}, F, "machine aarch64, ELF machine 62"),
        ("architecture", {"surroundings": {"elf": 183}}, F, "machine x86_64, ELF machine 183"),
        ("identity", {"identity": {"uid": [0, 0]}}, F, "runs as 0:65532, not 65532:65532"),
        ("identity", {"identity": {"gid": [0, 0]}}, F, "runs as 65532:0, not 65532:65532"),
        ("identity", {"identity": {"uid": [65532, 0]}}, F, "runs as"),
        ("identity", {"identity": {"groups": [0]}}, F, "supplementary groups [0], not []"),
        ("identity", {"identity": {"groups": [65532, 65534]}}, P, "65532:65532 nonroot"),
        ("identity", {"identity": {"name": "other"}}, F, "user 65532 is called 'other', not 'nonroot'"),
        ("privileges", {"privileges": {"CapEff": "0000000000000400"}}, F, "holds capabilities: 0x400"),
        ("privileges", {"privileges": {"CapPrm": "0000000000000001"}}, F, "it holds capabilities: 0x1"),
        ("privileges", {"privileges": {"NoNewPrivs": "0"}}, F, "no_new_privs is not set"),
        ("read-only root", {"root": {"/": "done"}}, F, "a file could be made in /"),
        ("read-only root", {"root": {"/": "EACCES", "/etc": "EPERM"}}, U, "not for being read-only"),
        ("read-only root", {"temporary": {"write": "EROFS"}}, U, "nothing can be written to /tmp either"),
        ("tmp", {"temporary": {"write": "EROFS"}}, F, "writing a file in /tmp gave EROFS"),
        ("tmp", {"temporary": {"mode": "0o755"}}, F, "the mode of /tmp is 0o755, not 0o1777"),
        ("no network", {"network": {"interfaces": ["eth0", "lo"]}}, F, "network interfaces: eth0"),
        ("no network", {"network": {"interfaces": ["lo", "tunl0"]}}, P, "only its own loopback"),
        ("no network", {"network": {"listener": "done"}}, F, "it has a way to the host's loopback"),
        ("no network", {"network": {"route": "done"}}, F, "it has a way to the world"),
        ("no network", {"network": {"route": "EHOSTUNREACH"}}, P, "only its own loopback"),
        ("no network", {"network": {"route": "EPERM"}}, U, "denied in an unexpected way"),
        ("no network", {"network": {"listener": "ETIMEDOUT"}}, U, "denied in an unexpected way"),
        ("no network", {"network": {"loopback": "EACCES"}}, U, "own loopback doesn't work either: EACCES"),
        ("environment", {"environment": {"variables": {}}}, F, "LANG is None"),
        ("environment", {"environment": {"variables": {"LANG": "de"}}}, F, "LANG is 'de'"),
        ("environment", {"environment": {"leaks": ["/proc/1/environ"]}}, F, "can be read in /proc/1/environ"),
        ("certificates", {"tls": {"trusted": "refused 10"}}, F, "a good certificate was not accepted"),
        ("certificates", {"tls": {"untrusted": "done"}}, F, "was accepted that is untrusted"),
        ("certificates", {"tls": {"misnamed": "done"}}, F, "was accepted that is misnamed"),
        ("certificates", {"tls": {"untrusted": "refused 10"}}, U, "not accepted, but for 'refused 10'"),
        ("certificates", {"tls": {"authorities": {"file": 0, "directory": 3}}}, F, "only 3 authorities"),
        ("certificates", {"tls": {"authorities": {"file": 0, "directory": 140}}}, P, "140 authorities"),
        ("certificates", {"tls": {"broken": "ImportError: no ssl"}}, F, "ImportError: no ssl"),
        ("program: tool", {"programs": [{"error": "ENOENT"}]}, F, "tool is not there"),
        ("program: tool", {"programs": [{"error": "did not end within 5 s"}]}, F, "tool did not end"),
        ("program: tool", {"programs": [{"status": 1, "stderr": "no"}]}, F, "exit status 1, not 0: no"),
        ("program: tool", {"programs": [{"status": 0, "stdout": "2"}]}, F, "does not hold 'tool 1'"),
        ("program: tool", {"programs": []}, F, "was not run"),
        ("program: tool", {"programs": None}, F, "was not run"),
        ("program: tool", {"programs": [7]}, F, "cannot read the output"),
    ],
)  # fmt: skip
def test_each_weakness_is_seen(check: str, changes: dict[str, Any], verdict: Verdict, detail: str) -> None:
    found = _evaluate(changes)[check]
    assert (found.verdict, detail in found.detail) == (verdict, True), found


def test_an_unknown_kernel_may_not_show_no_new_privs() -> None:
    privileges = {"CapEff": "0", "CapPrm": "0"}
    found = {
        f.check: f
        for f in evaluate(
            Evidence(Ended("exited", 42, b"", "", 0.1), {**GOOD, "privileges": privileges}), EXPECTED
        )
    }
    assert found["privileges"] == ProbeFinding(
        "privileges", P, "no capabilities; this kernel doesn't show no_new_privs"
    )


def test_a_canary_that_was_reached_outweighs_what_the_image_says() -> None:
    found = _evaluate(canary_reached=True)["no network"]
    assert found == ProbeFinding("no network", F, "a listener on the host was reached")


@pytest.mark.parametrize(
    ("ended", "unsaid", "detail"),
    [
        pytest.param(("exited", 0), [], "it ended with 42, and the runtime gave 0", id="swallowed"),
        pytest.param(("exited", 1), ["end"], "ended too early: exit status 1: boom", id="crashed"),
        pytest.param(("timeout", None), ["end", "tls"], "did not end within 9 s: boom", id="hung"),
        pytest.param(("timeout", None), ["end", "tls"], "its last output is 'programs'", id="hung-in-tls"),
        pytest.param(("stopped", None), ["end"], "called off", id="called-off"),
    ],
)
def test_exit_status(ended: tuple[How, int | None], unsaid: list[str], detail: str) -> None:
    end = Ended(*ended, b"", "boom", 9)
    found = _evaluate(dict.fromkeys(unsaid), end)["exit status"]
    assert (found.verdict, detail in found.detail) == (F, True), found


def test_what_did_not_start_is_failed_once_and_skipped_otherwise() -> None:
    evidence = Evidence(Ended("exited", 1, b"", "exec format error", 0.1), {})
    findings = evaluate(evidence, EXPECTED)
    assert findings[0] == ProbeFinding("starts", F, "exit status 1: exec format error")
    assert [f.check for f in findings] == NAMES
    assert {f.verdict for f in findings[1:]} == {S}


def test_an_attempt_that_could_not_be_made_decides_nothing() -> None:
    assert _evaluate({"network": {"broken": "ImportError: no socket"}})["no network"].verdict is U


def test_what_can_not_be_read_is_a_failure() -> None:
    found = _evaluate({"identity": {"uid": 7}})["identity"]
    assert found.verdict is F


@pytest.mark.parametrize("name", [name for name in GOOD if name not in {"begin", "end"}])
@pytest.mark.parametrize(
    "value", [{}, {"x": "y"}, 7, [], "text"], ids=["empty", "other", "number", "list", "text"]
)
def test_no_check_passes_on_nonsense(name: str, value: Any) -> None:
    attempts = {**GOOD, name: value}
    findings = evaluate(Evidence(Ended("exited", 42, b"", "", 0.5), attempts), EXPECTED)
    assert {f.verdict for f in findings} & {F, U}


def test_a_writable_root_that_is_wanted_is_skipped() -> None:
    expected = GuestExpectation(**{**vars(EXPECTED), "read_only": False})
    assert _evaluate(expected=expected)["read-only root"].verdict is S


def test_few_authorities_matter_only_where_many_are_expected() -> None:
    expected = GuestExpectation(**{**vars(EXPECTED), "authorities": False})
    assert (
        _evaluate({"tls": {"authorities": {"file": 0, "directory": 0}}}, expected=expected)[
            "certificates"
        ].verdict
        is P
    )


@pytest.mark.parametrize(
    ("groups", "may_lack", "verdict"),
    [
        pytest.param([7, 8], False, P, id="all"),
        pytest.param([7], False, F, id="one-lacks"),
        pytest.param([7], True, P, id="one-may-lack"),
        pytest.param([], True, P, id="all-may-lack"),
        pytest.param([7, 9], True, F, id="another-one"),
        pytest.param([7, 8, 9], True, F, id="one-more"),
    ],
)
def test_supplementary_groups(groups: list[int], may_lack: bool, verdict: Verdict) -> None:
    expected = GuestExpectation(
        **{**vars(EXPECTED), "groups": frozenset({7, 8}), "groups_may_lack": may_lack}
    )
    found = _evaluate({"identity": {"groups": groups}}, expected=expected)["identity"]
    assert found.verdict is verdict, found


def test_every_check_has_a_question() -> None:
    assert all(check.question.endswith("?") for check in CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
