"""A project travels to a Pod and back (upload, download): a stand-in for the API server, a real registry.

Tests of builder/sandwright_kubernetes/sync/transfer.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fakecluster import FakeCluster, fake_cluster
from cluster.kubernetesclient import Client
from cluster.travelling import Project, archive_of, member
from sandwright_kubernetes.sync import REGISTRY
from support.goldens import write_artifacts
from support.registryserver import Server, registry_server

pytest.importorskip("kubernetes", reason="the Python package `kubernetes` is not installed")
pytestmark = pytest.mark.needs("docker-registry")
CHANGED = archive_of(member("src/a.c", content=b"theirs"), member("new", content=b"n"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry")) as found:
        yield found


class Travelling:
    """A person whose project travels through a registry."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.folder = folder
        self.project = Project(folder)
        self.registry = registry
        self.directory = write_artifacts(folder / "made", self.project.artifacts())

    def run(self, fake: FakeCluster, *command: str) -> tuple[int, str, str]:
        with fake_cluster(fake, self.folder) as kubeconfig:
            client = Client(self.folder, kubeconfig, self.directory)
            client.environment[REGISTRY] = self.registry
            return client.run(*(command or ("true",)))


@pytest.fixture
def person(tmp_path: Path, registry: Server) -> Travelling:
    return Travelling(tmp_path, f"{registry.host}/projects")


def _answering(archive: bytes, said: bytes = b"", status: int = 0) -> FakeCluster:
    return FakeCluster(program=lambda *_: (archive, said, status))


def test_a_project_goes_and_comes_back(person: Travelling, registry: Server) -> None:
    fake = _answering(CHANGED)
    assert person.run(fake) == (0, "", "")
    (job,) = fake.made
    pod = job["spec"]["template"]["spec"]
    (fill,), (sandbox, beside) = pod["initContainers"], pod["containers"]
    name, _, digest = fill["image"].partition("@")
    assert name == person.registry
    index = json.loads(registry.blob(digest).read_bytes())
    assert len(index["manifests"]) == 2
    assert fill["command"] == ["/projectcopy", "fill", "/project", "/volume"]
    assert beside["image"] == fill["image"] != sandbox["image"]
    assert not any("persistentVolumeClaim" in each for each in pod["volumes"])
    for each in (fill, beside, sandbox):
        closed = each["securityContext"]
        assert (closed["privileged"], closed["readOnlyRootFilesystem"]) == (False, True)
        assert closed["capabilities"] == {"drop": ["ALL"]}
    assert fake.asked.index("POST jobs") < fake.asked.index("GET exec")
    assert (person.project.path / "src/a.c").read_bytes() == b"theirs"
    assert (person.project.path / "new").read_bytes() == b"n"
    left = [each.name for each in person.folder.rglob("travel/*")]
    assert left == [], "nothing of the snapshot and of the archive is left"


def test_a_second_run_sends_only_what_changed(person: Travelling, registry: Server) -> None:
    blobs = registry.storage / "docker/registry/v2/blobs"
    person.run(_answering(archive_of()))
    before = {path: path.stat().st_ino for path in blobs.rglob("data")}
    person.run(_answering(archive_of()))
    assert {path: path.stat().st_ino for path in blobs.rglob("data")} == before
    person.project.write("docs/x", b"another")
    person.run(_answering(archive_of()))
    new = {path.stat().st_size for path in blobs.rglob("data") if path not in before}
    assert len(new) >= 2, "a layer, and the documents that name it"
    assert max(new) < 2000, "not the copier, and not the other files"


def test_a_connection_that_breaks_is_made_again(person: Travelling) -> None:
    answers = iter((None, (CHANGED, b"", 0)))
    fake = FakeCluster(program=lambda *_: next(answers))
    assert person.run(fake) == (0, "", "")
    assert fake.asked.count("GET exec") == 2
    assert (person.project.path / "new").read_bytes() == b"n"


def test_what_does_not_come_back_is_told(person: Travelling) -> None:
    """The exit status is 125 if the command succeeded; otherwise the command's own status stays."""
    archive = archive_of(
        member("secrets/new", content=b"evil"), member("new", content=b"n"), member("docs/x", content=b"m")
    )
    fake = _answering(archive, b"sock: neither a file, a directory nor a link\n", 3)
    status, _, said = person.run(fake)
    assert (status, "did not come back: sock" in said, "'secrets/new' was not copied back" in said) == (
        125,
        True,
        True,
    )
    assert (person.project.path / "new").read_bytes() == b"n"
    fake = _answering(archive)
    fake.state = {"terminated": {"exitCode": 7, "reason": "Error"}}
    assert person.run(fake)[0] == 7


def test_what_is_in_conflict_is_kept(person: Travelling) -> None:
    def program(*_: object) -> tuple[bytes, bytes, int]:
        person.project.write("src/a.c", b"mine")  # while the command runs
        return CHANGED, b"", 0

    status, _, said = person.run(FakeCluster(program=program))
    found = "'src/a.c' stays as it is here: it was changed in the project, too" in said
    assert (status, found) == (125, True)
    assert (person.project.path / "src/a.c").read_bytes() == b"mine"
    (kept,) = person.folder.rglob("travel/*.conflicts")
    assert str(kept) in said
    assert (kept / "src/a.c").read_bytes() == b"theirs"


def test_a_hostile_archive_changes_nothing(person: Travelling) -> None:
    status, _, said = person.run(_answering(archive_of(*[member("x", content=b"x")] * 2)))
    assert (status, "'x': it comes twice" in said) == (125, True)
    assert not (person.project.path / "x").exists()


def test_a_right_that_is_missing(person: Travelling) -> None:
    fake = _answering(CHANGED)
    fake.denied = ("create pods/exec",)
    status, _, said = person.run(fake)
    assert (status, "we may not: create pods/exec" in said, fake.made) == (125, True, [])


def test_an_image_that_no_node_gets(person: Travelling) -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
    fake = _answering(CHANGED)
    fake.state = {}
    fake.status = {"phase": "Pending", "initContainerStatuses": [{"name": "fill", "state": waiting}]}
    status, _, said = person.run(fake)
    assert (status, "the Pod does not start: no such host" in said) == (125, True)


def test_a_registry_that_lies(tmp_path: Path, registry: Server) -> None:
    """It has another manifest under the digest: no command runs."""
    person = Travelling(tmp_path, f"{registry.host}/lies")
    person.run(_answering(archive_of()))
    for path in (registry.storage / "docker/registry/v2/blobs").rglob("data"):
        if path.stat().st_size < 4096 and b'"manifests"' in path.read_bytes():
            path.write_bytes(path.read_bytes().replace(b"arm64", b"amd64"))
    fake = _answering(CHANGED)
    status, _, said = person.run(fake)
    assert (status, fake.made) == (125, []), said
    assert "digest" in said


@pytest.mark.parametrize("name", ["registry.example/x:tag", "http://", "UPPER/case"])
def test_what_is_no_repository(tmp_path: Path, name: str) -> None:
    fake = _answering(CHANGED)
    status, _, said = Travelling(tmp_path, name).run(fake)
    assert (status, fake.made) == (125, []), said
