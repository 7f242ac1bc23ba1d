"""Archives of an image: one stream, the same bytes every time, and loaded by the engines that are here."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import IntegrityError, UsageError
from sandwright.image.build import BuiltImage
from sandwright.image.export import write_archive
from support.smallworld import contents, small_world

PLATFORM = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}.get(platform.machine(), "linux/amd64")
REFERENCE = "sandwright-test/thing:one"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    return small_world(tmp_path_factory.mktemp("world")).build()["app"]


def archived(built: BuiltImage, platform_name: str = PLATFORM, reference: str = REFERENCE) -> bytes:
    sink = io.BytesIO()
    write_archive(built.layout, platform_name, sink, reference=reference)
    return sink.getvalue()


def test_what_is_in_it(built: BuiltImage) -> None:
    with tarfile.open(fileobj=io.BytesIO(archived(built, "linux/arm64"))) as archive:
        files = {each.name: archive.extractfile(each) for each in archive if each.isreg()}
        data = {name: file.read() for name, file in files.items() if file is not None}
    image = built.images["linux/arm64"]
    blobs = {name.removeprefix("blobs/sha256/") for name in data if name.startswith("blobs/")}
    assert blobs == {blob.name for blob in image.blobs}
    assert all(hashlib.sha256(data[f"blobs/sha256/{name}"]).hexdigest() == name for name in blobs)
    assert json.loads(data["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (descriptor,) = json.loads(data["index.json"])["manifests"]
    assert descriptor["digest"] == image.manifest.digest
    assert descriptor["platform"] == {"os": "linux", "architecture": "arm64", "variant": "v8"}
    assert descriptor["annotations"] == {
        "io.containerd.image.name": REFERENCE,
        "org.opencontainers.image.ref.name": "one",
    }
    assert json.loads(data["manifest.json"]) == [
        {
            "Config": f"blobs/sha256/{image.config.name}",
            "Layers": [f"blobs/sha256/{layer.name}" for layer in image.layers],
            "RepoTags": [REFERENCE],
        }
    ]


def test_the_same_bytes_every_time(built: BuiltImage) -> None:
    assert archived(built) == archived(built)


@pytest.mark.parametrize("reference", ["thing", "host:5000/thing", ":tag", ""])
def test_a_name_needs_a_tag(built: BuiltImage, reference: str) -> None:
    with pytest.raises(UsageError, match="is not a name with a tag, like sandwright/debian:latest"):
        archived(built, reference=reference)


def test_an_unknown_platform(built: BuiltImage) -> None:
    with pytest.raises(UsageError, match="has no image for linux/s390x, only for linux/amd64, linux/arm64"):
        archived(built, "linux/s390x")


def test_a_damaged_layer_is_not_passed_on(tmp_path: Path) -> None:
    built = small_world(tmp_path).build()["base"]
    path = built.layout / "blobs/sha256" / built.images[PLATFORM].layers[0].name
    raw = bytearray(path.read_bytes())
    raw[50] ^= 1
    path.write_bytes(raw)
    with pytest.raises(IntegrityError, match="its digest is sha256:"):
        archived(built)


class _Counting:
    """A sink that remembers the length of the longest piece."""

    longest = 0

    def write(self, data: bytes, /) -> None:
        self.longest = max(self.longest, len(data))


def test_it_is_a_stream(tmp_path: Path) -> None:
    built = small_world(tmp_path, payload=os.urandom(5 << 20)).build("base")["base"]
    sink = _Counting()
    write_archive(built.layout, PLATFORM, sink, reference=REFERENCE)
    assert 0 < sink.longest <= 1 << 20


@pytest.fixture
def named(built: BuiltImage, tmp_path: Path) -> tuple[str, Path]:
    """An archive in a file, under a unique name."""
    name = f"sandwright-test-{uuid.uuid4().hex[:12]}/thing:one"
    path = tmp_path / "archive.tar"
    path.write_bytes(archived(built, reference=name))
    return name, path


def answers(engine: str) -> str:
    done = process.run(engine, "info", check=False, timeout=30)
    return "" if done else f"{engine} does not answer: {done.stderr[-200:]}"


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, named: tuple[str, Path]) -> Iterator[str]:
    name: str = request.param
    if process.find(name) is None:
        pytest.skip(f"{name} is not installed")
    silent = answers(name)
    if silent:
        pytest.skip(silent)
    yield name
    process.run(name, "rmi", "--force", named[0], check=False)


def test_engines_load_it(built: BuiltImage, engine: str, named: tuple[str, Path]) -> None:
    name, path = named
    process.run(engine, "load", "--input", path, timeout=120)
    (found,) = json.loads(process.run(engine, "inspect", "--type", "image", name).stdout)
    assert found["Id"].removeprefix("sha256:") == built.images[PLATFORM].config.name
    assert found["RootFS"]["Layers"] == list(built.images[PLATFORM].diff_ids)
    assert found["Config"]["Entrypoint"] == ["/bin/run"]
    assert found["Config"]["User"] == "1000"


@pytest.mark.needs("skopeo")
@pytest.mark.parametrize("transport", ["oci-archive", "docker-archive"])
def test_skopeo_reads_it(built: BuiltImage, named: tuple[str, Path], transport: str) -> None:
    config = process.run("skopeo", "inspect", "--config", "--raw", f"{transport}:{named[1]}").stdout
    assert hashlib.sha256(config).hexdigest() == built.images[PLATFORM].config.name


@pytest.mark.needs("skopeo")
@pytest.mark.parametrize("name", ["latest", "amd64", "arm64"])
def test_skopeo_reads_the_layout(built: BuiltImage, name: str) -> None:
    expected = {"latest": PLATFORM, "amd64": "linux/amd64", "arm64": "linux/arm64"}[name]
    found = json.loads(process.run("skopeo", "inspect", f"oci:{built.layout}:{name}").stdout)
    assert found["Layers"] == [layer.digest for layer in built.images[expected].layers]
    assert found["Architecture"] == expected.removeprefix("linux/")


@pytest.mark.needs("umoci")
@pytest.mark.skipif(os.geteuid() != 0, reason="unpacking with owners and devices needs root")
@pytest.mark.parametrize("name", ["amd64", "arm64"])
def test_umoci_unpacks_the_layout(built: BuiltImage, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "bundle"
    process.run("umoci", "unpack", "--image", f"{built.layout}:{name}", bundle)
    tree = contents(built.layout, built.images[f"linux/{name}"].manifest.digest)
    rootfs = bundle / "rootfs"
    found = {str(path.relative_to(rootfs)) for path in rootfs.rglob("*")}
    assert found == set(tree)
    for path, member in tree.items():
        status = (rootfs / path).lstat()
        assert (status.st_uid, status.st_gid) == (member.uid, member.gid)
        if member.kind == tarfile.REGTYPE:
            assert (rootfs / path).read_bytes() == member.data
            assert status.st_mode & 0o7777 == member.mode


@pytest.mark.needs("podman")
def test_podman_pulls_the_layout(built: BuiltImage) -> None:
    silent = answers("podman")
    if silent:
        pytest.skip(silent)
    source = f"oci:{built.layout}:latest"
    identity = process.run("podman", "pull", "--quiet", source, timeout=120).text
    try:
        assert identity == built.images[PLATFORM].config.name
    finally:
        process.run("podman", "rmi", "--force", identity, check=False)
