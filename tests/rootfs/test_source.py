"""Opening images: every form they come in, the choice among several, and refusals before any use.

Tests of rootfs/images/candidates.py: the choice of one image by name and platform.
Tests of rootfs/images/dockerarchive.py.
Tests of rootfs/images/imageconfig.py.
Tests of rootfs/images/layout.py.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import ArchiveRefused, IntegrityError, SandwrightError, UsageError
from sandwright.rootfs.images.blobs import ArchiveBlobs
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.unpacking.unpack import unpack
from support import layouts, tars
from support.layouts import CONFIG, HELLO, INDEX, LAYER, MANIFEST, Json, Layout, named, platform
from support.thorough import examples

TOP = tars.archive(tars.file(b"top", b"upper layer"))


def contents(image: Image, tmp_path: Path) -> dict[str, bytes]:
    """The files of an image, unpacked."""
    unpack(image.layers, tmp_path / "unpacked")
    found = (path for path in (tmp_path / "unpacked").rglob("*") if path.is_file())
    return {str(path.relative_to(tmp_path / "unpacked")): path.read_bytes() for path in found}


# The forms.


def layout_directory(tmp_path: Path) -> Path:
    return layouts.simple(tmp_path / "layout", HELLO, TOP)


def layout_archive(tmp_path: Path) -> Path:
    return layouts.tar_of(tmp_path / "image.tar", layout_directory(tmp_path))


def layout_archive_with_dots(tmp_path: Path) -> Path:
    return layouts.tar_of(tmp_path / "image.tar", layout_directory(tmp_path), prefix="./")


def layout_archive_gzipped(tmp_path: Path) -> Path:
    return layouts.tar_of(tmp_path / "image.tar.gz", layout_directory(tmp_path), mode="w:gz")


def docker_archive(tmp_path: Path) -> Path:
    return layouts.tar_with(tmp_path / "image.tar", layouts.docker_members(HELLO, TOP))


def docker_archive_gzipped(tmp_path: Path) -> Path:
    plain = docker_archive(tmp_path)
    (tmp_path / "image.tar.gz").write_bytes(gzip.compress(plain.read_bytes()))
    return tmp_path / "image.tar.gz"


def docker_directory(tmp_path: Path) -> Path:
    for name, content in layouts.docker_members(HELLO, TOP):
        assert isinstance(content, bytes)
        (tmp_path / "saved" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "saved" / name).write_bytes(content)
    return tmp_path / "saved"


def podman_archive(tmp_path: Path) -> Path:
    """Layers at the top, named by diff_id; the old names are links to them."""
    raw = json.dumps(layouts.image_config([HELLO, TOP], None)).encode()
    names = [f"{hashlib.sha256(each).hexdigest()}.tar" for each in (HELLO, TOP)]
    config = f"{hashlib.sha256(raw).hexdigest()}.json"
    row = {"Config": config, "RepoTags": ["localhost/app:1"], "Layers": names}
    members: list[tuple[str, bytes | str]] = [
        *zip(names, (HELLO, TOP), strict=True),
        (config, raw),
        ("0" * 64 + "/layer.tar", f"../{names[0]}"),
        ("manifest.json", json.dumps([row]).encode()),
    ]
    return layouts.tar_with(tmp_path / "image.tar", members)


def hybrid_archive(tmp_path: Path) -> Path:
    """Both views over the same blobs, as Docker writes since release 25."""
    folder = layout_directory(tmp_path)
    manifest = json.loads(blob(folder, json.loads((folder / "index.json").read_text())["manifests"][0]))
    paths = [f"blobs/sha256/{each['digest'][7:]}" for each in (manifest["config"], *manifest["layers"])]
    row = {"Config": paths[0], "RepoTags": ["app:1"], "Layers": paths[1:]}
    (folder / "manifest.json").write_text(json.dumps([row]))
    return layouts.tar_of(tmp_path / "image.tar", folder)


def blob(folder: Path, descriptor: Json) -> bytes:
    file: Path = folder / "blobs/sha256" / descriptor["digest"][7:]
    return file.read_bytes()


FORMS = [
    layout_directory,
    layout_archive,
    layout_archive_with_dots,
    layout_archive_gzipped,
    docker_archive,
    docker_archive_gzipped,
    docker_directory,
    podman_archive,
    hybrid_archive,
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_gives_the_same_files(form: Callable[[Path], Path], tmp_path: Path) -> None:
    image = open_image(form(tmp_path))
    assert str(image.platform) == "linux/amd64"
    assert image.config["config"] == {"Cmd": ["/bin/hello"]}
    found = contents(image, tmp_path)
    assert found["top"] == b"upper layer"
    assert sorted(found) == ["bin/hello", "etc/group", "etc/passwd", "top"]


def test_digest_is_the_manifests_and_without_one_the_configs(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    manifest = layout.image(HELLO)
    image = open_image(layout.index(manifest))
    assert image.digest == manifest["digest"]
    saved = open_image(docker_archive(tmp_path))
    assert saved.digest == saved.config_digest
    assert saved.manifest == {}


def test_layer_saved_twice_is_a_link_to_the_first(tmp_path: Path) -> None:
    members = layouts.docker_members(HELLO, TOP, HELLO)
    assert members[-2][1] == f"../{0:064x}/layer.tar"
    image = open_image(layouts.tar_with(tmp_path / "image.tar", members))
    assert len(image.layers) == 3
    assert "top" in contents(image, tmp_path)


def test_saved_layer_may_be_compressed(tmp_path: Path) -> None:
    members = [
        (
            name,
            gzip.compress(content) if name.endswith("layer.tar") and isinstance(content, bytes) else content,
        )
        for name, content in layouts.docker_members(HELLO)
    ]
    image = open_image(layouts.tar_with(tmp_path / "image.tar", members))
    assert image.layers[0].digest != image.layers[0].diff_id
    assert "bin/hello" in contents(image, tmp_path)


@pytest.mark.needs("skopeo")
@pytest.mark.parametrize("transport", ["oci", "oci-archive", "docker-archive"])
def test_what_skopeo_writes(transport: str, tmp_path: Path) -> None:
    source = layouts.simple(tmp_path / "source", HELLO, TOP)
    target = tmp_path / "target"
    name = "sandwright-test:1"
    process.run("skopeo", "copy", "-q", f"oci:{source}", f"{transport}:{target}:{name}", timeout=60)
    image = open_image(target)
    assert any(each.endswith(name) for each in image.names)
    assert contents(image, tmp_path)["top"] == b"upper layer"


@pytest.mark.needs("umoci")
def test_manifest_without_media_type_is_what_umoci_writes(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    process.run("umoci", "init", "--layout", layout, timeout=30)
    process.run("umoci", "new", "--image", f"{layout}:new", timeout=30)
    image = open_image(layout)
    assert "mediaType" not in image.manifest
    assert image.layers == ()


# Archives are read in place.


def test_opening_an_archive_reads_its_headers_and_not_its_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = tars.archive(tars.file(b"big", os.urandom(8 << 20)))
    path = layouts.tar_with(tmp_path / "image.tar", layouts.docker_members(big))
    read = []
    original = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: read.append(n) or original(fd, n, at))  # type: ignore[func-returns-value]
    image = open_image(path)
    assert sum(read) < 1 << 20
    assert image.layers[0].size == len(big)


def test_an_archive_of_endless_members_is_refused(tmp_path: Path) -> None:
    members = [tars.file(b"%d" % n) for n in range(1000)]
    (tmp_path / "many.tar").write_bytes(tars.archive(*members))
    with pytest.raises(ArchiveRefused, match=r"has more members than an image needs: 7[0-9][0-9], and then"):
        ArchiveBlobs(tmp_path / "many.tar", limits=ArchiveLimits(names=200_000))
    assert ArchiveBlobs(tmp_path / "many.tar", limits=ArchiveLimits(names=300_000)).size("7") == 0


def test_layers_of_an_archive_can_be_read_at_once(tmp_path: Path) -> None:
    image = open_image(docker_archive(tmp_path))
    first, second = image.layers[0].open(), image.layers[1].open()
    assert first.read(10) + second.read(10) + first.read(10) == HELLO[:10] + TOP[:10] + HELLO[10:20]
    first.close()
    second.close()


# The choice.


def several(tmp_path: Path) -> tuple[Path, Json, Json]:
    """An index in an index, and a name for each platform, like the output of our own builder."""
    layout = Layout(tmp_path / "several")
    amd = layout.image(HELLO, arch="amd64", platform=platform("amd64"))
    arm = layout.image(HELLO, arch="arm64", platform=platform("arm64", variant="v8"))
    nested = layout.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [amd, arm]}, INDEX)
    path = layout.index(named(nested, "latest"), named(amd, "amd64"), named(arm, "arm64"))
    return path, amd, arm


@pytest.mark.parametrize(
    ("wanted", "ref", "chosen"),
    [
        ("linux/amd64", None, "amd"),
        ("linux/arm64", None, "arm"),
        ("linux/arm64/v8", None, "arm"),
        ("linux/aarch64", None, "arm"),
        ("linux/amd64", "latest", "amd"),
        ("linux/arm64", "latest", "arm"),
        (None, "arm64", "arm"),
        (None, "amd64", "amd"),
    ],
)
def test_platform_and_name_choose(wanted: str | None, ref: str | None, chosen: str, tmp_path: Path) -> None:
    path, amd, arm = several(tmp_path)
    image = open_image(path, platform=wanted, ref=ref)
    assert image.digest == {"amd": amd, "arm": arm}[chosen]["digest"]
    assert "latest" in image.names


def test_digest_chooses(tmp_path: Path) -> None:
    path, _, arm = several(tmp_path)
    assert open_image(path, ref=arm["digest"]).digest == arm["digest"]


def test_several_platforms_are_an_error_that_lists_them(tmp_path: Path) -> None:
    path, amd, arm = several(tmp_path)
    expected = (
        f"{path}: several images; name a platform: "
        f"linux/amd64 latest amd64 ({amd['digest'][:19]}…); linux/arm64 latest arm64 ({arm['digest'][:19]}…)"
    )
    with pytest.raises(UsageError) as raised:
        open_image(path)
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("wanted", "ref", "message"),
    [
        ("linux/riscv64", None, "no image for linux/riscv64; it has linux/amd64"),
        (None, "nightly", "no image named 'nightly'; it has linux/amd64"),
        (None, "latest", "several images named 'latest'; name a platform"),
        ("linux/arm64/v7", None, "no image for linux/arm64/v7"),
        ("amd64", None, "platform 'amd64': expected os/architecture"),
        ("linux/../etc", None, "platform 'linux/../etc': expected"),
    ],
)
def test_what_can_not_be_chosen(wanted: str | None, ref: str | None, message: str, tmp_path: Path) -> None:
    path, _, _ = several(tmp_path)
    with pytest.raises(UsageError) as raised:
        open_image(path, platform=wanted, ref=ref)
    assert message in str(raised.value)


def test_a_name_with_a_line_break_is_listed_in_one(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    names = [{"org.opencontainers.image.ref.name": f"{each}\n::error::x"} for each in "ab"]
    layout.index(
        *({**layout.image(HELLO, change_config={"author": str(each)}), "annotations": each} for each in names)
    )
    with pytest.raises(UsageError) as raised:
        open_image(layout.path)
    assert r"a\n::error::x" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_images_of_a_platform_are_chosen_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    one, two = layout.image(HELLO), layout.image(TOP)
    path = layout.index(named(one, "one"), named(two, "two"))
    with pytest.raises(UsageError, match="name one by its reference or digest: linux/amd64 one"):
        open_image(path)
    assert open_image(path, ref="two").digest == two["digest"]


def test_docker_tag_may_leave_out_registry_and_latest(tmp_path: Path) -> None:
    tags = ["docker.io/library/app:latest", "registry.example/team/app:2"]
    path = layouts.tar_with(tmp_path / "image.tar", layouts.docker_members(HELLO, tags=tags))
    for ref in ("app", "app:latest", "docker.io/library/app:latest", "team/app:2"):
        assert open_image(path, ref=ref).names == tuple(tags)
    with pytest.raises(UsageError, match="no image named 'pp:latest'"):
        open_image(path, ref="pp:latest")


def test_variant_is_chosen_when_only_one_fits(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    six, seven = (
        layout.image(HELLO, arch="arm", change_config={"variant": v}, platform=platform("arm", variant=v))
        for v in ("v6", "v7")
    )
    path = layout.index(six, seven)
    assert open_image(path, platform="linux/arm").digest == seven["digest"]
    assert open_image(path, platform="linux/arm/v6").digest == six["digest"]
    assert open_image(layout.index(six), platform="linux/arm").digest == six["digest"]


def test_attestations_and_artifacts_are_no_images(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    real = layout.image(HELLO, platform=platform("amd64"))
    attestation = layout.image(TOP, platform=platform("unknown", "unknown"))
    config = layout.blob(b"{}", "application/vnd.oci.empty.v1+json")
    artifact = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}
    path = layout.index(attestation, layout.document(artifact, MANIFEST), real)
    assert open_image(path).digest == real["digest"]


def test_platforms_that_were_not_saved_are_no_choice(tmp_path: Path) -> None:
    path, amd, arm = several(tmp_path)
    (path / "blobs/sha256" / arm["digest"][7:]).unlink()
    assert open_image(path).digest == amd["digest"]
    (path / "blobs/sha256" / amd["digest"][7:]).unlink()
    with pytest.raises(IntegrityError, match=f"the blob {amd['digest']} is missing"):
        open_image(path)


# Refusals. Each row changes one thing in a layout that opens.

Change = Callable[[Layout], None]


def in_index(**changes: Any) -> Change:
    """Change the only descriptor of index.json; None removes a field."""

    def change(layout: Layout) -> None:
        row = {**layout.image(HELLO), **changes}
        layout.index({key: value for key, value in row.items() if value is not None})

    return change


def in_manifest(**changes: Any) -> Change:
    """Change fields of the manifest."""
    return lambda layout: void(layout.index(layout.image(HELLO, change=changes)))


def in_layer(**changes: Any) -> Change:
    """Change the descriptor of the only layer."""

    def change(layout: Layout) -> None:
        manifest = layout.manifest(HELLO)
        manifest["layers"][0] |= changes
        layout.index(layout.document(manifest, MANIFEST))

    return change


def in_config(**changes: Any) -> Change:
    """Change fields of the image's configuration."""
    return lambda layout: void(layout.index(layout.image(HELLO, change_config=changes)))


def index_text(text: str) -> Change:
    """Write index.json as text."""
    return lambda layout: void((layout.path / "index.json").write_text(text))


def manifest_bytes(raw: bytes) -> Change:
    """A manifest of these bytes, with the right digest and size."""
    return lambda layout: void(layout.index(layout.blob(raw, MANIFEST)))


def void(_: object) -> None:
    """Nothing."""


GOOD = "sha256:" + "a" * 64

REFUSED = {
    "no media type": (in_index(mediaType=None), "manifests[0]: mediaType is required"),
    "digest climbs": (
        in_index(digest="sha256:../../../etc/passwd"),
        "'sha256:../../../etc/passwd' is not a digest",
    ),
    "digest with a slash": (in_index(digest="sha256/x:" + "a" * 64), "is not a digest"),
    "digest upper case": (
        in_index(digest=GOOD.upper().replace("SHA", "sha")),
        "expected 64 lower-case hex digits",
    ),
    "digest too short": (in_index(digest=GOOD[:-1]), "expected 64 lower-case hex digits"),
    "digest too long": (in_index(digest=GOOD + "a"), "expected 64 lower-case hex digits"),
    "digest with a newline": (in_index(digest=GOOD + "\n"), "is not a digest"),
    "digest of sha512's length": (
        in_index(digest="sha512:" + "a" * 64),
        "expected 128 lower-case hex digits",
    ),
    "digest we can't compute": (
        in_index(digest="md5:" + "a" * 32),
        "the algorithm is none of sha256, sha512",
    ),
    "digest no string": (in_index(digest=7), "7 is not a digest"),
    "size negative": (in_index(size=-1), "size -1 is not a number of bytes"),
    "size true": (in_index(size=True), "size True is not a number of bytes"),
    "size a fraction": (in_index(size=1.5), "size 1.5 is not a number of bytes"),
    "size enormous": (in_index(size=1 << 70), "is not a number of bytes"),
    "annotations no strings": (in_index(annotations={"a": 1}), "annotations: values must be strings"),
    "platform no object": (in_index(platform="linux/amd64"), "expected an object"),
    "manifest that is an index too": (in_manifest(manifests=[]), "a manifest that also has manifests"),
    "the same, in another case": (in_manifest(Manifests=[]), "a manifest that also has manifests"),
    "index that is a manifest too": (
        index_text('{"schemaVersion": 2, "manifests": [], "layers": []}'),
        "an index that also has layers",
    ),
    "index with a config": (
        index_text('{"schemaVersion": 2, "manifests": [], "Config": {}}'),
        "an index that also has config",
    ),
    "manifest says index": (
        in_manifest(mediaType=INDEX),
        f"says it is '{INDEX}', its descriptor says {MANIFEST}",
    ),
    "manifest of another schema": (in_manifest(schemaVersion=1), "schemaVersion must be 2"),
    "manifest of schema true": (in_manifest(schemaVersion=True), "schemaVersion must be 2"),
    "manifest with a key twice": (
        manifest_bytes(b'{"schemaVersion":2,"config":{},"config":{},"layers":[]}'),
        "key 'config' twice",
    ),
    "manifest with NaN": (manifest_bytes(b'{"schemaVersion":2,"a":NaN}'), "NaN is no number of JSON"),
    "manifest no JSON": (manifest_bytes(b"\x1f\x8b"), "not valid JSON"),
    "manifest an array": (manifest_bytes(b"[]"), "expected an object"),
    "manifest endlessly nested": (manifest_bytes(b"[" * 100_000), "not valid JSON"),
    "manifest without layers": (
        manifest_bytes(b'{"schemaVersion":2,"config":{}}'),
        "config, layers required",
    ),
    "manifest too large": (manifest_bytes(b'{"a":"' + b"x" * (4 << 20) + b'"}'), "at most 4194304 are read"),
    "config too large": (in_config(padding="x" * (8 << 20)), "at most 8388608 are read"),
    "media type with a line break": (
        in_layer(mediaType="x\n::error::y"),
        r"'x\n::error::y' is no media type",
    ),
    "platform with a line break": (in_index(platform=platform("x\n::error::y")), "must be printable strings"),
    "architecture with a line break": (in_config(architecture="x\n::error::y"), "and printable strings"),
    "half of a character": (in_config(config={"Entrypoint": ["/bin/\ud800"]}), "half of a character"),
    "a number without an end": (
        index_text('{"schemaVersion": 2, "manifests": [], "annotations": {"a": 1e999}}'),
        "1e999 is larger than any number",
    ),
    "layers no array": (in_manifest(layers={}), "expected an array"),
    "layer encrypted": (
        in_layer(mediaType=f"{LAYER}+gzip+encrypted"),
        "is not a layer that can be unpacked here",
    ),
    "layer not there": (in_layer(digest=GOOD), f"the blob {GOOD} is missing"),
    "layer of another size": (in_layer(size=7), "bytes, its descriptor says 7"),
    "fewer diff_ids than layers": (
        in_config(rootfs={"type": "layers", "diff_ids": []}),
        "layers: 1 of them, and 0 diff_ids in the config",
    ),
    "diff_id that climbs": (
        in_config(rootfs={"type": "layers", "diff_ids": ["sha256:../x"]}),
        "rootfs.diff_ids[0]: 'sha256:../x' is not a digest",
    ),
    "rootfs of another type": (
        in_config(rootfs={"type": "base", "diff_ids": []}),
        "rootfs.type must be 'layers'",
    ),
    "no rootfs": (in_config(rootfs=None), "rootfs: expected an object"),
    "windows": (in_config(os="windows"), "it is for 'windows'; only images for linux"),
    "no architecture": (in_config(architecture=""), "os and architecture are required"),
    "platform that the config denies": (
        in_index(platform=platform("arm64")),
        "an index says linux/arm64, its config linux/amd64",
    ),
    "index.json of another kind": (
        index_text(json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "manifests": []})),
        f"says it is '{MANIFEST}', its descriptor says {INDEX}",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_breaks_a_rule_is_refused(change: Change, message: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    layout.index(layout.image(HELLO))
    open_image(layout.path)
    change(layout)
    with pytest.raises((ArchiveRefused, IntegrityError)) as raised:
        open_image(layout.path)
    assert message in str(raised.value)
    assert str(layout.path) in str(raised.value)


def test_flipped_bit_in_a_manifest_is_found(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    manifest = layout.image(HELLO)
    path = layout.index(manifest)
    file = path / "blobs/sha256" / manifest["digest"][7:]
    file.write_bytes(file.read_bytes().replace(b"schemaVersion", b"schemaversion"))
    with pytest.raises(IntegrityError, match="does not have the digest that names it"):
        open_image(path)


@pytest.mark.parametrize("wrong", ["symlink", "fifo", "directory", "linked directory", "missing"])
def test_blob_that_is_no_file_is_never_opened(wrong: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    manifest = layout.image(HELLO)
    path = layout.index(manifest)
    file = path / "blobs/sha256" / manifest["digest"][7:]
    outside = tmp_path / "outside"
    if wrong == "linked directory":
        (path / "blobs").rename(outside)
        (path / "blobs").symlink_to(outside)
    else:
        file.rename(outside)
    if wrong == "symlink":
        file.symlink_to(outside)
    elif wrong == "fifo":
        os.mkfifo(file)
    elif wrong == "directory":
        file.mkdir()
    with pytest.raises((ArchiveRefused, IntegrityError)):
        open_image(path)


def test_indexes_nested_without_end_are_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    inner = layout.image(HELLO)
    for _ in range(8):
        inner = layout.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]}, INDEX)
    assert open_image(layout.index(inner)).layers
    inner = layout.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]}, INDEX)
    with pytest.raises(ArchiveRefused, match="nested more than 8 deep"):
        open_image(layout.index(inner))


def test_index_with_endless_descriptors_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    row = layout.image(HELLO, platform=platform("amd64"))
    with pytest.raises(ArchiveRefused, match="more than 10000 descriptors"):
        open_image(layout.index(*[row] * 10_001))


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('{"imageLayoutVersion": "2.0.0"}', "imageLayoutVersion must be '1.0.0'"),
        ("{}", "imageLayoutVersion must be '1.0.0'"),
        ("nothing", "oci-layout: not valid JSON"),
    ],
)
def test_layout_marker_is_checked(marker: str, message: str, tmp_path: Path) -> None:
    path = layouts.simple(tmp_path / "layout")
    (path / "oci-layout").write_text(marker)
    with pytest.raises(ArchiveRefused, match=message):
        open_image(path)


def test_two_views_that_disagree_are_refused(tmp_path: Path) -> None:
    folder = layouts.simple(tmp_path / "layout")
    (folder / "manifest.json").write_text(json.dumps([{"Config": f"{'a' * 64}.json", "Layers": []}]))
    with pytest.raises(ArchiveRefused, match=r"index.json leads to sha256:.*, manifest.json to sha256:a{64}"):
        open_image(folder)


# Docker archives.


def edited(members: list[tuple[str, bytes | str]], **fields: Any) -> list[tuple[str, bytes | str]]:
    """The members with fields of manifest.json changed."""
    rows = json.loads(members[-1][1])
    rows[0].update(fields)
    return [*members[:-1], ("manifest.json", json.dumps(rows).encode())]


SAVED_REFUSED = {
    "config that climbs": ({"Config": "../../etc/passwd"}, "'../../etc/passwd' is not a plain relative path"),
    "config absolute": ({"Config": "/etc/passwd"}, "'/etc/passwd' is not a plain relative path"),
    "a layer with a line break": (
        {"Layers": ["a\n::error::b"]},
        r"'a\n::error::b' is not a plain relative path",
    ),
    "config missing": ({"Config": "b.json"}, "b.json is missing"),
    "config no string": ({"Config": None}, "'None' is not a plain relative path"),
    "layer that climbs": ({"Layers": ["a/../../b"]}, "is not a plain relative path"),
    "layer missing": ({"Layers": ["a/layer.tar"]}, "the layer a/layer.tar is missing"),
    "more layers than diff_ids": ({"Layers": ["x", "y"]}, "2 layers, 1 diff_ids"),
    "layers no array": ({"Layers": "x"}, "expected an array"),
}


@pytest.mark.parametrize(("fields", "message"), SAVED_REFUSED.values(), ids=SAVED_REFUSED.keys())
def test_saved_archive_that_breaks_a_rule(fields: Json, message: str, tmp_path: Path) -> None:
    path = layouts.tar_with(tmp_path / "image.tar", edited(layouts.docker_members(HELLO), **fields))
    with pytest.raises((ArchiveRefused, IntegrityError)) as raised:
        open_image(path)
    assert message in str(raised.value)


def test_config_must_be_what_its_name_promises(tmp_path: Path) -> None:
    members = layouts.docker_members(HELLO)
    assert isinstance(members[0][1], bytes)
    members[0] = (members[0][0], members[0][1].replace(b"amd64", b"arm64"))
    with pytest.raises(IntegrityError, match="does not have the digest that names it"):
        open_image(layouts.tar_with(tmp_path / "image.tar", members))


def test_layer_that_is_not_what_was_saved_is_found_when_unpacked(tmp_path: Path) -> None:
    members = layouts.docker_members(HELLO)
    assert isinstance(members[2][1], bytes)
    members[2] = (members[2][0], members[2][1].replace(b"#!/bin/sh", b"#!/bin/xx"))
    image = open_image(layouts.tar_with(tmp_path / "image.tar", members))
    with pytest.raises(IntegrityError):
        unpack(image.layers, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("../../../../etc/passwd", "is missing"),
        ("/etc/passwd", "is missing"),
        ("layer.tar", "lead in a circle"),
    ],
)
def test_links_in_an_archive_stay_in_it(link: str, message: str, tmp_path: Path) -> None:
    members = [
        (name, link if name.endswith("layer.tar") else content)
        for name, content in layouts.docker_members(HELLO)
    ]
    with pytest.raises((ArchiveRefused, IntegrityError), match=message):
        open_image(layouts.tar_with(tmp_path / "image.tar", members))


def test_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    members = layouts.docker_members(HELLO)
    with pytest.raises(ArchiveRefused, match=r"'manifest.json' is there twice"):
        open_image(layouts.tar_with(tmp_path / "image.tar", [*members, ("manifest.json", b"[]")]))


def test_several_saved_images(tmp_path: Path) -> None:
    first = layouts.docker_members(HELLO, tags=["a:1"])
    second = layouts.docker_members(TOP, tags=["b:1"])
    rows = [json.loads(members[-1][1])[0] for members in (first, second)]
    rows[1]["Layers"] = ["other/layer.tar"]
    members = [*first[:-1], second[0], ("other/layer.tar", TOP), ("manifest.json", json.dumps(rows).encode())]
    path = layouts.tar_with(tmp_path / "image.tar", members)
    with pytest.raises(
        UsageError, match="several images; name one by its reference or digest: linux/amd64 a:1"
    ):
        open_image(path)
    assert contents(open_image(path, ref="b:1"), tmp_path) == {"top": b"upper layer"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a tar archive, or an empty one"),
        (b"no archive at all" * 100, "checksum is wrong|is not a tar archive"),
        (tars.archive(tars.file(b"a", b"b")), "neither an OCI layout"),
        (tars.header(b"manifest.json", size=4096), "ends in the middle of the member"),
        (tars.archive(tars.file(b"repositories", b"{}")), "Docker before 1.10"),
    ],
    ids=["empty", "text", "another archive", "truncated", "ancient"],
)
def test_file_that_is_no_image(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(SandwrightError, match=message):
        open_image(tmp_path / "image.tar")


def test_path_that_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, message in (
        ("none", "no such file"),
        ("fifo", "not a file or directory"),
        (".", "neither an OCI"),
    ):
        with pytest.raises(UsageError, match=message):
            open_image(tmp_path / name)


@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_damaged_documents_never_fail_in_another_way(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "layout"
    if not path.exists():
        layouts.simple(path)
    good = (path / "index.json").read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    raw = good[:at] + data.draw(st.binary(max_size=4)) + good[at + data.draw(st.integers(0, 3)) :]
    (path / "index.json").write_bytes(raw)
    refusal = str(path)
    try:
        open_image(path)
    except SandwrightError as error:
        refusal = str(error)
    finally:
        (path / "index.json").write_bytes(good)
    assert str(path) in refusal


ODD: list[Any] = [None, True, -1, 10**30, "", "x", [], ["x"], [[]], {}, {"a": []}]


def places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    for key, value in (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    ):
        yield (*at, key)
        yield from places(value, (*at, key))


def put(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = json.loads(json.dumps(document))
    inside = functools.reduce(operator.getitem, place[:-1], changed)
    inside[place[-1]] = value
    return changed


@pytest.mark.parametrize("kind", ["index", "manifest", "config"])
def test_no_value_of_another_type_fails_in_another_way(kind: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    manifest = layout.manifest(HELLO)
    config = json.loads((layout.path / "blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes())
    tried = 0
    documents = {
        "index": {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [layout.document(manifest, MANIFEST, annotations={"a": "b"})],
            "annotations": {"a": "b"},
        },
        "manifest": {"mediaType": MANIFEST, "annotations": {"a": "b"}, **manifest},
        "config": {"history": [{"created_by": "x"}], **config},
    }
    for place, value in itertools.product(places(documents[kind]), ODD):
        changed = documents | {kind: put(documents[kind], place, value)}
        if kind == "config":
            changed["manifest"] = {
                **documents["manifest"],
                "config": layout.document(changed["config"], CONFIG),
            }
        if kind != "index":
            row = layout.document(changed["manifest"], MANIFEST)
            changed["index"] = {**documents["index"], "manifests": [row]}
        (layout.path / "index.json").write_text(json.dumps(changed["index"]))
        tried += 1
        try:
            open_image(layout.path)
        except SandwrightError:
            continue
    assert tried > 100
