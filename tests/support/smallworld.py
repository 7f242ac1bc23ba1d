"""A catalogue of small images with locks, a mirror and a cache, all in a directory of the test."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from sandwright.image.build import BuiltImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, load_catalogue, load_definition
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, LockedPackage, checksum, write_lock
from sandwright.image.mirrors import Mirrors
from support.debs import TIME, Member, deb, folder, link, read_tar
from support.elves import AARCH64, X86_64, elf

EPOCH = TIME + 100_000
MACHINES = {"amd64": (X86_64, "x86_64-linux-gnu"), "arm64": (AARCH64, "aarch64-linux-gnu")}
BASE = """\
schema: 1
description: A small base.
base: {debian: bookworm}
configure: declared
packages: [base-files, libthing1]
exclude: [/usr/share/doc/*]
keep: [/usr/share/doc/*/copyright]
declare: [merged-usr, accounts, ca-bundle, ld-cache, package-metadata, os-release, tmp, nsswitch]
accounts:
  users: [{name: root, uid: 0, gid: 0, home: /root, shell: /bin/sh}]
  groups: [{name: root, gid: 0}, {name: tty, gid: 5}]
config:
  environment: {PATH: /usr/bin, LANG: C.UTF-8}
  command: [/usr/bin/thing]
  labels: {kind: base}
layers: {budget: 2}
smoke: {programs: [[thing]]}
"""
APP = """\
schema: 1
description: A small image on top.
base: {image: base}
accounts:
  users: [{name: app, uid: 1000, gid: 1000, home: /home/app, shell: /bin/sh}]
  groups: [{name: app, gid: 1000}]
directories: [{path: /home/app, mode: "0750", user: app, group: app}]
files:
  - {path: /bin/run, source: files/run, mode: "0755"}
  - {path: /etc/app.conf, content: "key = value\\n", user: app, group: tty, mode: "0640"}
links: [{path: /usr/bin/also, target: run}]
config:
  user: app
  environment: {LANG: C, EXTRA: "1"}
  entrypoint: [/bin/run]
  labels: {kind: app}
"""


def base_files(architecture: str) -> bytes:
    members = [
        folder("./"),
        folder("./bin/"),
        folder("./etc/"),
        folder("./tmp/", 0o1777),
        folder("./usr/"),
        folder("./usr/bin/"),
        folder("./usr/lib/"),
        Member("./usr/lib/os-release", "ID=debian\n"),
        link("./etc/os-release", "../usr/lib/os-release"),
        folder("./var/", 0o755),
        folder("./var/mail/", 0o2775, gid=8),
    ]
    return deb(members, name="base-files", version="12", architecture=architecture)


def libthing(architecture: str, *, version: str = "1.0", payload: bytes = b"") -> bytes:
    machine, triplet = MACHINES[architecture]
    library = f"./lib/{triplet}"
    members = [
        folder("./"),
        folder("./lib/"),
        folder(f"{library}/"),
        Member(f"{library}/libthing.so.1.0", elf("libthing.so.1", machine=machine) + payload),
        link(f"{library}/libthing.so.1", "libthing.so.1.0"),
        folder("./usr/"),
        folder("./usr/bin/"),
        Member("./usr/bin/thing", f"#!thing {version}\n", mode=0o4755),
        Member("./usr/bin/thing-too", kind=tarfile.LNKTYPE, link="./usr/bin/thing"),
        folder("./usr/share/doc/libthing1/"),
        Member("./usr/share/doc/libthing1/changelog", "long\n"),
        Member("./usr/share/doc/libthing1/copyright", "mine\n"),
        Member("./usr/share/ca-certificates/test/one.crt", "CERTIFICATE\n"),
    ]
    sums = {"md5sums": "00000000000000000000000000000000  usr/bin/thing\n"}
    suffix = ".zst" if payload else ".xz"  # xz takes a second for each megabyte of noise
    return deb(
        members, name="libthing1", version=version, architecture=architecture, suffix=suffix, files=sums
    )


class World:
    """Everything below `root`: `images`, `mirror`, `cache` and `build`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = root / "images"
        self.mirror = root / "mirror"
        self.output = root / "build"
        self.cache = Cache(root / "cache")
        self.notes: list[str] = []

    def define(self, name: str, text: str, files: Mapping[str, str] | None = None) -> ImageDefinition:
        """Write a definition, and files beside it."""
        place = self.images / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "image.yaml").write_text(text, encoding="utf-8")
        for path, content in (files or {}).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(content, encoding="utf-8")
        return load_definition(place)

    def offer(self, raw: bytes, *, name: str, version: str, architecture: str) -> LockedPackage:
        """Put a package on the mirror."""
        path = f"pool/main/{name}_{version}_{architecture}.deb"
        place = self.mirror / "debian" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
        digest = hashlib.sha256(raw).hexdigest()
        return LockedPackage(name, version, architecture, len(raw), digest, "debian", path, name, version, 1)

    def lock(
        self, definition: ImageDefinition, packages: Mapping[str, Sequence[LockedPackage]], epoch: int = EPOCH
    ) -> Lock:
        """Lock an image to these packages: platform → packages."""
        locked = {platform: tuple(sorted(listed)) for platform, listed in packages.items()}
        lock = Lock(checksum(definition), "bookworm", epoch, locked)
        write_lock(definition.folder, lock)
        return lock

    def packages(self, *, version: str = "1.0", payload: bytes = b"") -> dict[str, list[LockedPackage]]:
        """The packages of the small base, offered on the mirror."""
        offered = {}
        for architecture in MACHINES:
            files = self.offer(
                base_files(architecture), name="base-files", version="12", architecture=architecture
            )
            raw = libthing(architecture, version=version, payload=payload)
            thing = self.offer(raw, name="libthing1", version=version, architecture=architecture)
            offered[f"linux/{architecture}"] = [files, thing]
        return offered

    @property
    def mirrors(self) -> Mirrors:
        return Mirrors({"debian": (f"file://{self.mirror}/debian",)})

    @property
    def catalogue(self) -> dict[str, ImageDefinition]:
        return load_catalogue(self.images)

    def build(self, *names: str, relock: Any = None, **more: Any) -> dict[str, BuiltImage]:
        """Build, and return the results by name. `notes` of this world are the build's notes."""
        supply = Fetcher(self.cache, self.mirrors, relock)
        output = more.pop("output", self.output)
        built = build_images(
            self.catalogue, names, output=output, supply=supply, progress=_Watch(self), **more
        )
        return {each.name: each for each in built}


class _Watch:
    def __init__(self, world: World) -> None:
        self._world = world

    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Any:  # noqa: ARG002
        return contextlib.nullcontext(self)

    def advance(self, amount: int) -> None:
        pass

    def note(self, text: str) -> None:
        self._world.notes.append(text)


def small_world(root: Path, *, payload: bytes = b"") -> World:
    """A world with two images, `base` of two packages and `app` on top of it, for two platforms."""
    world = World(root)
    world.lock(world.define("base", BASE), world.packages(payload=payload))
    world.define("app", APP, {"files/run": "#!run\n"})
    return world


def document(layout: Path, digest: str) -> dict[str, Any]:
    """A JSON document of a layout, after its digest was checked."""
    raw = (layout / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == digest.removeprefix("sha256:")
    return dict(json.loads(raw))


def uncompressed(raw: bytes) -> bytes:
    """A layer's archive."""
    if raw.startswith(b"\x1f\x8b"):
        return gzip.decompress(raw)
    return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()


def contents(layout: Path, manifest: str) -> dict[str, Member]:
    """The tree of an image's layers: path → its last entry. Each layer's diff_id is checked."""
    described = document(layout, manifest)
    config = document(layout, described["config"]["digest"])
    tree: dict[str, Member] = {}
    for layer, diff_id in zip(described["layers"], config["rootfs"]["diff_ids"], strict=True):
        path = layout / "blobs/sha256" / layer["digest"].removeprefix("sha256:")
        raw = uncompressed(path.read_bytes())
        assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == diff_id
        members = read_tar(raw)
        names = [member.path for member in members]
        assert len(names) == len(set(names))
        tree.update(zip(names, members, strict=True))
    return tree
