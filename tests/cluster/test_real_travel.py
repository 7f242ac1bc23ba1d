"""A project that travels to a real cluster and back, through a real registry."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import programs
from cluster.person import Person, travelling_person
from cluster.test_real_carriers import let_travel
from cluster.test_real_guard import install
from sandwright_kubernetes.sync import REGISTRY
from support.pods import busybox_layer
from support.thorough import THOROUGH
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl", "docker-registry"),
]
POLICY = (
    "extends: []\nfilesystem: {write: [$PROJECT], readonly: [$PROJECT/LICENSE], deny: [$PROJECT/secrets]}\n"
)
FILES = {
    "src/a.c": "int a;\n",
    "src/b.c": "int b;\n",
    "LICENSE": "free\n",
    "secrets/key": "of nobody's business\n",
}


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    if missing := programs.missing():
        pytest.skip(f"missing: {', '.join(missing)}")
    with travelling_person(tmp_path_factory.mktemp("travel"), busybox_layer({})) as found:
        yield found


@pytest.fixture
def person(everyone: Person, tmp_path: Path) -> Person:
    for name, text in FILES.items():
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = Person(everyone.cluster, tmp_path, tmp_path / "p", everyone.kubeconfig, everyone.variables)
    found.policy(POLICY)
    return found


def test_a_project_goes_and_comes_back(person: Person) -> None:
    """There is no claim: denied paths are empty there, read-only files stay, and written files come back."""
    script = (
        "cat src/a.c secrets/key; ls -A secrets; echo x >LICENSE; echo x >secrets/new; "
        "echo changed >src/a.c; rm src/b.c; mkdir new; echo made >new/tool; chmod +x new/tool; exit 3"
    )
    ended = person.run("sh", "-c", script)
    assert ended.returncode == 3, ended.stderr
    assert "int a;" in ended.stdout, "the control: what is shown is there"
    assert "nobody" not in ended.stdout
    assert ended.stdout.count("Read-only file system") == 2
    tree = {str(each.relative_to(person.project)) for each in person.project.rglob("*") if each.is_file()}
    assert {each for each in tree if not each.startswith(".sandbox")} == {
        "LICENSE", "sandbox.yaml", "secrets/key", "src/a.c", "new/tool",
    }  # fmt: skip
    assert (person.project / "src/a.c").read_text() == "changed\n"
    assert os.access(person.project / "new/tool", os.X_OK)
    assert person.left() == []


def test_what_does_not_come_back(person: Person) -> None:
    script = "ln -s /etc/passwd out; mkfifo pipe; touch .wh.src; truncate -s 3G huge"
    ended = person.run("sh", "-c", script)
    assert (ended.returncode, "the changes exceed" in ended.stderr) == (125, True), ended.stderr
    ended = person.run("sh", "-c", script.rpartition(";")[0])
    assert ended.returncode == 125
    for line in (
        "'out' was not copied back: it is a link that leads out",
        "did not come back: pipe",
        ".wh.src: its name",
    ):
        assert line in ended.stderr
    assert not any((person.project / name).exists() for name in ("out", "pipe", "huge", ".wh.src"))


def test_what_is_changed_here_meanwhile(person: Person) -> None:
    with person.start("sh", "-c", "echo started; sleep 5; echo theirs >src/a.c; echo theirs >new") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        (person.project / "src/a.c").write_text("mine\n")
        _, said = running.communicate(timeout=240)
    assert running.returncode == 125
    assert b"'src/a.c' stays as it is here: it was changed in the project, too" in said
    assert (person.project / "src/a.c").read_text() == "mine\n"
    assert (person.project / "new").read_text() == "theirs\n", "the control"


def test_what_the_command_reads(person: Person) -> None:
    """It reads all of the input to its end; the input is larger than any buffer on the way."""
    person.policy("extends: []\n")
    text = "".join(f"{number}\n" for number in range(300_000))
    ended = person.run("sh", "-c", "md5sum; exit 4", reads=text)
    assert ended.returncode == 4, ended.stderr
    assert ended.stdout.split() == [hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), "-"]


def test_each_run_of_a_fleet_has_the_project_as_it_was(person: Person) -> None:
    """Each run sees only its own changes, and they do not come back."""
    script = "cat src/a.c; ls -A secrets; echo more >>src/a.c; exit $(($(wc -l <src/a.c) - 2))"
    fleet = ("fleet", "--name", "along", "--count", "4", "--parallel", "2", "--", "sh", "-c", script)
    ended = person.sandwright(*fleet)
    assert ended.returncode == 0, ended.stderr
    assert "each run has the project as it is now" in ended.stderr
    lines = [json.loads(line) for line in (person.project / "fleet-along.jsonl").read_text().splitlines()]
    assert {each["index"]: (each["status"], each["output"]) for each in lines} == dict.fromkeys(
        range(4), (0, "int a;\n")
    )
    assert (person.project / "src/a.c").read_text() == "int a;\n"


def test_it_travels_under_an_operators_policies(person: Person) -> None:
    """The project goes and comes back through the operator's repository; no user can enter its Pod."""
    install(person)
    let_travel(person, person.variables[REGISTRY].removeprefix("http://"))
    until(lambda: person.run("true").returncode == 0, "nothing travels", within=120)
    script = "cat src/a.c; echo started; sleep 20; echo changed >src/a.c; exit 3"
    with person.start("sh", "-c", script) as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(2)] == [b"int a;\n", b"started\n"]
        within = ("--namespace", person.name())
        (pod,) = person.cluster.kubectl("get", "pods", *within, "-o", "name").text.split()
        for container, words in (("sandbox", ["true"]), ("return", ["/projectcopy", "wait"])):
            into = ("exec", *within, pod, "--container", container, "--", *words)
            assert "pods/exec: nobody enters" in person.cluster.kubectl(*into, check=False).stderr
        assert running.wait(240) == 3
    assert (person.project / "src/a.c").read_text() == "changed\n"
