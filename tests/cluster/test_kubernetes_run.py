"""The method `kubernetes` with a stand-in for the API server: its requests, and its use of the answers.

The tests with a real cluster are in `tests/cluster/`.

Tests of builder/sandwright_kubernetes/feeding.py.
Tests of builder/sandwright_kubernetes/job.py.
Tests of builder/sandwright_kubernetes/records.py: orphaned Jobs are removed by record and label.
Tests of builder/sandwright_kubernetes/start.py: the time limit (124), a lost Pod (125), the end of the Job.
"""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.clusters import WRITES, cluster_policy
from cluster.fakecluster import RUNNING, FakeCluster, fake_cluster
from cluster.kubernetesclient import Client
from sandwright import process
from sandwright.host import collect_host
from sandwright.methods.contract import Leftover
from sandwright.signalling import identity
from sandwright_kubernetes import jobrun, records
from sandwright_kubernetes.backend import Kubernetes
from sandwright_kubernetes.objects import differences, rows, text
from sandwright_kubernetes.render import render_kubernetes
from support.goldens import write_artifacts

pytest.importorskip("kubernetes", reason="the Python package `kubernetes` is not installed")
LIMIT = 90.0
NAME = "sandbox-p-60ad706f"
EXITED = {"terminated": {"exitCode": 7, "reason": "Error"}}


def _client(folder: Path, kubeconfig: Path, policy: str = "extends: []\n") -> Client:
    return Client(
        folder, kubeconfig, write_artifacts(folder / "made", render_kubernetes(cluster_policy(policy)))
    )


def _run(
    fake: FakeCluster, folder: Path, *command: str, policy: str = "extends: []\n"
) -> tuple[tuple[int, str, str], Client]:
    with fake_cluster(fake, folder) as kubeconfig:
        client = _client(folder, kubeconfig, policy)
        return client.run(*(command or ("true",))), client


def test_a_run_from_start_to_end(tmp_path: Path) -> None:
    """The objects that close the sandbox exist before the Job, and the Job is removed at the end."""
    fake = FakeCluster(state=EXITED, log=b"said\n")
    result, client = _run(fake, tmp_path, "sh", "-c", "echo $HOME $(x)")
    assert result == (7, "said\n", "")
    (job,) = fake.made
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["sh", "-c", "echo $$HOME $$(x)"]
    assert job["metadata"]["labels"]["sandwright.session"] == "0123456789abcdef"
    made = fake.asked.index("POST jobs")
    assert fake.asked.index("PATCH sandbox") < made
    assert "POST pods dry" in fake.asked[:made]
    assert fake.asked[-1].startswith("DELETE sandbox-p-")
    assert not fake.jobs
    assert client.records() == []


def test_the_status_is_the_clusters_and_no_text_of_the_pod(tmp_path: Path) -> None:
    state = {"terminated": {"exitCode": 3, "reason": "Completed", "message": "exit status: 0"}}
    status = {"message": "exitCode: 0", "reason": "Completed"}
    fake = FakeCluster(state=state, status=status, log=b'{"exitCode": 0}\nexit 0\n')
    result, _ = _run(fake, tmp_path)
    assert result[0] == 3


REFUSALS: dict[str, tuple[FakeCluster, str]] = {
    "no right": (FakeCluster(denied=("create jobs",)), "we may not: create jobs"),
    "open namespace": (FakeCluster(open=True), "admits a Pod in the node's own namespaces"),
    "user dropped": (
        FakeCluster(dropped=("securityContext",)),
        "another Pod of it: securityContext.runAsNonRoot",
    ),
    "no claim": (FakeCluster(missing=("project",)), "there is no claim project"),
    "too large": (FakeCluster(large=True), "is larger than"),
    "no image": (
        FakeCluster(state={"waiting": {"reason": "ErrImageNeverPull", "message": "no \x1b[31m such image"}}),
        "the Pod does not start: no \\x1b[31m such image",
    ),
    "no profile": (
        FakeCluster(
            state={"waiting": {"reason": "CreateContainerError", "message": "seccomp: no such file"}}
        ),
        "run `install-profile` on each node",
    ),
    "no such program": (
        FakeCluster(
            state={"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}}
        ),
        "cannot start the command: no such file",
    ),
    "no status": (FakeCluster(state={}, status={"phase": "Failed", "message": "evicted"}), "evicted"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_not_run(case: str, tmp_path: Path) -> None:
    fake, said = REFUSALS[case]
    result, client = _run(fake, tmp_path, policy=WRITES)
    assert result[0] == 125
    assert said in result[2]
    assert not fake.jobs
    assert client.records() == []


def test_a_field_that_an_older_cluster_does_not_know(tmp_path: Path) -> None:
    """To a cluster, an absent `hostUsers` is true: it must not pass as `hostUsers: false`."""
    result, _ = _run(FakeCluster(dropped=("hostUsers",)), tmp_path)
    assert result[0] == 125
    assert "another Pod of it: hostUsers" in result[2]


def test_time_is_up(tmp_path: Path) -> None:
    fake = FakeCluster(
        state={"terminated": {"exitCode": 0, "reason": "Completed"}}, status={"reason": "DeadlineExceeded"}
    )
    result, _ = _run(fake, tmp_path)
    assert result == (124, "", "sandbox: the time limit (resources.time) was reached\n")


LATE = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}


@pytest.mark.parametrize(
    ("fake", "ended"),
    [
        (
            FakeCluster(conditions=(LATE,)),
            (124, "said\n", "sandbox: the time limit (resources.time) was reached\n"),
        ),
        (
            FakeCluster(conditions=(LATE,), late=4),
            (124, "said\n", "sandbox: the time limit (resources.time) was reached\n"),
        ),
        (FakeCluster(), (125, "said\n", "sandbox: how the command ended is not known: its Pod is gone\n")),
    ],
)
def test_a_pod_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeCluster, ended: tuple[int, str, str]
) -> None:
    """The Job controller deletes the Pod when the time is up, and updates the Job a little later."""
    monkeypatch.setattr(jobrun, "GONE_LIMIT", 10.0 if fake.conditions else 0.5)
    fake.state, fake.log, fake.vanishes = RUNNING, b"said\n", True
    assert _run(fake, tmp_path)[0] == ended


def test_a_namespace_that_was_just_made(tmp_path: Path) -> None:
    result, _ = _run(FakeCluster(new=2), tmp_path)
    assert result == (0, "", "")


def test_a_server_that_comes_back(tmp_path: Path) -> None:
    result, _ = _run(FakeCluster(broken=3, log=b"said\n"), tmp_path)
    assert result == (0, "said\n", "")


def test_a_lost_answer_makes_no_second_job(tmp_path: Path) -> None:
    fake = FakeCluster(lost=("job",))
    result, _ = _run(fake, tmp_path)
    assert (result[0], len(fake.made)) == (0, 1)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_job(tmp_path: Path, number: signal.Signals, status: int) -> None:
    fake = FakeCluster(state=RUNNING, log=b"started\n", waits=True)
    with fake_cluster(fake, tmp_path) as kubeconfig:
        client = _client(tmp_path, kubeconfig)
        with process.start(*client.argv("sleep", "60"), env=client.environment) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"started\n"
            assert Kubernetes().send_signal(running.pid, number) == "sent"  # as a session does
            assert running.wait(LIMIT) == status
    assert fake.gone.is_set()
    assert client.records() == []


def test_no_kubeconfig(tmp_path: Path) -> None:
    with fake_cluster(FakeCluster(), tmp_path) as kubeconfig:
        client = _client(tmp_path, kubeconfig)
    client.environment["KUBECONFIG"] = str(tmp_path / "absent")
    status, _, said = client.run("true")
    assert (status, "no kubeconfig says where a cluster is" in said) == (125, True)


def test_orphans_are_removed_by_record_and_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}.items():
        monkeypatch.setenv(name, value)
    fake = FakeCluster()
    with fake_cluster(fake, tmp_path) as kubeconfig:
        for job, session in (("a", "killed"), ("b", "killed"), ("c", "running")):
            ended = replace(identity(), boot="another")
            records.JobRecord(session, job, NAME, str(kubeconfig), "fake", ended).write()
        for job, owner in (("a", records.owner()), ("b", "somebody")):
            labels = {"sandwright.session": "killed", "sandwright.owner": owner}
            fake.jobs[job] = {"metadata": {"name": job, "labels": labels}}
        watched = records.JobRecord("unknown", "d", NAME, str(kubeconfig), "fake", identity())
        watched.write()
        backend = Kubernetes()
        found = list(backend.leftovers(["running"]))
        assert [each.name for each in found] == [f"fake {NAME}/a", f"fake {NAME}/b"]
        assert fake.asked == []
        backend.remove(found[0])
        with pytest.raises(Exception, match="is not this user's; it stays"):
            backend.remove(found[1])
        with pytest.raises(Exception, match="or its run goes on"):  # its launcher, without a session
            backend.remove(Leftover("kubernetes", "job", f"fake {NAME}/d"))
    assert list(fake.jobs) == ["b"]
    assert [each.job for each in records.read_job_records()] == ["b", "c", "d"]
    with pytest.raises(Exception, match="is not recorded"):
        backend.remove(Leftover("kubernetes", "job", "x/y"))


@pytest.mark.parametrize(
    ("fake", "code"),
    [
        (FakeCluster(), "ready"),
        (FakeCluster(version={"major": "1", "minor": "29+"}), "not-started"),
        (FakeCluster(version={"major": 1}), "not-started"),
        (FakeCluster(broken=9), "no-permission"),
    ],
)
def test_preflight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeCluster, code: str) -> None:
    with fake_cluster(fake, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        assert Kubernetes().preflight(collect_host()).code == code


@pytest.mark.parametrize(
    ("sent", "got", "places"),
    [
        ({"a": {"b": True}}, {"a": {"b": True, "c": 1}}, []),
        ({"a": {"b": True}}, {"a": {}}, ["a.b"]),
        ({"a": False}, {"a": True}, ["a"]),
        ({"hostPID": False, "env": []}, {}, []),
        ({"list": [1, 2]}, {"list": [1, 2, 3]}, ["list"]),
        ({"list": [{"a": 1}]}, {"list": [{"a": 2}]}, ["list[0].a"]),
        ({"a": {"b": 1}}, None, ["a.b"]),
    ],
)
def test_what_a_cluster_has_otherwise(sent: Any, got: Any, places: list[str]) -> None:
    assert list(differences(sent, got)) == places


def test_fields_of_any_shape() -> None:
    shapes: tuple[Any, ...] = (None, [], "x", 3, {"a": "b"}, {"a": [1, "x", None]})
    for hostile in shapes:
        assert rows(hostile, "a") == []
        assert text(hostile, "a", "b") == ""
    assert json.dumps(rows({"a": [{"b": 1}]}, "a")) == '[{"b": 1}]'


def test_a_pod_that_only_says_it_is_of_the_job(tmp_path: Path) -> None:
    """A user who may create Pods in the namespace can add the Job's label; only the cluster sets owners."""
    forged = {
        "metadata": {"name": "forged", "ownerReferences": [{"kind": "Job", "uid": "another"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"name": "sandbox", "state": EXITED}]},
    }
    result, _ = _run(FakeCluster(others=(forged, {"metadata": {"name": "bare"}}), log=b"said\n"), tmp_path)
    assert result == (0, "said\n", "")


def test_network_policies_add_up(tmp_path: Path) -> None:
    """Another policy in the namespace may open what ours closes; without a network the filter holds."""
    opened = ({"metadata": {"name": "sandbox"}}, {"metadata": {"name": "opens\x07more"}})
    result, _ = _run(FakeCluster(policies=opened), tmp_path, policy="extends: []\nnetwork: {mode: proxy}\n")
    assert result[0] == 125
    assert "other NetworkPolicies are in the namespace, and may open more: opens\\x07more" in result[2]
    result, _ = _run(FakeCluster(policies=opened), tmp_path)
    assert result == (0, "", "")
    alone = "extends: []\nnetwork: {mode: proxy}\n"
    result, _ = _run(FakeCluster(policies=opened[:1]), tmp_path, policy=alone)
    assert result[0] == 0
    assert "whether this cluster's network enforces NetworkPolicy is not known" in result[2]


@pytest.mark.parametrize(
    ("sent", "got", "same"),
    [
        ("1024Mi", "1Gi", True),
        ("1000m", "1", True),
        ("1073741824", "1Gi", True),
        ("1Gi", "2Gi", False),
        ("1Gi", "1G", False),
        ("1Gi", None, False),
        ("1Gi", "much", False),
        ("1Gi", {"a": 1}, False),
        ("0.5", "500m", True),
        ("1e3", "1k", True),
    ],
)
def test_quantities(sent: str, got: Any, *, same: bool) -> None:
    found = list(differences({"resources": {"limits": {"x": sent}}}, {"resources": {"limits": {"x": got}}}))
    assert found == ([] if same else ["resources.limits.x"])


def test_what_the_command_reads(tmp_path: Path) -> None:
    """The command reads standard input to its end, through an attachment that is made once."""
    content = bytes(range(256)) * 400
    fake = FakeCluster(state=EXITED, log=b"said\n", reads=True)
    with fake_cluster(fake, tmp_path) as kubeconfig:
        assert _client(tmp_path, kubeconfig).run("cat", stdin=content) == (7, "said\n", "")
    assert fake.read == content
    assert fake.asked.count("GET attach") == 1
    (job,) = fake.made
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert (container["stdin"], container["stdinOnce"], container.get("tty")) == (True, True, None)


def test_without_input_nothing_is_attached(tmp_path: Path) -> None:
    fake = FakeCluster(state=EXITED)
    with fake_cluster(fake, tmp_path) as kubeconfig:
        assert _client(tmp_path, kubeconfig).run("cat")[0] == 7
    assert "GET attach" not in fake.asked
    assert "stdin" not in fake.made[0]["spec"]["template"]["spec"]["containers"][0]


def test_without_the_right_to_attach_it_reads_nothing(tmp_path: Path) -> None:
    fake = FakeCluster(state=EXITED, denied=("create pods/attach",))
    with fake_cluster(fake, tmp_path) as kubeconfig:
        status, _, said = _client(tmp_path, kubeconfig).run("cat", stdin=b"x")
    assert (status, "reads nothing" in said, "GET attach" in fake.asked) == (7, True, False)
    assert "stdin" not in fake.made[0]["spec"]["template"]["spec"]["containers"][0]
