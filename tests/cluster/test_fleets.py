"""Fleets with a stand-in for the API server: the requests, the counts, and the sources that are trusted.

Tests of builder/sandwright_kubernetes/fleets/records.py.
Tests of builder/sandwright_kubernetes/fleets/start.py.
Tests of builder/sandwright_kubernetes/fleets/tally.py.
Tests of builder/sandwright_kubernetes/fleets/watching.py.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from cluster.clusters import cluster_policy
from cluster.fakecluster import fake_cluster
from cluster.fakefleet import End, FakeFleet
from sandwright.cli import fleet as command
from sandwright.cli import fleet_drawing
from sandwright.errors import DocumentError, SandwrightError, UsageError
from sandwright.methods.fleets import Counts, FleetOrder, Outcome, RunAttempt
from sandwright.session import fleet_results
from sandwright.session.fleet import FleetSize as Size
from sandwright.session.fleet import FollowedFleet, fleet_named, resume
from sandwright.session.fleet_results import Results
from sandwright.session.fleet_rows import read_rows
from sandwright_kubernetes.backend import Kubernetes
from sandwright_kubernetes.fleets import fleet as following
from sandwright_kubernetes.fleets.tally import Tally, indexes, waiting_reasons
from sandwright_kubernetes.render import render_kubernetes
from support.goldens import write_artifacts

pytest.importorskip("kubernetes", reason="the Python package `kubernetes` is not installed")
ESC = "\x1b[2J\x1b]0;owned\x07"
FOREIGN = {"metadata": {"name": "fleet-night", "uid": "somebody-elses", "labels": {}}, "spec": {}}


class View:
    """Remembers the messages for the user."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ends: list[int] = []
        self.when: Callable[[], None] = lambda: None

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        assert isinstance(words, tuple)
        self.ends.append(outcome.index)
        self.when()

    def counted(self, counts: Counts) -> None:
        pass

    def noted(self, text: str) -> None:
        self.notes.append(text)


class Person:
    """A user with a kubeconfig and a rendered sandbox, in a separate directory."""

    def __init__(self, fake: FakeFleet, folder: Path) -> None:
        self.fake = fake
        self.folder = folder
        self.directory = write_artifacts(folder / "made", render_kubernetes(cluster_policy("extends: []\n")))
        self.file = folder / "results.jsonl"

    def start(
        self, *words: str, rows: tuple[tuple[str, ...], ...] = ((),), retries: int = 2
    ) -> FollowedFleet:
        order = FleetOrder("night", words or ("true",), rows, 2, retries)
        fleet = Kubernetes().start_fleet(self.directory, order)
        descriptor = fleet_results.open_new(str(self.file), "night")
        return FollowedFleet("night", fleet, Results("night", fleet.id, descriptor, {}), rows)

    def run(self, count: int, view: View | None = None) -> list[dict[str, Any]]:
        self.start(rows=((),) * count).follow(view or View())
        return self.lines()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def record(self) -> Path:
        return self.folder / ".cache/sandwright/sessions/clusters/fleets/night.json"


@contextmanager
def person(fake: FakeFleet, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    with fake_cluster(fake, folder) as kubeconfig:
        for name, value in {"HOME": str(folder), "XDG_CACHE_HOME": "", "KUBECONFIG": str(kubeconfig)}.items():
            monkeypatch.setenv(name, value)
        yield Person(fake, folder)


def test_from_start_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run succeeds, one fails by itself, and one is killed once and started again."""
    fake = FakeFleet(
        ends=(End(0, 0, output=b"said\n"), End(1, 7), End(2, 137), End(2, 0, failures=1)),
        completed="0,2",
        failed="1",
    )
    with person(fake, tmp_path, monkeypatch) as ada:
        followed = ada.start("sh", "-c", "echo $HOME", rows=((),) * 3)
        (job,) = fake.made
        spec = job["spec"]
        assert (spec["suspend"], spec["completionMode"], spec["completions"], spec["parallelism"]) == (
            *(True, "Indexed", 3, 2),
        )
        (_, ended) = spec["podFailurePolicy"]["rules"]
        assert (ended["action"], ended["onExitCodes"]["values"]) == ("FailIndex", [0, 128, 137, 143])
        assert (spec["backoffLimitPerIndex"], spec["podReplacementPolicy"]) == (2, "Failed")
        container = spec["template"]["spec"]["containers"][0]
        assert container["command"] == ["sh", "-c", "echo $$HOME"]
        assert job["metadata"]["namespace"].endswith("-fleet")
        assert ada.record().exists()
        view = View()
        assert followed.follow(view) == 1
        assert sorted(view.ends) == [0, 1, 2]
        counted = {each["index"]: each for each in ada.lines() if each["counts"]}
        assert {index: each["status"] for index, each in counted.items()} == {0: 0, 1: 7, 2: 0}
        assert (counted[0]["output"], counted[0]["seconds"]) == ("said\n", 3)
        assert (counted[2]["attempt"], counted[2]["attempts"]) == (2, 2)
        (other,) = [each for each in ada.lines() if not each["counts"]]
        assert (other["index"], other["attempt"], other["status"]) == (2, 1, 137)
        followed.fleet.remove()
        assert fake.deleted == ["fleet-night"]
        assert not ada.record().exists()


def test_what_is_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet has a separate namespace, with a quota of as many Pods as run at a time."""
    sent: list[Any] = []

    class Listening(FakeFleet):
        def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
            sent.append((method, path, body))
            return super().answer(method, path, query, body)

    with person(Listening(ends=(End(0),), completed="0"), tmp_path, monkeypatch) as ada:
        ada.run(1)
    assert not [path for _, path, _ in sent if "/namespaces/" in path and "-fleet" not in path]
    (quota,) = [body for method, path, body in sent if method == "PATCH" and "resourcequotas" in path]
    assert quota["spec"]["hard"]["pods"] == "2"


ODD = (
    ("a b", "", "$HOME", "'"),
    ("`id`", "$(id)", "\\", '"'),
    ("\x1b[31m", "é", "*", "# no"),
    ("line\nbreak", "-n"),
)


def test_odd_rows_come_through_a_shell_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeFleet(ends=tuple(End(index) for index in range(4)), completed="0-3")
    with person(fake, tmp_path, monkeypatch) as ada:
        ada.start("printf", "%s\\0", rows=ODD).follow(View())
    ((_, document),) = fake.maps.items()
    assert document["metadata"]["ownerReferences"][0]["uid"] == fake.uid
    for index, row in enumerate(ODD):
        ran = subprocess.run(
            ["sh", "-c", document["data"][str(index)]], capture_output=True, timeout=60, check=True
        )
        assert ran.stdout.decode().split("\0")[:-1] == list(row)
    (job,) = fake.made
    pod = job["spec"]["template"]["spec"]
    mount = pod["containers"][0]["volumeMounts"][-1]
    assert (mount["subPathExpr"], mount["readOnly"]) == ("$(JOB_COMPLETION_INDEX)", True)
    assert [each["row"] for each in sorted(ada.lines(), key=lambda each: each["index"])] == list(
        map(list, ODD)
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a 'b c' \"d e\" f\\ g", ("a", "b c", "d e", "f g")),
        ("a#b # c", ("a#b", "#", "c")),
        ('["a b", "\\u001b", "]"]', ("a b", "\x1b", "]")),
        ("'[' x", ("[", "x")),
        ("''", ("",)),
        ("a\tb\r", ("a", "b")),
        ("$(rm -rf /) `x` *", ("$(rm", "-rf", "/)", "`x`", "*")),
    ],
)
def test_rows_of_a_file(tmp_path: Path, line: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "rows"
    file.write_text(f"\n{line}\n\n", newline="")
    assert read_rows(str(file)) == (words,)


def test_rows_that_are_wrong(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text('fine\n\'open\n[1]\n["a\\u0000"]\n')
    with pytest.raises(DocumentError) as caught:
        read_rows(str(file))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4"]
    assert "is not closed" in lines[0]
    file.write_bytes(b"\xff\n")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_rows(str(file))
    with pytest.raises(UsageError, match="is no regular file"):
        read_rows("/dev/null")
    file.write_text("\n")
    with pytest.raises(UsageError, match="has no rows"):
        read_rows(str(file))


def test_rows_that_no_configmap_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeFleet()
    with (
        person(fake, tmp_path, monkeypatch) as ada,
        pytest.raises(UsageError, match="make several of them"),
    ):
        ada.start(rows=(("x" * 1000,),) * 1000)
    assert fake.asked == []


def test_somebody_elses_job_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign Job is neither used nor removed, and no object of ours remains."""
    fake = FakeFleet(jobs={"fleet-night": FOREIGN})
    with person(fake, tmp_path, monkeypatch) as ada:
        with pytest.raises(SandwrightError, match="it is not of this fleet: take another --name"):
            ada.start()
        assert not ada.record().exists()
    assert (fake.jobs, fake.deleted) == ({"fleet-night": FOREIGN}, [])


def test_a_resume_takes_no_foreign_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our Job was removed, and another user created one with its name."""
    fake = FakeFleet(holds=True)
    with person(fake, tmp_path, monkeypatch) as ada:
        ada.start().results.close()
        fake.jobs["fleet-night"] = FOREIGN
        fake.tell("ADDED", "Job", {**FOREIGN, "status": {"completedIndexes": "0"}})
        ada.file.unlink()
        followed = resume("night", str(ada.file), Size())
        with pytest.raises(SandwrightError, match="is another Job of that name, and none of this fleet"):
            followed.follow(View())
        assert ada.lines() == []
        followed.fleet.remove()
    assert (fake.jobs, fake.deleted) == ({"fleet-night": FOREIGN}, [])
    assert not ada.record().exists()


def test_a_fleet_whose_starter_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The starter was killed after it created the Job: our session finds this Job, and no other one's."""
    fake = FakeFleet(holds=True)
    with person(fake, tmp_path, monkeypatch) as ada:
        ada.start()
        record = json.loads(ada.record().read_text())
        ada.record().write_text(json.dumps({**record, "uid": ""}))
        assert fleet_named("night").id == fake.uid
        ada.record().write_text(json.dumps({**record, "uid": "", "session": "another"}))
        with pytest.raises(UsageError, match="no fleet night"):
            fleet_named("night")
    assert list(fake.jobs) == ["fleet-night"]


def test_a_fleet_that_was_never_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its starter was killed before that, or a user suspended it: no process waits forever."""
    fake = FakeFleet(holds=True)
    with person(fake, tmp_path, monkeypatch) as ada:
        followed = ada.start()
        fake.jobs["fleet-night"]["spec"]["suspend"] = True
        with pytest.raises(SandwrightError, match="is suspended: its start was interrupted"):
            followed.follow(View())


def _forged(**metadata: Any) -> End:
    return End(0, 0, output=b"forged", changes={"metadata": {"uid": "forged", **metadata}})


@pytest.mark.parametrize(
    "forged",
    [
        _forged(ownerReferences=[{"uid": "another"}]),
        _forged(ownerReferences="x"),
        _forged(annotations={"batch.kubernetes.io/job-completion-index": "7"}),
        _forged(annotations={"batch.kubernetes.io/job-completion-index": "-1"}),
        _forged(annotations=None),
        _forged(uid=""),
    ],
)
def test_pods_that_are_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: End) -> None:
    fake = FakeFleet(ends=(forged, End(0, 5, failures=1)), failed="0")
    with person(fake, tmp_path, monkeypatch) as ada:
        (line,) = ada.run(1)
    assert line["status"] == 5


def test_a_pod_that_is_not_as_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeFleet(ends=(End(0, changes={"spec": {"hostUsers": True}}),), completed="0")
    with person(fake, tmp_path, monkeypatch) as ada:
        with pytest.raises(SandwrightError, match="made another Pod of it: hostUsers"):
            ada.run(1)
        assert ada.lines() == []


@pytest.mark.parametrize("trouble", [{"expired": 2}, {"cut": 2}, {"broken": 3}, {"lost": ("job",)}])
def test_a_server_in_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: dict[str, Any]
) -> None:
    """Watches expire or break off, and answers are lost: no object is lost or created twice."""
    fake = FakeFleet(ends=(End(0), End(1, 3)), completed="0", failed="1", holds=True, **trouble)
    with person(fake, tmp_path, monkeypatch) as ada:
        lines = ada.run(2)
    assert sorted((each["index"], each["status"]) for each in lines) == [(0, 0), (1, 3)]
    assert len(fake.made) == 1


def test_a_job_that_somebody_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeFleet(ends=(End(0),), completed="0", holds=True)
    with person(fake, tmp_path, monkeypatch) as ada:
        view = View()
        view.when = lambda: fake.tell("DELETED", "Job", fake.jobs.pop("fleet-night"))
        with pytest.raises(SandwrightError, match="was deleted before it was over"):
            ada.run(2, view)
        assert [each["index"] for each in ada.lines()] == [0]


def test_pods_that_nobody_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Job counts the ended Pods; for a Pod that is gone, no status is invented."""
    fake = FakeFleet(ends=(End(1, 137), End(3, 137, failures=2)), completed="0", failed="1-3")
    with person(fake, tmp_path, monkeypatch) as ada:
        lines = {each["index"]: each for each in ada.run(4)}
    assert [lines[index]["status"] for index in range(4)] == [None, 137, None, 137]
    assert "its Pod was removed" in lines[0]["note"]
    assert "a later Pod of it may have been removed" in lines[1]["note"]
    assert lines[3]["attempts"] == 3
    assert "note" not in lines[3]


def test_a_fleet_goes_on_after_a_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known results are not requested again, and a line that a crash cut off is written again."""
    fake = FakeFleet(ends=(End(0), End(1, 9)), completed="0", failed="1")
    with person(fake, tmp_path, monkeypatch) as ada:

        def interrupt() -> None:
            raise KeyboardInterrupt

        view = View()
        view.when = interrupt
        with pytest.raises(KeyboardInterrupt):
            ada.run(2, view)
        (first,) = ada.lines()
        with ada.file.open("a") as file:
            file.write('{"fleet": "night", "id')
        fake.asked.clear()
        followed = resume("night", str(ada.file), Size())
        assert followed.follow(View()) == 1
        assert [each["index"] for each in ada.lines()] == [first["index"], 1 - first["index"]]
        assert fake.asked.count("GET log") == 1
        ada.file.write_text(ada.file.read_text().replace(fake.uid, "another"))
        with pytest.raises(UsageError, match="results of another fleet"):
            resume("night", str(ada.file), Size())
        link = tmp_path / "link"
        link.symlink_to(ada.file)
        with pytest.raises(UsageError, match="cannot open "):
            resume("night", str(link), Size())
        with pytest.raises(UsageError, match="you have started no fleet noon"):
            fleet_named("noon")
        with pytest.raises(SandwrightError, match="there is a fleet night of yours"):
            ada.start()


def test_hostile_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output reaches no terminal as a command, and each line of results stays one line."""
    output = f'{ESC}\u2028\u202e{{"counts": true}}\r\n'.encode()
    fake = FakeFleet(
        ends=(End(0, 1, output=output, reason=ESC), End(1, 0, output=b"\xff\x00")), completed="1", failed="0"
    )
    with person(fake, tmp_path, monkeypatch) as ada:
        lines = {each["index"]: each for each in ada.run(2)}
        raw = ada.file.read_bytes()
    assert lines[0]["output"] == output.decode()
    assert lines[1]["output_base64"] == "/wA="
    assert raw.count(b"\n") == 2
    assert all(32 <= each < 127 or each == 10 for each in raw)


def test_long_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "OUTPUT", 10)
    with person(FakeFleet(ends=(End(0, output=b"x" * 11),), completed="0"), tmp_path, monkeypatch) as ada:
        (line,) = ada.run(1)
    assert (line["output"], line["truncated"]) == ("x" * 10, True)


HOSTILE = Outcome(3, RunAttempt(3, ESC, 2, 1, f"{ESC}[link=x]", 4), 2, f"first\n[red]{ESC}\n\n".encode())


def test_the_table_shows_hostile_text_as_text() -> None:
    fleet: Any = type("Fleet", (), {"count": 5})()
    followed = FollowedFleet("night", fleet, Results("night", "id", 1, {3: 1}), ())
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=200, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        view = fleet_drawing._Drawn(live, followed)
        view.settled(HOSTILE, (f"{ESC}[bold]", "\u202e"))
        view.noted(f"waits{ESC}")
    shown = drawn.getvalue()
    for allowed in ("\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A", "\r"):
        shown = shown.replace(allowed, "")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "1 of 5 over, 1 failed" in shown
    assert "[red]\\x1b[2J" in shown


def test_lines_show_hostile_text_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    view = command._Lines()
    view.settled(HOSTILE, (f"{ESC}\nrow",))
    view.noted(f"two\nlines{ESC}")
    said = capfd.readouterr().err
    assert said.count("\n") == 2
    assert "\x1b" not in said
    assert "exit 1" in said
    assert "attempt 2" in said


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("0-2,5", {0, 1, 2, 5}),
        ("", set()),
        ("7-99999999", {7, 8, 9}),
        ("x,-1,1-,3-2,99999999999999999999", {1}),
        ("4--5,٣", set()),
    ],
)
def test_lists_of_indexes(said: str, found: set[int]) -> None:
    assert indexes(said, 10) == found


def test_what_counts_of_several_pods() -> None:
    """A Pod that ended by itself is the last; one that was killed or drained is followed by another."""
    tally = Tally(uid="u", count=4, retries=1)
    fake = FakeFleet(uid="u")
    job: dict[str, Any] = {"spec": {"template": {"spec": {}}}}
    drained = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    for end in (End(0, 3, changes={"status": drained}), End(1, 3), End(2, 143, failures=1), End(3, None)):
        tally.see_pod(fake.pod(end, job))
    assert [tally.over(index) for index in range(4)] == [None] * 4, "the Job has not said that they failed"
    tally.see_job({"status": {"failedIndexes": "0-3"}})
    over = [tally.over(index) is not None for index in range(4)]
    assert over == [False, True, True, False]
    tally.see_pod(fake.pod(End(0, 3, failures=1), job))
    known = tally.over(0)
    assert known is not None
    assert known.attempt.number == 2


def test_a_command_that_was_never_run_has_no_status() -> None:
    """A kubelet that is killed while it starts a container leaves StartError and 128; a Pod follows."""
    tally = Tally(uid="u", count=1, retries=1)
    job: dict[str, Any] = {"spec": {"template": {"spec": {}}}}
    pod = FakeFleet(uid="u").pod(End(0, 128), job)
    pod["status"]["containerStatuses"][0]["state"]["terminated"] |= {
        "reason": "StartError",
        "startedAt": "1970-01-01T00:00:00Z",
    }
    found = tally.see_pod(pod)
    assert found is not None
    assert (found.attempt.status, found.attempt.reason, found.attempt.seconds) == (None, "StartError", None)
    assert not found.final


def test_time_that_is_up_is_124() -> None:
    tally = Tally(uid="u", count=1, retries=0)
    pod = FakeFleet(uid="u").pod(End(0, 137, reason="DeadlineExceeded"), {"spec": {"template": {"spec": {}}}})
    found = tally.see_pod(pod)
    assert found is not None
    assert (found.attempt.status, found.attempt.reason) == (124, "DeadlineExceeded")


def test_statuses_of_any_shape() -> None:
    shapes: tuple[Any, ...] = (
        None,
        [],
        "x",
        {"status": "x"},
        {"status": {"conditions": {}, "ready": "many"}},
    )
    for hostile in shapes:
        tally = Tally(uid="u", count=1, retries=0)
        tally.see_job(hostile)
        assert tally.see_pod(hostile) is None
        assert tally.counts() == Counts(0, 0, 0)
        assert list(waiting_reasons([hostile] if isinstance(hostile, dict) else [])) == []


def test_why_nothing_runs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "IDLE", 0.0)
    fake = FakeFleet(holds=True)
    quota = {"message": "exceeded quota: \x1bsandbox"}

    class Waiting(FakeFleet):
        def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
            if path.endswith("/events"):
                return 200, {"items": [quota]}
            return super().answer(method, path, query, body)

    fake = Waiting(holds=True)
    with person(fake, tmp_path, monkeypatch) as ada:
        view = View()
        shown = view.noted

        def noted(text: str) -> None:
            shown(text)
            raise KeyboardInterrupt

        view.noted = noted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            ada.run(1, view)
    assert view.notes == ["no run goes on: exceeded quota: \x1bsandbox"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give --count, or --rows"),
        ({"count": "0"}, "give --count, or --rows"),
        ({"count": "3", "rows": "x"}, "give --count, or --rows"),
        ({"count": "-3"}, "--count is a number"),
        ({"count": "10001"}, "--count is between 1 and 10000"),
        ({"count": "1", "parallel": "0"}, "--parallel is between"),
        ({"count": "1", "retries": "101"}, "--retries is between"),
        ({"count": "1", "name": "../x"}, "is no name of a fleet"),
        ({"resume": True}, "give --name with --resume"),
        ({"remove": True, "resume": True, "name": "x"}, "give --name with"),
    ],
)
def test_usage(options: dict[str, Any], said: str) -> None:
    words = [] if "resume" in options or "remove" in options else ["true"]
    with pytest.raises(UsageError, match=said.replace("-", "[-]")):
        command.fleet(words=words, **options)


def test_a_method_without_fleets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    project = tmp_path / "p"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "sandbox.yaml").write_text("schema: 1\nmethod: noop\nreason: a test\nextends: []\n")
    with pytest.raises(UsageError, match="noop has no fleets; kubernetes has"):
        command.fleet(words=["true"], count="2", trust_policy=True)
    assert list(project.iterdir()) == [project / "sandbox.yaml"]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command as users call it: results, lines, exit status; and Ctrl-C, which ends no fleet."""
    fake = FakeFleet(ends=(End(0), End(1, 4)), completed="0", failed="1")
    with person(fake, tmp_path, monkeypatch):
        ran = _command(tmp_path, "--count", "2", "--name", "night", "--", "true")
        assert ran.wait(120) == 6, ran.stderr
        assert len((tmp_path / "p/fleet-night.jsonl").read_text().splitlines()) == 2
        assert fake.deleted == ["fleet-night"]
        fake.news.clear()
        fake.ends, fake.holds = (End(0, output=b"x"),), True
        fake.completed = fake.failed = ""
        with _command(tmp_path, "--count", "2", "--name", "noon", "--", "true") as running:
            assert running.stderr is not None
            for line in running.stderr:
                if "run 0: exit 0" in line:
                    break
            running.send_signal(signal.SIGINT)
            said = running.stderr.read()
            assert running.wait(120) == 130
    assert "fleet noon continues without this command" in said
    assert list(fake.jobs) == ["fleet-noon"]
    assert fake.deleted == ["fleet-night"]


def _command(home: Path, *words: str) -> subprocess.Popen[str]:
    import sys  # noqa: PLC0415

    project = home / "p"
    project.mkdir(exist_ok=True)
    (project / "sandbox.yaml").write_text("schema: 1\nmethod: kubernetes\nextends: []\n")
    code = "from sandwright.cli import main; main()"
    environment = {**os.environ, "SANDWRIGHT_TRUST": "1", "XDG_RUNTIME_DIR": str(home)}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, "fleet", "--trust-policy", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        env=environment,
    )
