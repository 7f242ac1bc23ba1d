"""The choices of a release for its images: labels, which are also annotations and part of the provenance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import ArchiveRefused, IntegrityError, UsageError
from sandwright.image.compress import Compression
from sandwright.image.existing import read_layout
from sandwright.image.variant import ImageVariant, decode_variant, parse_labels
from sandwright.release import provenance, sources, statement
from sandwright.release.rebuild import rebuild
from sandwright.release.statement import PROVENANCE
from support.releases import released, supply
from support.smallworld import World, contents, document, small_world
from support.standby import COMMAND as SANDWRIGHT

OCI = "org.opencontainers.image."
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LABELS = {
    f"{OCI}source": "https://git.example/team/app",
    f"{OCI}revision": COMMIT,
    f"{OCI}version": "1.2",
    "com.example.team": "blue",
}
VARIANT = ImageVariant(LABELS)
GZIP, ZSTD = Compression("gzip", 1), Compression("zstd", 3)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path)


def described(world: World, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Labels, and the annotations of manifest and index."""
    built = world.build(name, variant=VARIANT)[name]
    image = built.images["linux/arm64"]
    config = document(built.layout, image.config.digest)["config"]
    manifest = document(built.layout, image.manifest.digest)
    return config["Labels"], manifest["annotations"], document(built.layout, built.digest)["annotations"]


def test_labels_are_annotations_too(world: World) -> None:
    for found in described(world, "app"):
        assert LABELS.items() <= found.items()
        assert found[f"{OCI}title"] == "app"


def test_labels_of_a_definition_are_annotations_if_they_identify_the_image(world: World) -> None:
    path = world.images / "app/image.yaml"
    path.write_text(path.read_text().replace("{kind: app}", f"{{kind: app, {OCI}licenses: MIT}}"))
    labels, manifest, index = described(world, "app")
    assert (labels["kind"], labels[f"{OCI}licenses"]) == ("app", "MIT")
    for each in (manifest, index):
        assert each[f"{OCI}licenses"] == "MIT"
        assert "kind" not in each


def test_what_identifies_the_base_is_not_inherited(world: World) -> None:
    path = world.images / "base/image.yaml"
    path.write_text(path.read_text().replace("{kind: base}", f"{{only: base, {OCI}version: '12'}}"))
    world.lock(world.catalogue["base"], world.packages())
    built = world.build("app")["app"]
    config = document(built.layout, built.images["linux/amd64"].config.digest)["config"]
    assert config["Labels"]["only"] == "base"
    assert f"{OCI}version" not in config["Labels"]


def test_an_image_is_built_again_for_other_labels_only(world: World) -> None:
    plain = world.build("app")["app"]
    labelled = world.build("app", variant=VARIANT)["app"]
    again = world.build("app", variant=VARIANT)["app"]
    back = world.build("app")["app"]
    assert (labelled.changed, again.changed, back.changed) == (True, False, True)
    assert plain.digest == back.digest != labelled.digest
    assert labelled.images["linux/amd64"].layers == plain.images["linux/amd64"].layers


def test_a_labelled_image_is_released_and_made_again(world: World, tmp_path: Path) -> None:
    built = world.build(variant=VARIANT)
    release = released(world, built)
    (claim,) = (each for each in release.claims if each.predicate_type == PROVENANCE)
    definition = json.loads(claim.payload)["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["labels"] == LABELS
    assert definition["resolvedDependencies"][-1] == {
        "name": "repository",
        "uri": f"git+{LABELS[f'{OCI}source']}",
        "digest": {"gitCommit": COMMIT},
    }
    made = provenance.read_provenance(
        statement.decode_statement(claim.payload, "it"), release.root.digest, "it"
    )
    assert made.parameters.variant == VARIANT
    written = sources.collect_sources(world.catalogue, "app")
    published = world.output / "images/app"
    assert rebuild(made, written, published, tmp_path, supply(world)) == release.root.digest


@pytest.mark.parametrize("by", ["definition", "option"])
def test_layers_of_zstandard(world: World, by: str) -> None:
    before = world.build("app")["app"]
    tree = contents(before.layout, before.images["linux/amd64"].manifest.digest)
    if by == "definition":
        path = world.images / "app/image.yaml"
        path.write_text(path.read_text() + "compression: zstd:3\n")
    variant = ImageVariant() if by == "definition" else ImageVariant(compression=ZSTD)
    app = world.build("app", variant=variant)["app"]
    held = app.images["linux/amd64"]
    own = 1 if by == "definition" else len(held.types)
    assert held.types[-own:] == (ZSTD.media_type,) * own
    assert held.types[:-own] == (GZIP.media_type,) * (len(held.types) - own)
    manifest = document(app.layout, held.manifest.digest)
    assert manifest["annotations"]["dev.sandwright.layer.codec"] == ZSTD.identity
    assert held.diff_ids == before.images["linux/amd64"].diff_ids
    assert contents(app.layout, held.manifest.digest) == tree
    assert not world.build("app", variant=variant)["app"].changed


def test_an_image_of_zstandard_is_released_and_made_again(world: World, tmp_path: Path) -> None:
    release = released(world, world.build(variant=ImageVariant(compression=ZSTD)))
    (claim,) = (each for each in release.claims if each.predicate_type == PROVENANCE)
    made = provenance.read_provenance(
        statement.decode_statement(claim.payload, "it"), release.root.digest, "it"
    )
    assert (made.parameters.variant.compression, made.codec) == (ZSTD, ZSTD.identity)
    written = sources.collect_sources(world.catalogue, "app")
    published = world.output / "images/app"
    assert rebuild(made, written, published, tmp_path, supply(world)) == release.root.digest


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ([], {}),
        (["revision=1", "source=https://x"], {f"{OCI}revision": "1", f"{OCI}source": "https://x"}),
        (["com.example/a=b=c d"], {"com.example/a": "b=c d"}),
        ([f"{OCI}version=1", "version=1"], {f"{OCI}version": "1"}),
    ],
)
def test_labels_on_the_command_line(words: list[str], labels: dict[str, str]) -> None:
    assert parse_labels(words) == labels


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("version", "--label 'version' is not KEY=VALUE"),
        ("version=", "--label 'version=' is not KEY=VALUE"),
        ("=x", "--label '=x' is not KEY=VALUE"),
        ("version=a\nb", "is not KEY=VALUE"),
        ("versoin=1", "--label: unknown key 'versoin'; short keys are authors"),
        (f"{OCI}title=x", f"--label: {OCI}title is set by the build"),
        (f"{OCI}base.digest=x", f"--label: {OCI}base.digest is set by the build"),
    ],
)
def test_no_label(word: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_labels([word])
    assert message in str(caught.value)


def test_the_command(world: World) -> None:
    where = ("--images", world.images, "--output", world.output, "--mirror", f"file://{world.mirror}/debian")
    words = ("--platform", "linux/amd64", "--no-smoke", "--label", "version=1.2", "--label", "licenses=MIT")
    codec = ("--compression", "zstd")
    process.run(*SANDWRIGHT, "build-images", "app", *where, *words, *codec, cwd=world.root, timeout=120)
    layout = read_layout(world.output / "images/app")
    assert layout.variant.compression == Compression("zstd", 9)
    assert layout.variant.labels == {f"{OCI}version": "1.2", f"{OCI}licenses": "MIT"}
    config = document(layout.path, layout.images["linux/amd64"].config.digest)
    assert layout.variant.labels.items() <= config["config"]["Labels"].items()


def test_a_label_with_two_values() -> None:
    with pytest.raises(UsageError, match=f"{OCI}version is given twice"):
        parse_labels(["version=1", f"{OCI}version=2"])


def test_a_record_there_and_back() -> None:
    assert decode_variant(VARIANT.encode(), "it") == VARIANT
    assert decode_variant("", "it") == ImageVariant()
    compressed = ImageVariant(LABELS, ZSTD)
    assert decode_variant(compressed.encode(), "it") == compressed
    with pytest.raises(IntegrityError, match="compression: 'lz4' is none of gzip, zstd"):
        decode_variant('{"compression": "lz4"}', "it")
    with pytest.raises(IntegrityError, match="'colour' is unknown to this version of sandwright"):
        decode_variant('{"colour": "red"}', "it")
    with pytest.raises(ArchiveRefused, match="labels: values must be strings"):
        decode_variant('{"labels": {"a": 1}}', "it")
