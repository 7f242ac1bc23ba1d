"""Any sandbox command can be proved, and false answers of one are detected.

Tests of verify/foreign/answers.py.
Tests of verify/foreign/prove.py.
Tests of verify/foreign/stage.py.
Tests of verify/foreign/subject.py.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed, DocumentError, ToolMissing, UsageError
from sandwright.verify.foreign import claims as promises_module
from sandwright.verify.foreign.claims import expand_template, read_promises, shipped_subjects
from sandwright.verify.foreign.command import verify_subject
from sandwright.verify.foreign.host_control import without_hosts_own
from sandwright.verify.foreign.sandbox import MARK, SubjectSandbox
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family, Probe
from sandwright.verify.report import PolicyReport
from sandwright.verify.subject import step
from sandwright.verify.verdict import Verdict

PLAIN = "schema: 1\nname: it\nabout: a test's\npolicy: {network: {mode: none}}\n"


def verdicts(report: PolicyReport) -> dict[str, Verdict]:
    return {each.probe: each.verdict for each in report.outcomes}


def script(tmp_path: Path, text: str) -> str:
    """A command of ours that accepts another one's words."""
    path = tmp_path / "subject.py"
    path.write_text(f"import os, subprocess, sys\n{text}\n")
    return f"{sys.executable} -u {path}"


@pytest.mark.needs("bwrap")
def test_bubblewrap_by_hand_keeps_what_it_promises_but_for_what_was_seen_of_it_by_hand() -> None:
    report = verify_subject("", "bubblewrap")
    found = verdicts(report)
    red = {name for name, each in found.items() if each in (Verdict.FAIL, Verdict.INCONCLUSIVE)}
    seen = {"links/move-parent", "links/exchange"}  # a mount moves with a directory above it
    seen |= {"links/move-file"}  # nothing protects a file where a denied name needs a directory
    seen |= {"processes/kernel-settings"} if os.geteuid() == 0 else set()  # /proc/sys is root's
    assert red == seen
    assert found["lifecycle/starts"] is Verdict.PASS
    assert found["syscalls/keyctl"] is Verdict.NOT_PROMISED
    # Some probes need root, for example for a process of another user.
    assert sum(each is Verdict.PASS for each in found.values()) > (35 if os.geteuid() == 0 else 30)
    assert [each for each in report.faults(named=report.methods) if "not-promised" in each] == []


@pytest.mark.needs("bwrap")
def test_what_is_taken_from_the_command_turns_red() -> None:
    command = "bwrap --unshare-user --unshare-pid --die-with-parent --ro-bind / / --dev /dev --proc /proc"
    found = verdicts(verify_subject(f"{command} --bind {{write}} {{write}} --"))
    assert found["files/write"] is Verdict.PASS
    assert found["files/read-only"] is Verdict.PASS
    assert found["network/host-loopback"] is Verdict.FAIL
    assert found["network/interfaces"] is Verdict.FAIL


LIES = {
    "runs nothing": "sys.exit(0)",
    "prints what another run printed": (
        "for at in range(900):\n    print('b6a0', at, 'errno', 'EROFS')\nsys.stdin.read()"
    ),
    "writes without end": "while True:\n    sys.stdout.write('x' * 65536)",
    "reads the word, and says that all is denied": (
        "for line in sys.stdin:\n    word, at = line.split()[:2]\n    print(word, at, 'errno', 'EACCES')"
    ),
    "reads the word, and says that all went well": (
        "for line in sys.stdin:\n    word, at = line.split()[:2]\n    print(word, at, 'ok', '-')"
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_command_that_runs_no_probe_proves_nothing(lie: str, tmp_path: Path) -> None:
    report = verify_subject(script(tmp_path, lie))
    denials = [each for each in report.outcomes if each.probe.startswith(("files/denied", "links/dots"))]
    assert denials
    assert not any(each.verdict is Verdict.PASS for each in denials)
    assert report.faults(named=report.methods)


def test_a_command_that_runs_the_probe_outside_is_found_out(tmp_path: Path) -> None:
    name = Path("/proc/sys/kernel/hostname").read_text()
    report = verify_subject(script(tmp_path, "os.execv(sys.argv[1], sys.argv[1:])"))
    found = verdicts(report)
    for probe in ("files/read-only", "processes/inside", "network/host-loopback"):
        assert found[probe] is Verdict.FAIL
    if os.geteuid() == 0:  # attempts that would change this host were not made
        assert found["processes/host-name"] is Verdict.SKIPPED
        assert found["processes/mount"] is Verdict.SKIPPED
    assert Path("/proc/sys/kernel/hostname").read_text() == name
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    assert [each for each in places if "/sandwright-smoke-" in each and "/write" in each] == []


def sandbox(tmp_path: Path, text: str) -> SubjectSandbox:
    word = uuid.uuid4().hex
    prefix = tuple(script(tmp_path, text).split())
    return SubjectSandbox(
        "it", tmp_path, Path("/bin/true"), {**os.environ, MARK: word}, prefix=prefix, root=tmp_path, word=word
    )


def test_a_command_that_hangs_is_ended_with_what_it_left_in_a_session_of_its_own(tmp_path: Path) -> None:
    left = "subprocess.Popen(['sleep', '4711'], start_new_session=True, cwd='/')"
    subject = sandbox(tmp_path, f"{left}\nimport time\ntime.sleep(4711)")
    with pytest.raises(CommandFailed):
        subject.run((), limit=3)
    assert list(subject.processes()) == []


def test_what_is_started_while_the_rest_is_ended_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first, a stand-in for the listing shows one of two, as if the other were started meanwhile."""
    subject = sandbox(tmp_path, "")
    listed = SubjectSandbox.processes
    started = [process.start("sleep", "4711", env=subject.environment, cwd="/") for _ in range(2)]
    with started[0] as first, started[1] as second:
        seen = iter([[first.pid]])
        monkeypatch.setattr(SubjectSandbox, "processes", lambda own: iter(next(seen, None) or listed(own)))
        subject.end_all()
        assert [each.wait(timeout=10) for each in (first, second)] == [-9, -9]


def test_a_command_that_ends_and_leaves_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    subject = sandbox(tmp_path, "subprocess.Popen(['sleep', '4711'], start_new_session=True)")
    assert subject.run((), limit=60).status == 0
    assert list(subject.processes()) == []


def test_what_is_written_to_a_command_that_reads_nothing_is_no_error(tmp_path: Path) -> None:
    assert sandbox(tmp_path, "sys.exit(7)").run((), stdin=b"x" * (1 << 20), limit=60).status == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not_promised: {process.secomp: why}\n", "neither a feature of policies nor the name of a probe"),
        ("not_promised: {process.seccomp: ' '}\n", "needs a reason"),
        ("files: {../x: y}\n", "is no plain file name"),
        ("promise: all\n", "no such key"),
        ("at: relative\n", "must be an absolute path"),
        ("at: /\n", "at which nothing is yet"),
        ("not_promised: {files/nothing: why}\n", "no probe of this run is called 'files/nothing'"),
        ("command: ['{what}', '{write}']\n", "there is no {what} here"),
        ("command: [{for: everything, words: []}]\n", "a list is repeated by `for`"),
        ("", "it has no command"),
        ("command: [sandwright-none]\n", "sandwright-none"),
    ],
)
def test_faulty_promises(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "promises.yaml"
    file.write_text(PLAIN + text)
    subject = "true" if "nothing" in text or "at:" in text else ""
    with pytest.raises((UsageError, DocumentError, ToolMissing), match=message.replace("{", r"\{")):
        verify_subject(subject, str(file))


def test_promises_that_there_are_not() -> None:
    with pytest.raises(UsageError, match="shipped are those of bubblewrap, codex, docker"):
        read_promises("/nonexistent/promises.yaml")


@pytest.mark.parametrize("name", shipped_subjects())
def test_promises_that_ship_are_whole_and_have_a_name_of_their_own(name: str) -> None:
    found = read_promises(name)
    assert found.name == ("subject" if name == promises_module.GENERIC else name)
    assert found.command or name == promises_module.GENERIC


def test_lists_are_repeated_for_each_path() -> None:
    given = ["x", {"for": "denied", "words": ["--hide={path}", "{read}"]}, {"for": "none", "words": ["y"]}]
    groups = {"denied": ["/a b", "/{read}"], "none": []}
    assert expand_template(given, {"read": "/r"}, groups) == [
        "x",
        "--hide=/a b",
        "/r",
        "--hide=/{read}",
        "/r",
    ]
    assert expand_template({"deny": given[1:2]}, {"read": "/r"}, groups)["deny"][0] == "--hide=/a b"


def outcome(probe: str, verdict: Verdict, observed: str = "EACCES") -> ProbeOutcome:
    return ProbeOutcome(probe, "it", Family.FILES, verdict, "EACCES", observed, "")


def test_a_denial_that_the_host_makes_by_itself_is_not_the_sandboxs() -> None:
    denial = Probe("files/root", Family.FILES, "", (step("readonly.write", "create", "/x"),))
    grant = Probe("files/read", Family.FILES, "", (step("works", "read", "/x"),))
    inside = [outcome("files/root", Verdict.PASS), outcome("files/read", Verdict.PASS, "ok")]
    same = {each.probe: each for each in inside}
    assert [each.verdict for each in without_hosts_own(inside, [denial, grant], same)] == [
        Verdict.SKIPPED,
        Verdict.PASS,
    ]
    other = {"files/root": outcome("files/root", Verdict.FAIL, "ok")}
    assert [each.verdict for each in without_hosts_own(inside, [denial, grant], other)] == [Verdict.PASS] * 2
