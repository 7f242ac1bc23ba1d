"""Against a real registry server on loopback, Debian's `docker-registry`, and with third-party tools.

Tests of registry/pull.py.
Tests of registry/push.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import IntegrityError
from sandwright.image.cache import Cache
from sandwright.image.remote import PushSource, open_layout, pull_layout
from sandwright.registry.credentials import Credential, auth_files
from sandwright.registry.failure import Denied, NotFound, RegistryError
from sandwright.registry.push import PushResult, push, push_by_digest
from sandwright.registry.reference import Reference, parse_reference
from sandwright.registry.referrer import fallback_tag, push_referrer, referrers
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.upload import Upload
from sandwright.rootfs.images.source import open_image
from support.layouts import HELLO, INDEX, Layout
from support.registryserver import LOGIN, Server, StaticCredentials, Tls, make_certificates, registry_server
from support.tars import archive, file

pytestmark = [pytest.mark.needs("docker-registry", "openssl"), pytest.mark.timeout(120)]

AMD = {"os": "linux", "architecture": "amd64"}
ARM = {"os": "linux", "architecture": "arm64", "variant": "v8"}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tls: Tls) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("guarded"), login=True, tls=tls) as running:
        yield running


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An image for two platforms, which share one layer."""
    made = Layout(tmp_path / "layout")
    large = archive(file(b"large", random.Random(1).randbytes(3 << 20)))
    images = [
        made.image(HELLO, large, platform=AMD),
        made.image(HELLO, arch="arm64", platform=ARM),
    ]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": images}
    whole = made.document(index, INDEX, annotations={"org.opencontainers.image.ref.name": "latest"})
    document = {"schemaVersion": 2, "manifests": [whole]}
    (made.path / "index.json").write_text(json.dumps(document))
    return made.path


def at(server: Server, name: str) -> Reference:
    return parse_reference(f"{server.host}/{name}")


def push_to(
    reference: Reference,
    image: PushSource,
    tags: Sequence[str] = ("1",),
    settings: RegistrySettings | None = None,
    **more: Any,
) -> PushResult:
    with open_repository(reference, settings or RegistrySettings(), push=True) as repository:
        return push(repository, image.graph, image.open_blob, tags=tags, **more)


def blobs_of(layout: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}


def test_there_and_back(server: Server, layout: Path, tmp_path: Path) -> None:
    image = open_layout(layout)
    done = push_to(at(server, "there/back:1"), image, ("1", "stable"))
    assert (done.digest, done.tagged) == (image.graph.root.descriptor.digest, ("1", "stable"))
    assert {digest.removeprefix("sha256:") for digest in done.sent} == {*blobs_of(layout)}
    cache = Cache(tmp_path / "cache")
    for number, name in enumerate(("there/back:stable", f"there/back@{done.digest}")):
        target = tmp_path / f"pulled-{number}"
        assert pull_layout(at(server, name), target, settings=RegistrySettings(), cache=cache) == done.digest
        assert blobs_of(target) == blobs_of(layout)
        assert (
            open_image(target, platform="linux/arm64").digest
            == open_image(layout, platform="linux/arm64").digest
        )


def test_a_second_push_sends_nothing(server: Server, layout: Path) -> None:
    reference, image = at(server, "twice:1"), open_layout(layout)
    assert push_to(reference, image).changed
    written = {path: path.stat().st_mtime_ns for path in server.storage.rglob("*") if path.is_file()}
    assert push_to(reference, image) == PushResult(image.graph.root.descriptor.digest, (), ())
    assert {path: path.stat().st_mtime_ns for path in server.storage.rglob("*") if path.is_file()} == written


def test_a_tag_is_moved(server: Server, layout: Path, tmp_path: Path) -> None:
    reference = at(server, "moved:1")
    first = push_to(reference, open_layout(layout))
    other = Layout(tmp_path / "other")
    image = other.image(HELLO, config={"User": "app"})
    (other.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [image]}))
    second = push_to(reference, open_layout(other.path))
    assert second.tagged == ("1",)
    with open_repository(reference, RegistrySettings()) as repository:
        assert repository.manifest("1").digest == second.digest != first.digest
        assert repository.manifest(first.digest).digest == first.digest


def test_no_tag_before_everything_is_there(server: Server, layout: Path) -> None:
    """A layer in the layout doesn't match its digest: no tag is set."""
    image = open_layout(layout)
    largest = max(image.graph.blobs, key=lambda each: each.size)
    path = layout / "blobs/sha256" / largest.digest.removeprefix("sha256:")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    reference = at(server, "broken:1")
    with pytest.raises(IntegrityError, match="the content to be sent has the digest"):
        push_to(reference, image)
    with open_repository(reference, RegistrySettings()) as repository, pytest.raises(NotFound):
        repository.manifest("1")


def test_an_interrupted_push_is_finished_by_the_next(server: Server, layout: Path) -> None:
    reference, image = at(server, "half:1"), open_layout(layout)
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        sent = push_by_digest(repository, image.graph, image.open_blob)
        with pytest.raises(NotFound):
            repository.manifest("1")
    assert sent
    assert push_to(reference, image) == PushResult(image.graph.root.descriptor.digest, (), ("1",))


def test_layers_are_mounted(server: Server, layout: Path) -> None:
    image = open_layout(layout)
    push_to(at(server, "lender:1"), image)

    def never(_: object) -> Any:
        raise AssertionError("nothing has to be read")

    reference = at(server, "borrower:1")
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        sent = push_by_digest(repository, image.graph, never, mount_from=["lender"])
    documents = [node.descriptor.digest for node in image.graph.nodes]
    assert sorted(sent) == sorted(documents)


def test_what_the_registry_lost_is_found(server: Server, layout: Path) -> None:
    """A flipped byte in the registry's store: reading back by digest refuses it."""
    image = open_layout(layout)
    reference = at(server, "flipped:1")
    push_to(reference, image)
    manifest = next(node for node in image.graph.nodes if node.blobs)
    kept = server.blob(manifest.descriptor.digest)
    good = kept.read_bytes()
    try:
        kept.write_bytes(good.replace(b"gzip", b"zstd", 1))
        with (
            open_repository(reference, RegistrySettings()) as repository,
            pytest.raises((RegistryError, IntegrityError)),
        ):
            repository.manifest(manifest.descriptor.digest)
    finally:
        kept.write_bytes(good)


def test_large_blobs_go_in_chunks(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upload.__init__, "__kwdefaults__", {"chunk": 1 << 20})
    made = Layout(tmp_path / "large")
    content = random.Random(2).randbytes((5 << 20) + 17)
    image = made.image(archive(file(b"large", content)))
    (made.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [image]}))
    done = push_to(at(server, "large:1"), open_layout(made.path))
    for digest in done.sent:
        algorithm, _, encoded = digest.partition(":")
        assert hashlib.new(algorithm, server.blob(digest).read_bytes()).hexdigest() == encoded


def test_referrers_by_the_fall_back_tag(server: Server, layout: Path) -> None:
    """Debian's registry has no list of referrers."""
    image = open_layout(layout)
    reference = at(server, "referred:1")
    push_to(reference, image)
    subject = image.graph.root.descriptor
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        assert referrers(repository, subject.digest) == []
        kinds = {"application/vnd.example.sbom": b"{}", "application/vnd.example.signature": b"signed"}
        for kind, content in kinds.items():
            for _ in range(2):  # the second time changes nothing
                push_referrer(repository, subject, kind, content, media_type=kind, annotations={"a": "b"})
        found = referrers(repository, subject.digest)
        assert [(each.artifact_type, each.annotations) for each in found] == [(k, {"a": "b"}) for k in kinds]
        (one,) = referrers(repository, subject.digest, artifact_type="application/vnd.example.sbom")
        manifest = json.loads(repository.manifest(one.descriptor.digest).content)
        assert manifest["subject"] == {
            "mediaType": INDEX,
            "digest": subject.digest,
            "size": subject.size,
        }
        assert repository.manifest(fallback_tag(subject.digest)).media_type == INDEX
    assert fallback_tag(subject.digest) == subject.digest.replace(":", "-")


class TestLogins:
    """A registry with TLS and a login."""

    def test_the_right_one(self, guarded: Server, tls: Tls, layout: Path) -> None:
        who = StaticCredentials(guarded.host, Credential("the test", *LOGIN))
        settings = RegistrySettings(who, tls.authority)
        assert push_to(at(guarded, "a/b:1"), open_layout(layout), settings=settings).changed

    def test_a_wrong_one(self, guarded: Server, tls: Tls) -> None:
        who = StaticCredentials(guarded.host, Credential("the test", LOGIN[0], "wrong"))
        with (
            open_repository(at(guarded, "a/b:1"), RegistrySettings(who, tls.authority)) as repository,
            pytest.raises(Denied) as caught,
        ):
            repository.manifest("1")
        text = str(caught.value)
        assert "401 Unauthorized: the login of writer from the test is not enough: UNAUTHORIZED" in text
        assert "wrong" not in text

    def test_none(self, guarded: Server, tls: Tls) -> None:
        with (
            open_repository(at(guarded, "a/b:1"), RegistrySettings(authorities=tls.authority)) as repository,
            pytest.raises(Denied, match="it wants a login, and there is none for localhost"),
        ):
            repository.manifest("1")

    @pytest.mark.needs("skopeo")
    def test_the_one_that_skopeo_wrote(self, guarded: Server, tls: Tls, tmp_path: Path) -> None:
        logins = tmp_path / "auth.json"
        certificates = tmp_path / "certificates"
        certificates.mkdir()
        (certificates / "ca.crt").write_bytes(tls.authority.read_bytes())
        words = (
            "login",
            "--authfile",
            logins,
            "--cert-dir",
            certificates,
            "-u",
            LOGIN[0],
            "--password-stdin",
        )
        process.run("skopeo", *words, guarded.host, stdin=LOGIN[1].encode())
        settings = RegistrySettings(auth_files({"REGISTRY_AUTH_FILE": str(logins)}), tls.authority)
        with open_repository(at(guarded, "nobody/home:1"), settings) as repository, pytest.raises(NotFound):
            repository.manifest("1")


@pytest.mark.needs("skopeo")
class TestSkopeo:
    """Images pushed by one program and pulled by the other."""

    @pytest.fixture(autouse=True)
    def _own_logins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a directory of the user's own, skopeo looks for logins in /run/containers, which is
        root's."""
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def test_it_copies_what_we_pushed(self, server: Server, layout: Path, tmp_path: Path) -> None:
        push_to(at(server, "for/skopeo:1"), open_layout(layout))
        source = f"docker://{server.host}/for/skopeo:1"
        words = ("--all", "--preserve-digests", "--src-tls-verify=false")
        process.run("skopeo", "copy", *words, source, f"oci:{tmp_path / 'copied'}:1")
        assert blobs_of(tmp_path / "copied") == blobs_of(layout)

    def test_we_pull_what_it_pushed(self, server: Server, layout: Path, tmp_path: Path) -> None:
        target = f"docker://{server.host}/by/skopeo:1"
        words = ("--all", "--preserve-digests", "--dest-tls-verify=false")
        process.run("skopeo", "copy", *words, f"oci:{layout}:latest", target)
        cache = Cache(tmp_path / "cache")
        pull_layout(at(server, "by/skopeo:1"), tmp_path / "pulled", settings=RegistrySettings(), cache=cache)
        assert blobs_of(tmp_path / "pulled") == blobs_of(layout)

    def test_we_pull_docker_manifests_that_it_pushed(
        self, server: Server, layout: Path, tmp_path: Path
    ) -> None:
        target = f"docker://{server.host}/by/skopeo:docker"
        process.run(
            "skopeo", "copy", "--format", "v2s2", "--dest-tls-verify=false", f"oci:{layout}:latest", target
        )
        cache = Cache(tmp_path / "cache")
        pull_layout(
            at(server, "by/skopeo:docker"), tmp_path / "pulled", settings=RegistrySettings(), cache=cache
        )
        image = open_image(tmp_path / "pulled")
        assert image.manifest["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"


@pytest.mark.needs("docker")
def test_docker_pulls_what_we_pushed(server: Server, layout: Path) -> None:
    if not process.run("docker", "info", check=False, timeout=20):
        pytest.skip("no Docker daemon answers")
    done = push_to(at(server, "for/docker:1"), open_layout(layout))
    name = f"{server.host}/for/docker:1"
    try:
        process.run("docker", "pull", "-q", name, timeout=60)
        found = json.loads(process.run("docker", "image", "inspect", name).stdout)
        assert found[0]["RepoDigests"] == [f"{server.host}/for/docker@{done.digest}"]
    finally:
        process.run("docker", "rmi", "-f", name, check=False)


def test_one_platform_is_pulled(server: Server, layout: Path, tmp_path: Path) -> None:
    push_to(at(server, "platforms:1"), open_layout(layout))
    pull_layout(
        at(server, "platforms:1"),
        tmp_path / "pulled",
        platforms=["linux/arm64"],
        settings=RegistrySettings(),
        cache=Cache(tmp_path / "cache"),
    )
    assert open_image(tmp_path / "pulled").platform.architecture == "arm64"
    assert len(blobs_of(tmp_path / "pulled")) == 4


def test_a_login_is_read_as_docker_writes_it(guarded: Server, tls: Tls, tmp_path: Path) -> None:
    packed = base64.b64encode(":".join(LOGIN).encode()).decode()
    configuration = tmp_path / "config.json"
    configuration.write_text(json.dumps({"auths": {guarded.host: {"auth": packed}}}))
    settings = RegistrySettings(
        auth_files({"DOCKER_CONFIG": str(tmp_path), "HOME": str(tmp_path)}), tls.authority
    )
    with open_repository(at(guarded, "nobody/home:1"), settings) as repository, pytest.raises(NotFound):
        repository.manifest("1")
