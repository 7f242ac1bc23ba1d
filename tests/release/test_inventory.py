"""The inventory of an image: files after all layers, packages by every database, files without an owner."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.errors import ArchiveRefused, BuildError, IntegrityError
from sandwright.image.lock import LockedPackage as Locked
from sandwright.release.contents import read_contents
from sandwright.release.licences import UNKNOWN
from sandwright.release.packagefiles import PackageFiles, is_kept, package_files
from sandwright.release.sbom import Inventory, package_url, take_inventory
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.entry import EntryKind
from support.layouts import Layout, simple
from support.releases import COPYRIGHT
from support.smallworld import World
from support.tars import archive, file, folder, hardlink, symlink

pytestmark = pytest.mark.usefixtures("built")

EMPTY = hashlib.sha256(b"").hexdigest()


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files(tmp_path: Path, *layers: bytes) -> dict[str, tuple[EntryKind, str, int]]:
    image = open_image(simple(tmp_path / "layout", *layers))
    found = read_contents(image).files
    return {path.decode(): (each.kind, each.digests["sha256"], each.layer) for path, each in found.items()}


def inventory(tmp_path: Path, *layers: bytes) -> Inventory:
    return take_inventory("image", open_image(simple(tmp_path / "layout", *layers)))


def test_files_after_all_layers(tmp_path: Path) -> None:
    lowest = archive(
        folder(b"a"),
        file(b"a/stays", b"1"),
        file(b"a/goes", b"2"),
        file(b"a/replaced", b"3"),
        folder(b"emptied"),
        file(b"emptied/below", b"4"),
        folder(b"usr/lib"),
        symlink(b"lib", b"usr/lib"),
        file(b"turns", b"a file"),
    )
    upper = archive(
        file(b"emptied/above", b"5"),
        file(b"emptied/.wh..wh..opq", b""),
        file(b"a/.wh.goes", b""),
        file(b"a/replaced", b"6"),
        hardlink(b"a/same", b"a/replaced"),
        file(b"lib/x.so", b"7"),
        folder(b"turns"),
        file(b"turns/in", b"8"),
    )
    assert files(tmp_path, lowest, upper) == {
        "a/stays": (EntryKind.FILE, sha(b"1"), 1),
        "a/replaced": (EntryKind.FILE, sha(b"6"), 2),
        "a/same": (EntryKind.FILE, sha(b"6"), 2),
        "emptied/above": (EntryKind.FILE, sha(b"5"), 2),
        "lib": (EntryKind.SYMLINK, sha(b"usr/lib"), 1),
        "turns/in": (EntryKind.FILE, sha(b"8"), 2),
        "usr/lib/x.so": (EntryKind.FILE, sha(b"7"), 2),
    }


def test_a_hard_link_keeps_what_it_named(tmp_path: Path) -> None:
    lowest = archive(file(b"one", b"1"), hardlink(b"two", b"one"))
    found = files(tmp_path, lowest, archive(file(b"one", b"2")))
    assert found == {"one": (EntryKind.FILE, sha(b"2"), 2), "two": (EntryKind.FILE, sha(b"1"), 1)}


def test_a_hard_link_to_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="'two' is a hard link to 'none', which is no file before it"):
        files(tmp_path, archive(hardlink(b"two", b"none")))


def test_a_layer_that_is_another(tmp_path: Path) -> None:
    layout = simple(tmp_path / "layout", archive(file(b"one", b"1")))
    image = open_image(layout)
    blob = layout / "blobs/sha256" / image.layers[0].digest.removeprefix("sha256:")
    raw = bytearray(blob.read_bytes())
    raw[-9] ^= 1
    blob.write_bytes(raw)
    with pytest.raises(IntegrityError, match=f"layer {image.layers[0].digest}"):
        read_contents(image)


STATUS = """\
Package: thing
Status: install ok installed
Architecture: amd64
Source: things (1.0)
Version: 1.0-1+b2
Conffiles:
 /etc/thing.conf {conf}
 /etc/edited.conf {conf}

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 2
"""


def test_dpkg_s_database(tmp_path: Path) -> None:
    """In a Debian image, files are the package's if their checksums match."""

    def md5(content: bytes) -> str:
        return hashlib.md5(content, usedforsecurity=False).hexdigest()

    layer = archive(
        folder(b"etc"),
        file(b"etc/os-release", b'ID=debian\nVERSION_ID="12"\n'),
        file(b"etc/thing.conf", b"conf"),
        file(b"etc/edited.conf", b"edited"),
        folder(b"usr/bin"),
        symlink(b"bin", b"usr/bin"),
        file(b"usr/bin/thing", b"thing"),
        file(b"usr/bin/patched", b"patched"),
        file(b"usr/bin/mine", b"mine"),
        folder(b"usr/share/doc/thing"),
        file(b"usr/share/doc/thing/copyright", COPYRIGHT.encode()),
        file(b"var/lib/dpkg/status", STATUS.format(conf=md5(b"conf")).encode()),
        file(
            b"var/lib/dpkg/info/thing:amd64.list",
            b"/.\n/bin\n/bin/thing\n/bin/patched\n/usr/share/doc/thing/copyright\n/usr/share/man/left-out\n",
        ),
        file(
            b"var/lib/dpkg/info/thing:amd64.md5sums",
            f"{md5(b'thing')}  bin/thing\n{md5(b'original')}  bin/patched\n".encode(),
        ),
    )
    found = inventory(tmp_path, layer)
    (thing,) = found.packages
    assert (thing.name, thing.version, thing.architecture) == ("thing", "1.0-1+b2", "amd64")
    assert (thing.source, thing.source_version, thing.sha256) == ("things", "1.0", "")
    assert thing.licence.expression == "LicenseRef-thing-s-own AND (MIT OR GPL-2.0-or-later)"
    assert set(thing.files) == {b"usr/bin/thing", b"usr/share/doc/thing/copyright", b"etc/thing.conf"}
    assert {b"usr/bin/patched", b"usr/bin/mine", b"etc/edited.conf", b"bin"} <= set(found.unowned)
    assert (
        package_url(thing, found.system)
        == "pkg:deb/debian/thing@1.0-1%2Bb2?arch=amd64&distro=debian-12&upstream=things%401.0"
    )


def test_apk_s_database(tmp_path: Path) -> None:
    def q1(content: bytes) -> str:
        total = hashlib.sha1(content, usedforsecurity=False).digest()
        return "Q1" + base64.b64encode(total).decode()

    database = (
        f"C:{q1(b'package')}\nP:musl\nV:1.2.5-r9\nA:x86_64\nT:the C library\nL:MIT\no:musl\n"
        f"F:lib\nR:ld-musl.so.1\na:0:0:755\nZ:{q1(b'ld')}\nR:libc.so\nZ:{q1(b'ld-musl.so.1')}\n\n"
        f"P:odd\nV:1\nA:noarch\nL:custom\nF:etc\nR:odd\nZ:{q1(b'before')}\nF:\nR:top\n\n"
    )
    layer = archive(
        folder(b"lib/apk/db"),
        file(b"lib/apk/db/installed", database.encode()),
        file(b"lib/ld-musl.so.1", b"ld"),
        symlink(b"lib/libc.so", b"ld-musl.so.1"),
        file(b"etc/odd", b"after"),
        file(b"etc/os-release", b"ID=alpine\nVERSION_ID=3.22.1\n"),
        file(b"top", b""),
    )
    found = inventory(tmp_path, layer)
    musl, odd = found.packages
    assert (musl.kind, musl.name, musl.version, musl.licence.expression) == ("apk", "musl", "1.2.5-r9", "MIT")
    assert set(musl.files) == {b"lib/ld-musl.so.1", b"lib/libc.so"}
    assert odd.files == (b"top",), "what it brought and somebody changed is not its file any more"
    assert package_url(musl, found.system) == "pkg:apk/alpine/musl@1.2.5-r9?arch=x86_64&distro=alpine-3.22.1"


def test_an_image_without_packages(tmp_path: Path) -> None:
    found = inventory(tmp_path, archive(file(b"init", b"1"), symlink(b"sh", b"init")))
    assert (found.packages, found.unowned) == ((), (b"init", b"sh"))


def taken(world: World, name: str, platform: str = "linux/amd64") -> Inventory:
    locked = _locked(world, platform)
    debs = package_files(locked, {each.sha256: world.cache.path(each.sha256) for each in locked}, world.cache)
    return take_inventory(name, open_image(world.output / "images" / name, platform=platform), locked, debs)


def _locked(world: World, platform: str) -> tuple[Locked, ...]:
    from sandwright.image.lock import load_lock  # noqa: PLC0415

    return load_lock(world.images / "base").packages(platform)


def test_an_image_of_ours(world: World) -> None:
    """Packages come from the lock, with the checksum of each; their files have an owner, the others none."""
    found = taken(world, "base")
    assert [(each.name, each.version, each.sha256) for each in found.packages] == [
        (each.name, each.version, each.sha256) for each in _locked(world, "linux/amd64")
    ]
    files, thing = found.packages
    assert set(files.files) == {b"usr/lib/os-release", b"etc/os-release"}
    assert set(thing.files) == {
        b"usr/bin/thing",
        b"usr/bin/thing-too",
        b"usr/lib/x86_64-linux-gnu/libthing.so.1",
        b"usr/lib/x86_64-linux-gnu/libthing.so.1.0",
        b"usr/share/ca-certificates/test/one.crt",
        b"usr/share/doc/libthing1/copyright",
    }
    assert {
        b"etc/passwd",
        b"etc/group",
        b"etc/ld.so.cache",
        b"lib",
        b"var/lib/dpkg/status.d/libthing1",
    } <= set(found.unowned)
    owned = {path for package in found.packages for path in package.files}
    assert owned | set(found.unowned) == set(found.files)
    assert not owned & set(found.unowned)


def test_an_image_on_one_of_ours(world: World) -> None:
    """The base's packages own their files; the files that the image adds have no owner."""
    found = taken(world, "app")
    base = taken(world, "base")
    assert [(each.name, each.files) for each in found.packages] == [
        (each.name, each.files) for each in base.packages
    ]
    assert {b"usr/bin/run", b"usr/bin/also", b"etc/app.conf"} <= set(found.unowned)


def test_a_lock_of_something_else(world: World) -> None:
    locked = [replace(each, version="9") for each in _locked(world, "linux/amd64")]
    image = open_image(world.output / "images/base", platform="linux/amd64")
    debs = {each.sha256: PackageFiles({}, UNKNOWN) for each in locked}
    with pytest.raises(BuildError, match=r"package base-files 9 \(amd64\): it is in the lock, and .* has 12"):
        take_inventory("base", image, locked, debs)


def test_what_a_package_brings_is_kept_and_read_again_when_it_is_damaged(world: World) -> None:
    (package, *_) = _locked(world, "linux/arm64")
    paths = {package.sha256: world.cache.path(package.sha256)}
    first = package_files([package], paths, world.cache)
    assert is_kept(package, world.cache)
    assert package_files([package], {}, world.cache) == first
    (kept,) = world.cache.root.glob(f"contents/*/*/{package.sha256}.json")
    raw = bytearray(kept.read_bytes())
    raw[-10] ^= 1
    kept.write_bytes(raw)
    assert not is_kept(package, world.cache)
    assert package_files([package], paths, world.cache) == first


def test_two_platforms_in_one_layout(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    both = [
        layout.image(
            archive(file(b"arch", name.encode())), arch=name, platform={"os": "linux", "architecture": name}
        )
        for name in ("amd64", "arm64")
    ]
    path = layout.index(*both)
    for name in ("amd64", "arm64"):
        found = take_inventory("x", open_image(path, platform=f"linux/{name}"))
        assert (found.platform, found.files[b"arch"].digests["sha256"]) == (
            f"linux/{name}",
            sha(name.encode()),
        )
        assert found.purl == f"pkg:oci/x@{found.digest.replace(':', '%3A')}?arch={name}"
