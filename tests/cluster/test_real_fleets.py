"""Fleets on a real cluster: the results of its Job controller while parts of the cluster are killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from typing import IO, Any

import pytest

from cluster.person import LIMIT, SANDWRIGHT, Person
from cluster.test_real_cluster import PLAIN, claim, person, running
from support.thorough import THOROUGH
from support.waiting import until

__all__ = ["person", "running"]
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl"),
]
INDEX = "JOB_COMPLETION_INDEX"


def fleet(person: Person, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SANDWRIGHT, "fleet", "--name", "night", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=person.project,
        env=person.environ,
    )


def results(person: Person) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (person.project / "fleet-night.jsonl").read_text().splitlines()]


def left(person: Person) -> list[str]:
    words = ("get", "jobs,pods,configmaps", "--namespace", f"{person.name()}-fleet", "-o", "name")
    return [line for line in person.cluster.kubectl(*words).text.split() if "kube-root-ca" not in line]


def test_each_index_is_run_as_rendered(person: Person) -> None:
    person.policy(PLAIN)
    (person.project / "rows").write_text("0 'a b'\n[\"3\", \"it's\"]\n7 '$HOME'\n")
    script = 'echo "$2 $(id -u)"; exit $1'
    ran = fleet(person, "--rows", "rows", "--parallel", "2", "--", "sh", "-c", script, "x")
    _, said = ran.communicate(timeout=LIMIT)
    assert ran.returncode == 6, said
    found = {each["index"]: (each["status"], each["output"], each["attempts"]) for each in results(person)}
    uid = "65532"
    assert found == {0: (0, f"a b {uid}\n", 1), 1: (3, f"it's {uid}\n", 1), 2: (7, f"$HOME {uid}\n", 1)}
    until(lambda: left(person) == [], "something of it is there still")


def test_nothing_is_lost_and_nothing_runs_twice_uncounted(person: Person) -> None:
    """In the middle, the kubelet is killed, the API server is away for 30 s, and a Pod is deleted.

    Each run records its start on a volume: the witness of the runs that really happened.
    """
    person.policy(PLAIN)
    ran = fleet(person, "--count", "1", "--", "true")
    _, said = ran.communicate(timeout=LIMIT)
    assert ran.returncode == 0, said
    (person.project / "fleet-night.jsonl").unlink()
    person.policy("extends: []\nfilesystem: {write: [$PROJECT]}\n")
    claim(person, f"{person.name()}-fleet")
    waits = f"if [ ${INDEX} = 5 ] && mkdir once 2>&-; then sleep 600; fi"
    script = f"echo ${INDEX} >> started; {waits}; sleep 10; echo done"
    ran = fleet(person, "--count", "24", "--parallel", "6", "--", "sh", "-c", script)
    assert ran.stderr is not None
    until((person.project / "once").exists, "the run 5 does not start", within=LIMIT)
    person.cluster.restart("kubelet", after=3)
    read_until(ran.stderr, "exit 0")
    where = ("--namespace", f"{person.name()}-fleet")
    fifth = ("--selector", "batch.kubernetes.io/job-completion-index=5")
    person.cluster.kubectl("delete", "pods", "--wait=false", *where, *fifth)
    person.cluster.restart("kube-apiserver", after=30)
    said = ran.stderr.read()
    assert ran.wait(LIMIT) == 0, said
    lines = results(person)
    counted = [each for each in lines if each["counts"]]
    assert sorted(each["index"] for each in counted) == list(range(24))
    assert {(each["status"], each["output"]) for each in counted} == {(0, "done\n")}
    started = Counter(map(int, (person.project / "started").read_text().split()))
    ran_ = Counter(each["index"] for each in lines if each["reason"] != "StartError")
    assert started == ran_, "each start has a line; a container that was not started has one that says so"
    assert started[5] == 2, "the Pod that was deleted is an attempt of its own"


def read_until(stream: IO[str], text: str) -> None:
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"it has not said {text!r}")


def test_a_break_and_a_resume(person: Person) -> None:
    """Ctrl-C leaves the fleet running; another Job of its name is not mistaken for it; removal is clean."""
    person.policy(PLAIN)
    ran = fleet(person, "--count", "6", "--parallel", "2", "--", "sh", "-c", "sleep 2; echo done")
    assert ran.stderr is not None
    read_until(ran.stderr, "run 0")
    ran.send_signal(signal.SIGINT)
    assert ran.wait(LIMIT) == 130
    again = fleet(person, "--resume")
    _, said = again.communicate(timeout=LIMIT)
    assert again.returncode == 0, said
    assert sorted(each["index"] for each in results(person)) == list(range(6))
    (person.project / "fleet-night.jsonl").unlink()
    third = fleet(person, "--count", "2", "--", "sleep", "600")
    assert third.stderr is not None
    read_until(third.stderr, "fleet night: 2 runs")
    third.kill()
    third.wait(LIMIT)
    (person.project / "fleet-night.jsonl").unlink()
    until(lambda: any(each.startswith("pod/") for each in left(person)), "no Pod of it runs")
    removed = fleet(person, "--remove")
    _, said = removed.communicate(timeout=LIMIT)
    assert removed.returncode == 0, said
    until(lambda: left(person) == [], "something of it is there still")
    where = f"metadata: {{name: fleet-night, namespace: {person.name()}-fleet}}\n"
    foreign = f"apiVersion: batch/v1\nkind: Job\n{where}"
    pod = (
        "spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}\n"
    )
    person.cluster.kubectl("apply", "-f", "-", stdin=(foreign + pod).encode())
    fourth = fleet(person, "--count", "2", "--", "true")
    _, said = fourth.communicate(timeout=LIMIT)
    assert fourth.returncode == 13
    assert "it is not of this fleet: take another --name" in said
    assert left(person) == ["job.batch/fleet-night"]
