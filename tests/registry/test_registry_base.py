"""Images on a base from a registry: locked, built, smoke-run, and built again without any registry.

Tests of image/registrybase.py.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import DocumentError, LockError, UsageError
from sandwright.host import collect_host
from sandwright.image.baselock import BaseGone, BaseLock, base_lock_changes, load_base_lock, write_base_lock
from sandwright.image.build import BuiltImage, SkippedImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import check_lock
from sandwright.image.lockfile import FILE
from sandwright.image.mirrors import Mirrors
from sandwright.image.registrybase import lock_base
from sandwright.image.remote import open_layout
from sandwright.registry.failure import Unreachable
from sandwright.registry.push import PushResult, push
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from sandwright.release.subject import ReleaseEvidence, prepare
from sandwright.resources import data_path
from sandwright.rootfs.images.source import open_image
from sandwright.verify.smoke.run import smoke_images
from sandwright.verify.smoke.target import SmokeTarget
from support import alpinelike
from support.layouts import INDEX, Layout
from support.registryserver import Server
from support.releases import report_of
from support.smallworld import document
from support.tars import archive, file, folder

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(120)]

AMD = {"os": "linux", "architecture": "amd64"}
ARM = {"os": "linux", "architecture": "arm64", "variant": "v8"}
CREATED = 1_577_836_800
"""2020-01-01, the date in the bases below"""

ON_REGISTRY = """\
schema: 1
description: A small image on a base from a registry.
base: {{registry: "{reference}"}}
accounts:
  users: [{{name: app, uid: 1000, gid: 1000, home: /home/app, shell: /bin/sh}}]
  groups: [{{name: app, gid: 1000}}]
directories: [{{path: /home/app, mode: "0750", user: app, group: app}}]
files: [{{path: /etc/app.conf, content: "key", user: app}}]
config: {{user: app, environment: {{EXTRA: "1"}}, workdir: /home/app}}
smoke:
  programs: [[sh, -c, "true"]]
  checks:
    - {{name: who it is, run: [id, -un], prints: app}}
"""
ON_TOP = """\
schema: 1
description: An image on top of that.
base: {image: app}
files: [{path: /etc/top.conf, content: "top"}]
config: {environment: {TOP: "1"}}
"""
OWN = {
    "Env": ["PATH=/bin:/usr/bin", "odd.name=kept"],
    "Cmd": ["/bin/sh"],
    "Labels": {"org.opencontainers.image.title": "not ours", "theirs": "kept"},
    "ExposedPorts": {"80/tcp": {}},
}


def base_layers(text: bytes = b"first") -> list[bytes]:
    lower = archive(
        folder(b"bin"),
        folder(b"etc"),
        folder(b"home"),
        file(b"etc/passwd", alpinelike.PASSWD),
        file(b"etc/group", alpinelike.GROUP),
        file(b"etc/gone", b"x"),
    )
    return [lower, archive(file(b"etc/version", text), file(b"etc/.wh.gone", b""))]


def base_layout(
    directory: Path, layers: list[bytes], *, platforms: tuple[str, ...] = ("amd64", "arm64")
) -> Path:
    made = Layout(directory)
    more = {"created": "2020-01-01T00:00:00Z", "history": [{"created_by": "one"}, {"empty_layer": True}] * 2}
    images = [
        made.image(
            *layers, config=OWN, arch=each, change_config=more, platform=AMD if each == "amd64" else ARM
        )
        for each in platforms
    ]
    whole = made.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": images}, INDEX)
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [whole]}))
    return directory


@dataclass
class Place:
    """A catalogue with an image on a registry's base, a cache, and the registry."""

    root: Path
    server: Server
    settings: RegistrySettings

    @property
    def reference(self) -> str:
        return f"{self.server.host}/library/base:1"

    @property
    def cache(self) -> Cache:
        return Cache(self.root / "cache")

    def define(self, name: str, text: str) -> ImageDefinition:
        folder_ = self.root / "images" / name
        folder_.mkdir(parents=True, exist_ok=True)
        (folder_ / "image.yaml").write_text(text.format(reference=self.reference) if "{{" in text else text)
        return load_catalogue(self.root / "images")[name]

    def push(self, layout: Path, tag: str = "1") -> PushResult:
        image = open_layout(layout)
        with open_repository(parse_reference(self.reference), self.settings, push=True) as repository:
            return push(repository, image.graph, image.open_blob, tags=[tag])

    def lock(self, definition: ImageDefinition) -> BaseLock:
        lock = lock_base(definition, settings=self.settings, cache=self.cache)
        write_base_lock(definition.folder, lock)
        return lock

    def build(
        self, *names: str, output: str = "out", relock: Any = None, **more: Any
    ) -> dict[str, BuiltImage]:
        supply = Fetcher(self.cache, Mirrors({}), relock, lambda: self.settings)
        catalogue = load_catalogue(self.root / "images")
        built = build_images(catalogue, names, output=self.root / output, supply=supply, **more)
        return {each.name: each for each in built}


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Place:
    made = Place(tmp_path, server, RegistrySettings(patience=RetryPolicy(reach=1.0, attempts=2, pause=0.01)))
    made.push(base_layout(tmp_path / "base", base_layers()))
    made.define("app", ON_REGISTRY)
    return made


def gone(place: Place) -> Place:
    """The same catalogue after its registry has disappeared."""
    nobody = Server("127.0.0.1:1", place.server.storage, place.server.log)
    return Place(place.root, nobody, place.settings)


def app(place: Place) -> ImageDefinition:
    return load_catalogue(place.root / "images")["app"]


def test_the_lock(place: Place) -> None:
    lock = place.lock(app(place))
    index = json.loads((place.root / "base/index.json").read_text())["manifests"][0]
    platforms = document(place.root / "base", index["digest"])["manifests"]
    assert json.loads((app(place).folder / FILE).read_text()) == {
        "schema": 1,
        "definition": lock.definition,
        "reference": place.reference,
        "epoch": CREATED,
        "base": index,
        "platforms": {
            name: {key: each[key] for key in ("mediaType", "digest", "size")}
            for name, each in zip(("linux/amd64", "linux/arm64"), platforms, strict=True)
        },
    }
    assert load_base_lock(app(place).folder) == lock
    check_lock(app(place), lock)


def test_the_build(place: Place) -> None:
    lock = place.lock(app(place))
    built = place.build("app")["app"]
    base = open_image(place.root / "base", platform="linux/arm64")
    image = open_image(built.layout, platform="linux/arm64")
    assert [each.digest for each in image.layers[:-1]] == [each.digest for each in base.layers]
    assert len(image.layers) == len(base.layers) + 1
    annotations = image.manifest["annotations"]
    assert annotations["org.opencontainers.image.base.name"] == place.reference
    assert annotations["org.opencontainers.image.base.digest"] == lock.base.digest
    config = image.config["config"]
    assert config["User"] == "1000"
    assert config["Env"] == ["EXTRA=1", "PATH=/bin:/usr/bin", "odd.name=kept"]
    assert config["Cmd"] == ["/bin/sh"]
    assert config["WorkingDir"] == "/home/app"
    assert config["ExposedPorts"] == {"80/tcp": {}}
    assert config["Labels"]["theirs"] == "kept"
    assert config["Labels"]["org.opencontainers.image.title"] == "app"
    assert [each["created_by"] for each in image.config["history"]] == ["one", "one", "sandwright: app"]


def test_accounts_are_added_to_those_of_the_base(place: Place) -> None:
    from support.smallworld import contents  # noqa: PLC0415

    place.lock(app(place))
    built = place.build("app")["app"]
    tree = contents(built.layout, built.images["linux/amd64"].manifest.digest)
    assert tree["etc/passwd"].data == alpinelike.PASSWD + b"app:x:1000:1000::/home/app:/bin/sh\n"
    assert (tree["etc/app.conf"].uid, tree["home/app"].gid) == (1000, 1000)


def test_it_is_built_once(place: Place) -> None:
    place.lock(app(place))
    first = place.build("app")["app"]
    again = place.build("app")["app"]
    assert (first.changed, again.reason, again.digest) == (True, "", first.digest)


def test_it_is_built_again_without_a_registry(place: Place) -> None:
    """The fetched blobs are enough, and give the same bytes."""
    place.lock(app(place))
    first = place.build("app")["app"]
    away = gone(place)
    again = away.build("app", output="elsewhere", frozen=True)["app"]
    assert again.digest == first.digest


def test_a_damaged_cache_is_mended(place: Place) -> None:
    place.lock(app(place))
    first = place.build("app")["app"]
    for layer in first.images["linux/amd64"].layers[:-1]:
        path = place.cache.path(layer.name)
        content = path.read_bytes()
        path.unlink()  # the layout has a link to it
        path.write_bytes(bytes(len(content)))
    assert place.build("app", output="elsewhere")["app"].digest == first.digest


def test_an_image_on_top(place: Place) -> None:
    place.lock(app(place))
    place.define("top", ON_TOP)
    built = place.build()
    assert list(built) == ["app", "top"]
    image = open_image(built["top"].layout, platform="linux/amd64")
    assert image.config["config"]["Env"] == ["EXTRA=1", "PATH=/bin:/usr/bin", "TOP=1", "odd.name=kept"]
    assert image.config["config"]["User"] == "1000"
    assert image.config["config"]["ExposedPorts"] == {"80/tcp": {}}
    assert image.config["config"]["Labels"]["org.opencontainers.image.title"] == "top"
    assert len(image.layers) == 4
    again = place.build()
    assert [each.reason for each in again.values()] == ["", ""]


def test_it_has_no_packages_to_publish(place: Place) -> None:
    place.lock(app(place))
    proof = ReleaseEvidence(report_of(place.build("app")), needed=False)
    catalogue, supply = load_catalogue(place.root / "images"), Fetcher(place.cache, Mirrors({}))
    released = prepare(catalogue, "app", proof, output=place.root / "out", supply=supply)
    assert released.packages is None
    with pytest.raises(UsageError, match="image 'app' has no lock of packages"):
        prepare(catalogue, "app", proof, output=place.root / "out", supply=supply, store=True)


def test_a_tag_that_moves_changes_nothing_until_it_is_locked_again(place: Place) -> None:
    before = place.lock(app(place))
    first = place.build("app")["app"]
    place.push(base_layout(place.root / "newer", base_layers(b"second")))
    assert place.build("app", output="elsewhere")["app"].digest == first.digest
    after = place.lock(app(place))
    changes = base_lock_changes(before, after)
    assert changes[0] == f"  {place.reference} {before.base.digest} → {after.base.digest}"
    assert [each.split()[0] for each in changes[1:]] == ["linux/amd64", "linux/arm64"]
    assert place.build("app")["app"].digest != first.digest


def test_a_base_that_is_gone_is_locked_again(place: Place) -> None:
    definition = app(place)
    lock = place.lock(definition)
    with open_repository(lock.pinned, place.settings, push=True) as repository:
        for pin in (*lock.platforms.values(), lock.base):
            repository.send("DELETE", f"manifests/{pin.digest}", "delete", 202).close()
    fresh = Place(place.root / "fresh", place.server, place.settings)  # a cache without it
    supply = Fetcher(fresh.cache, Mirrors({}), None, lambda: place.settings)
    catalogue = load_catalogue(place.root / "images")
    with pytest.raises(BaseGone, match="is no longer there for linux/amd64"):
        build_images(catalogue, ["app"], output=place.root / "out", supply=supply)
    place.push(base_layout(place.root / "newer", base_layers(b"second")))
    supply = Fetcher(fresh.cache, Mirrors({}), place.lock, lambda: place.settings)
    (built,) = build_images(catalogue, ["app"], output=place.root / "out", supply=supply)
    assert load_base_lock(definition.folder).base != lock.base
    assert built.changed


class TestNoRegistry:
    """The registry of an image is unreachable, and its base is not in the cache."""

    def test_it_is_left_out_with_what_is_on_top(self, place: Place) -> None:
        away = gone(place)
        away.define("app", ON_REGISTRY)
        away.define("top", ON_TOP)
        told: list[SkippedImage] = []
        begun = time.monotonic()
        built = away.build(relock=away.lock, leave_out=told.append)
        assert time.monotonic() - begun < 30
        assert built == {}
        assert [(each.name, each.reason) for each in told] == [
            ("app", "registry unreachable"),
            ("top", "its base is not built"),
        ]
        assert "cannot reach registry 127.0.0.1:1" in told[0].detail

    def test_strictly_that_is_an_error(self, place: Place) -> None:
        away = gone(place)
        away.define("app", ON_REGISTRY)
        with pytest.raises(Unreachable, match=r"cannot reach registry 127\.0\.0\.1:1"):
            away.build(relock=away.lock)

    def test_it_is_locked_and_not_in_the_cache(self, place: Place) -> None:
        away = gone(place)
        definition = away.define("app", ON_REGISTRY)
        lock = place.lock(place.define("app", ON_REGISTRY))
        (place.root / "images/app/lock.json").unlink()
        away.define("app", ON_REGISTRY)
        moved = BaseLock(_checksum(definition), away.reference, lock.epoch, lock.base, lock.platforms)
        write_base_lock(definition.folder, moved)
        empty = Fetcher(Cache(place.root / "empty"), Mirrors({}), None, lambda: place.settings)
        told: list[SkippedImage] = []
        catalogue = load_catalogue(place.root / "images")
        built = build_images(catalogue, output=place.root / "out", supply=empty, leave_out=told.append)
        assert (built, [each.reason for each in told]) == ([], ["registry unreachable"])

    def test_never_locked_and_frozen(self, place: Place) -> None:
        told: list[SkippedImage] = []
        assert place.build(frozen=True, leave_out=told.append) == {}
        assert [each.reason for each in told] == ["not locked"]
        with pytest.raises(LockError, match="is not locked"):
            place.build(frozen=True)

    def test_a_stale_lock_and_frozen_is_an_error_all_the_same(self, place: Place) -> None:
        place.lock(app(place))
        text = ON_REGISTRY.replace("base: ", "platforms: [linux/amd64]\nbase: ")
        place.define("app", text)
        with pytest.raises(LockError, match="its definition has changed"):
            place.build(frozen=True, leave_out=lambda _: None)


def _checksum(definition: ImageDefinition) -> str:
    from sandwright.image.lock import checksum  # noqa: PLC0415

    return checksum(definition)


def test_a_platform_that_the_base_lacks(place: Place) -> None:
    place.push(base_layout(place.root / "one", base_layers(), platforms=("amd64",)))
    with pytest.raises(LockError, match="is not made for linux/arm64, only for linux/amd64"):
        place.lock(app(place))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"schema": 2}, "schema: this program reads 1"),
    "a key too many": ({"suite": "bookworm"}, "suite: no such key; there is schema, definition"),
    "a reference that is none": ({"reference": "A b"}, "reference: 'A b'"),
    "no platforms": ({"platforms": {}}, "platforms: must be a mapping that is not empty"),
    "a platform that we don't build": (
        {"platforms": {"linux/s390x": {}}},
        'platforms["linux/s390x"]: is none of linux/amd64, linux/arm64',
    ),
    "a time that is none": ({"epoch": -1}, "epoch: must be a time in seconds"),
    "a base without a digest": (
        {"base": {"mediaType": INDEX, "size": 1}},
        "base: descriptor.digest: None is not a digest",
    ),
    "a base that is a layer": (
        {"base": {"mediaType": "text/plain", "size": 1, "digest": "sha256:" + "0" * 64}},
        "base: text/plain is none of",
    ),
    "a base by SHA-512": (
        {"base": {"mediaType": INDEX, "size": 1, "digest": "sha512:" + "0" * 128}},
        "base: only SHA-256 can be kept here",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_locks_that_are_refused(place: Place, name: str) -> None:
    change, message = FAULTS[name]
    definition = app(place)
    place.lock(definition)
    path = definition.folder / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DocumentError) as caught:
        load_base_lock(definition.folder)
    assert f"{path}: {message}" in str(caught.value)


@pytest.mark.slow
@pytest.mark.needs("cc", "make", "runc")
@pytest.mark.skipif(os.geteuid() != 0, reason="without root runc maps one id, and the image has another user")
@pytest.mark.timeout(600)
def test_an_alpine_like_base_runs(place: Place) -> None:
    """From an empty registry to a running program: push, lock, build, smoke-run.

    The definition is that of the shipped `alpine`, except for its base and for `apk`, which busybox lacks.
    """
    platform = collect_host().platform
    architecture = platform.partition("/")[2]
    layers = alpinelike.layers()
    place.push(base_layout(place.root / "alpine-like", layers, platforms=(architecture,)))
    text = data_path("images", "alpine", "image.yaml").read_text()
    text = text.replace("docker.io/library/alpine:3.22", place.reference)
    text = text.replace("    - [apk, --version]\n", "") + f"platforms: [{platform}]\n"
    definition = place.define("app", text)
    place.lock(definition)
    built = place.build("app")["app"]
    target = SmokeTarget("app", platform, built.layout, built.images[platform].manifest.digest, definition)
    report = smoke_images([target], output=place.root / "smoke", runtimes=["runc"])
    assert report.green, report.explain()
    checks = " ".join(finding.check for row in report.rows for finding in row.findings)
    assert "busybox can add accounts" in checks
    assert "musl resolves the user's own name" in checks
