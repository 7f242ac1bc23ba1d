"""The method `kubernetes` on a real cluster, which `invoke test --thorough` starts if it can."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import programs
from cluster.configuration import write_kubeconfig
from cluster.person import LIMIT, SANDWRIGHT, Person
from cluster.start import Cluster, cluster
from sandwright import process
from sandwright_kubernetes import admission
from sandwright_kubernetes.connection import Place as KubernetesPlace
from sandwright_kubernetes.connection import connect
from sandwright_kubernetes.start import read_manifests
from session.terminals import Terminal, terminal
from support.pods import busybox_layer
from support.thorough import THOROUGH
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl"),
]
PLAIN = "extends: []\n"
STATUS = ("grep", "-E", "^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):", "/proc/self/status")


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    if missing := programs.missing():
        pytest.skip(f"missing: {', '.join(missing)}")
    with cluster() as found:
        found.load("docker.io/sandwright/debian:latest", busybox_layer({}), {"Cmd": ["/bin/sh"]})
        yield found


@pytest.fixture
def person(running: Cluster, tmp_path: Path) -> Person:
    home = tmp_path / "home"
    return Person(running, home, home / "p", running.kubeconfig)


def test_a_command_runs_as_rendered(person: Person) -> None:
    person.policy(PLAIN)
    ended = person.run("sh", "-c", f"echo said; {' '.join(STATUS[:2])} '{STATUS[2]}' {STATUS[3]}; exit 7")
    assert ended.returncode == 7, ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert lines[0] == ["said"]
    found = {line[0]: line[1] for line in lines[1:]}
    none = "0" * 16
    assert found == {"Uid:": "65532", "CapEff:": none, "CapBnd:": none, "NoNewPrivs:": "1", "Seccomp:": "2"}
    until(lambda: person.left() == [], "the Job is there still")


def test_walls(person: Person) -> None:
    """Each denial has a control in the same Pod, or in one without our policy."""
    person.policy(PLAIN)
    script = (
        "cat /proc/self/uid_map; echo x 2>&1 >/etc/x; echo y >/tmp/y && cat /tmp/y; "
        f"nc -w 2 {person.cluster.place.node} 6443 </dev/null 2>&1; echo nc $?; ls /var/run/secrets 2>&1"
    )
    ended = person.run("sh", "-c", script)
    assert "y" in ended.stdout.splitlines(), "the control: what may be written can be"
    assert "Read-only file system" in ended.stdout
    assert "nc 1" in ended.stdout
    assert "Operation not permitted" in ended.stdout or "Permission denied" in ended.stdout
    assert "/var/run/secrets: No such file" in ended.stdout
    first = ended.stdout.split()[:3]
    assert first[0] == "0"
    assert int(first[1]) >= 65536, "it is in a user namespace"
    person.policy("extends: []\nnetwork: {mode: host}\n")
    control = person.run("sh", "-c", f"nc -w 2 {person.cluster.place.node} 6443 </dev/null; echo nc $?")
    assert "nc 0" in control.stdout, "the control: the same address with a network"


def test_the_project_on_a_volume(person: Person) -> None:
    (person.project / "secrets").mkdir()
    (person.project / "secrets/key").write_text("of nobody's business")
    person.policy("extends: []\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}\n")
    without = person.run("true")
    assert (without.returncode, "there is no claim project" in without.stderr) == (125, True)
    claim(person)
    ended = person.run("sh", "-c", "ls secrets; echo made > new; cat new")
    assert (ended.returncode, ended.stdout) == (0, "made\n"), ended.stderr
    assert (person.project / "new").read_text() == "made\n"


def claim(person: Person, namespace: str = "") -> None:
    """A volume of the node with the project, which is this machine's directory."""
    os.chown(person.project, 65532, 65532)
    name = namespace or person.name()
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(person.project)}},
    }
    asked = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "project", "namespace": name},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    for each in (volume, asked):
        person.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(each).encode())


def test_what_is_not_run(person: Person) -> None:
    person.policy("extends: []\nprocess: {seccomp: strict}\n", profile=False)
    ended = person.run("true")
    assert ended.returncode == 125
    assert "seccomp" in ended.stderr
    assert "run `install-profile` on each node" in ended.stderr
    person.policy("extends: []\nimage: 127.0.0.1:1/none@sha256:" + "0" * 64 + "\n")
    ended = person.run("true")
    assert (ended.returncode, "the Pod does not start" in ended.stderr) == (125, True)
    person.policy(PLAIN)
    ended = person.run("/none")
    assert (ended.returncode, "/none" in ended.stderr) == (125, True)
    person.cluster.kubectl(
        "label", "namespace", person.name(), "--overwrite", "pod-security.kubernetes.io/enforce=privileged"
    )
    until(lambda: person.left() == [], "a Pod is left, and the quota has room for one")
    ended = person.run("true")
    assert (ended.returncode, "admits a Pod in the node's own namespaces" in ended.stderr) == (125, True), (
        ended
    )
    assert [each for each in person.left() if each.startswith("job")] == []


def test_somebody_without_rights(person: Person) -> None:
    """The message names the missing rights to a user without any; with these rights alone the run works."""
    person.policy(PLAIN)
    assert person.run("true").returncode == 0
    write_kubeconfig(person.cluster.place, "ada")
    person.kubeconfig = str(person.cluster.place.folder / "ada.conf")
    ended = person.run("true")
    assert (ended.returncode, "we may not: create jobs" in ended.stderr) == (125, True)
    roles = Path(__file__).with_name("role.yaml").read_text().replace("NAMESPACE", person.name())
    person.cluster.kubectl("apply", "-f", "-", stdin=roles.encode())
    ended = person.run("echo", "said")
    assert (ended.returncode, ended.stdout) == (0, "said\n"), ended.stderr


def test_limits_of_time_and_memory(person: Person) -> None:
    person.policy("extends: []\nresources: {time: 5s, memory: 64MiB}\n")
    ended = person.run("sh", "-c", "echo said; sleep 60")
    assert (ended.returncode, ended.stdout) == (124, "said\n")
    assert "the time limit (resources.time) was reached" in ended.stderr
    ended = person.run("sh", "-c", "tail /dev/zero")
    assert (ended.returncode, "memory" in ended.stderr) == (137, True), ended.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(person: Person, number: signal.Signals, status: int) -> None:
    person.policy(PLAIN)
    with person.start("sh", "-c", "echo started; sleep 300") as running_:
        assert running_.stdout is not None
        assert running_.stdout.readline() == b"started\n"
        running_.send_signal(number)
        assert running_.wait(LIMIT) == status
    assert person.left() == []


def test_orphans(person: Person) -> None:
    person.policy(PLAIN)
    with person.start("sh", "-c", "echo started; sleep 300") as running_:
        assert running_.stdout is not None
        assert running_.stdout.readline() == b"started\n"
        second = person.run("true")
        assert (second.returncode, "quota" in second.stderr) == (125, True)
        running_.kill()
        running_.wait(LIMIT)
    assert person.left() != []
    shown = person.sandwright("cleanup")
    assert person.left() == [], shown.stdout + shown.stderr


def test_a_terminal(person: Person) -> None:
    """A person at a real one: keys, the window's size, ^C, and a connection that breaks off."""
    person.policy(PLAIN)
    argv = (*SANDWRIGHT, "run", "--", "sh", "-i")
    with terminal(argv, person.project, person.environ) as window:
        window.type(b"\r")
        window.read_until(b"$ ")
        window.type(b"stty size; tty; echo a$((1 + 1))b\r")
        shown = window.read_until(b"a2b\r\n")
        assert b"31 117\r\n" in shown
        assert b"/dev/pts/0\r\n" in shown
        window.resize(20, 70)
        window.type(b"sleep 2; stty size\r")
        window.read_until(b"20 70\r\n")
        window.type(b"sleep 100\r")
        time.sleep(1)
        window.type(b"\x03")
        window.type(b"echo said $?\r")
        window.read_until(b"said 130\r\n")
        person.cluster.restart("kubelet", after=1)
        until(lambda: _answers(window), "nobody answers after the kubelet's restart", within=LIMIT)
        window.type(b"exit 7\r")
        assert window.end() == 7
        assert window.settings == window.before
    until(lambda: person.left() == [], "the Job is there still")


def _answers(window: Terminal) -> bool:
    window.type(b"echo b$((1 + 2))c\r")
    time.sleep(3)
    return window.shows(b"b3c\r\n")


@pytest.mark.parametrize("times", range(3))
def test_what_a_quick_command_shows(person: Person, times: int) -> None:
    """No output is lost or repeated, whether or not the command ends before the attachment."""
    person.policy(PLAIN)
    argv = (*SANDWRIGHT, "run", "--", "sh", "-c", f"for i in 1 2 3; do echo $i; sleep 0.{times}; done")
    with terminal(argv, person.project, person.environ) as window:
        assert window.end() == 0
        shown = window.rest().replace(b"\r\r\n", b"\r\n")
    assert shown.count(b"1\r\n2\r\n3\r\n") == 1
    assert shown.count(b"\n3\r") == 1, shown


@pytest.mark.needs("runsc")
def test_under_gvisor(person: Person) -> None:
    """The kernel is gVisor's, the filter is active, and the status is the command's."""
    (person.project / "sandbox.yaml").write_text("schema: 1\nmethods: [kubernetes, gvisor]\nextends: []\n")
    assert person.sandwright("render", "--method", "kubernetes").returncode == 0
    process.run(person.project / ".sandbox/kubernetes/install-profile", person.cluster.profiles)
    script = "uname -r; grep Seccomp: /proc/self/status; nc -w 2 10.96.0.1 443 2>&1; exit 7"
    ended = person.run("sh", "-c", script)
    assert ended.returncode == 7, ended.stderr
    assert ended.stdout.splitlines()[:2] == ["4.4.0", "Seccomp:\t2"]
    assert "Operation not permitted" in ended.stdout
    assert "whether the node's gVisor takes filters is not known" in ended.stderr


def test_parts_that_restart(person: Person) -> None:
    """The kubelet is killed, and the API server is away for 30 s, in the middle of a run."""
    person.policy(PLAIN)
    with person.start("sh", "-c", "for i in 1 2 3 4; do echo $i; sleep 15; done; exit 9") as running_:
        assert running_.stdout is not None
        assert running_.stdout.readline() == b"1\n"
        person.cluster.restart("kubelet", after=3)
        person.cluster.restart("kube-apiserver", after=30)
        out, err = running_.communicate(timeout=LIMIT)
    assert (running_.returncode, out) == (9, b"2\n3\n4\n"), err


def test_what_is_around_a_proxy(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's objects come back as they were sent. Its image is missing here, so it does not start."""
    person.policy("extends: []\nnetwork: {mode: proxy, allow: [example.org]}\n")
    documents = read_manifests(person.project / ".sandbox/kubernetes")
    around = admission.manifests_of(documents)
    assert [each["kind"] for each in around][-4:] == ["ConfigMap", "NetworkPolicy", "Service", "Deployment"]
    monkeypatch.setattr(admission, "_await_proxy", lambda *_: None)
    connection = connect(KubernetesPlace(person.kubeconfig))
    admission.check_rights(connection, person.name(), around)
    admission.apply_around(connection, person.name(), around)
    admission.apply_around(connection, person.name(), around)
    admission.check_policies(connection, person.name(), around)
    admission.check_closed(connection, person.name())
    admission.check_admitted(connection, person.name(), documents["job.yaml"])
