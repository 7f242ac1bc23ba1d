"""Alpine's packages and indices: read, verified, locked, and built into an image, without apk itself.

Tests of image/apk/database.py.
Tests of image/apk/resolver.py: the Alpine packages in a lock.
Tests of image/apk/signing.py: the signature of a package index.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import http.server
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sandwright.errors import (
    ArchiveRefused,
    BuildError,
    DocumentError,
    FetchError,
    HostError,
    IntegrityError,
    LockError,
)
from sandwright.image.apk import mirror as apk_mirror
from sandwright.image.apk.gzipmembers import GzipMembers
from sandwright.image.apk.index import FILE, read_index
from sandwright.image.apk.lock import lock_apk_image
from sandwright.image.apk.mirror import ApkMirror
from sandwright.image.apk.package import ApkPackage
from sandwright.image.apk.resolver import PrivateApk, extract_static
from sandwright.image.apk.signing import read_keys, verify_signature
from sandwright.image.build import BuiltImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, load_catalogue, load_definition
from sandwright.image.dockerfile.render import Recipe, render_dockerfile
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, checksum, load_lock, write_lock
from sandwright.image.mirrors import Mirrors
from sandwright.release import provenance
from sandwright.release.packagefiles import package_files
from sandwright.release.sbom import take_inventory
from sandwright.resources import data_path
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.limits import ArchiveLimits
from support.apks import KEY, STRANGER, Apk, member, public_key, signature, write_repository
from support.debs import TIME, Member, folder, link
from support.localhttp import listening
from support.smallworld import contents

KEYS = {KEY: public_key()}
LIMITS = ArchiveLimits()
MAIN = "v3.23/main/x86_64"
BUSYBOX = Apk(
    "busybox",
    "1.37.0-r30",
    [
        folder("bin"),
        Member("bin/busybox", "program", mode=0o755),
        folder("etc/busybox-paths.d"),
        Member("etc/busybox-paths.d/busybox", "bin/ls\nbin/sh\nusr/bin/[\nusr/sbin/adduser\n"),
    ],
    info={"depend": "musl", "provides": "cmd:busybox=1.37.0-r30", "triggers": "/bin /usr/bin"},
    scripts={".post-install": b"#!/bin/busybox sh\n", ".trigger": b"#!/bin/busybox sh\n"},
)
BINSH = Apk("busybox-binsh", "1.37.0-r30", [folder("bin"), link("bin/sh", "/bin/busybox")])
MUSL = Apk("musl", "1.2.5_git20240101-r1", [folder("lib"), Member("lib/libc.so", "c" * 100_000, mode=0o755)])
DEFINITION = f"""\
schema: 1
description: Alpine in small.
base: {{alpine: "3.23", keys: [files/{KEY}]}}
configure: declared
packages: [busybox, musl]
declare: [package-metadata, busybox-applets]
platforms: [linux/amd64]
"""


def opened(raw: bytes) -> ApkPackage:
    return ApkPackage(io.BytesIO(raw), label="thing")


def test_a_package_is_read() -> None:
    package = opened(BUSYBOX.build())
    assert package.identity() == {"pkgname": "busybox", "pkgver": "1.37.0-r30", "arch": "x86_64"}
    assert list(package.control) == [".PKGINFO", ".post-install", ".trigger"]
    assert [entry.path for entry in package.data] == [
        b"bin",
        b"bin/busybox",
        b"etc/busybox-paths.d",
        b"etc/busybox-paths.d/busybox",
    ]
    package.finish()
    assert verify_signature(package.signed, KEYS, "it") == KEY


def test_members_end_where_their_bytes_do() -> None:
    parts = [
        member([Member(f"file{number}", "x" * size)], ends=True)
        for number, size in enumerate((0, 9, 300_000))
    ]
    members = GzipMembers(io.BytesIO(b"".join(parts)), "file")
    for part in parts:
        found = members.next(LIMITS)
        assert found is not None
        found.finish()
        assert (found.digest("sha1"), found.digest("sha256")) == (
            hashlib.sha1(part).digest(),
            hashlib.sha256(part).digest(),
        )
    assert members.next(LIMITS) is None


def test_a_bomb_is_refused() -> None:
    limits = dataclasses.replace(LIMITS, ratio=10, ratio_floor=1000)
    found = GzipMembers(io.BytesIO(member([Member("zeros", bytes(1_000_000))], ends=True)), "file").next(
        limits
    )
    assert found is not None
    with pytest.raises(ArchiveRefused, match="bytes have become"):
        found.finish()


def test_both_algorithms_of_signatures() -> None:
    for algorithm in ("RSA", "RSA256"):
        signed = opened(MUSL.build(algorithm=algorithm)).signed
        assert [each.algorithm for each in signed.signatures] == [algorithm]
        assert verify_signature(signed, KEYS, "it") == KEY


def _other_control(raw: bytes) -> bytes:
    return raw[: len(raw) - len(_parts(raw)[1] + _parts(raw)[2])] + _parts(BINSH.build())[1] + _parts(raw)[2]


def _parts(raw: bytes) -> tuple[bytes, bytes, bytes]:
    starts = [at for at in range(len(raw)) if raw[at : at + 4] == b"\x1f\x8b\x08\x00"]
    assert len(starts) == 3
    return raw[: starts[1]], raw[starts[1] : starts[2]], raw[starts[2] :]


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a control archive that was exchanged": (_other_control, "the signature of builder@.* is not valid"),
    "no signature": (lambda raw: b"".join(_parts(raw)[1:]), "signed by nobody"),
    "another data archive": (
        lambda raw: b"".join(_parts(raw)[:2]) + _parts(BINSH.build())[2],
        "its data has SHA-256 .*, its .PKGINFO says",
    ),
    "something more": (lambda raw: raw + member([], ends=True), "something follows its data archive"),
    "no data": (lambda raw: b"".join(_parts(raw)[:2]), "it has no data archive"),
    "half of it": (lambda raw: raw[: len(raw) // 2], "its gzip data ends early"),
    "a bit": (lambda raw: raw[:-30] + bytes([raw[-30] ^ 1]) + raw[-29:], "damaged|SHA-256"),
    "version 3": (lambda _raw: b"ADBd" + bytes(100), "version 3 of apk; only version 2 is read"),
    "no control file": (
        lambda raw: signature(_parts(raw)[2]) + _parts(raw)[2] + _parts(raw)[2],
        "has no file '.PKGINFO'",
    ),
    "nothing": (lambda _raw: b"", "ends before its control archive"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_is_not_a_package_of_its_maker(damage: Callable[[bytes], bytes], message: str) -> None:
    def read(raw: bytes) -> None:
        package = opened(raw)
        verify_signature(package.signed, KEYS, "package thing")
        package.finish()

    read(MUSL.build())
    with pytest.raises(IntegrityError, match=message):
        read(damage(MUSL.build()))


def test_keys_that_do_not_count(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=f"signed by {STRANGER}, which is none of the 1 keys"):
        verify_signature(opened(MUSL.build(STRANGER)).signed, KEYS, "it")
    forged = opened(MUSL.build(STRANGER)).signed
    renamed = dataclasses.replace(forged.signatures[0], key=KEY)
    with pytest.raises(IntegrityError, match=f"the signature of {KEY} is not valid"):
        verify_signature(dataclasses.replace(forged, signatures=(renamed,)), KEYS, "it")
    (tmp_path / KEY).write_text("no key")
    with pytest.raises(IntegrityError, match="is not a public key"):
        verify_signature(opened(MUSL.build()).signed, read_keys([tmp_path / KEY]), "it")


def test_an_index_is_read(tmp_path: Path) -> None:
    raw = (write_repository(tmp_path, [BUSYBOX, MUSL]) / FILE).read_bytes()
    found = read_index(io.BytesIO(raw), MAIN, KEYS)
    assert [(str(each), each.path) for each in found] == [
        ("busybox 1.37.0-r30", f"{MAIN}/busybox-1.37.0-r30.apk"),
        ("musl 1.2.5_git20240101-r1", f"{MAIN}/musl-1.2.5_git20240101-r1.apk"),
    ]
    content = raw[raw.index(b"\x1f\x8b", 4) :]
    with pytest.raises(IntegrityError, match=r"the index of v3.23/main/x86_64: it is signed by nobody"):
        read_index(io.BytesIO(content), MAIN, KEYS)
    with pytest.raises(IntegrityError, match=r"the index of v3.23/main/x86_64: .* damaged"):
        read_index(io.BytesIO(raw[:-60] + bytes(60)), MAIN, KEYS)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_keys_that_ship(architecture: str) -> None:
    keys = read_keys(sorted(data_path("images", "keys", "alpine", architecture).glob("*.rsa.pub")))
    assert len(keys) >= 2
    signed = opened(MUSL.build()).signed
    for name in keys:  # none of them signed it, so this shows that each can be read
        claimed = dataclasses.replace(signed.signatures[0], key=name)
        with pytest.raises(IntegrityError, match="is not valid"):
            verify_signature(dataclasses.replace(signed, signatures=(claimed,)), keys, "it")


class Place:
    """A repository with an image's definition, and a cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = Cache(root / "cache")
        self.repository = write_repository(root / "alpine", [BUSYBOX, BINSH, MUSL])
        self.mirrors = Mirrors({"alpine": (f"file://{root}/alpine",)})

    def mirror(self, *bases: str) -> ApkMirror:
        return ApkMirror(Mirrors({"alpine": bases}) if bases else self.mirrors, KEYS, self.cache)

    def define(self, text: str = DEFINITION) -> ImageDefinition:
        files = self.root / "images/small/files"
        files.mkdir(parents=True, exist_ok=True)
        (files / KEY).write_bytes(public_key())
        (files.parent / "image.yaml").write_text(text)
        return load_definition(files.parent)

    def lock(self, definition: ImageDefinition) -> Lock:
        packages = self.mirror().index(MAIN).packages
        locked = tuple(sorted(self.mirror().lock(packages, {})))
        lock = Lock(checksum(definition), "v3.23", TIME, {"linux/amd64": locked})
        write_lock(definition.folder, lock)
        return lock


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_lock_is_read_back(place: Place) -> None:
    definition = place.define()
    lock = place.lock(definition)
    assert load_lock(definition.folder) == lock
    musl = lock.packages("linux/amd64")[2]
    raw = (place.repository / "musl-1.2.5_git20240101-r1.apk").read_bytes()
    assert (musl.size, musl.sha256, musl.format) == (len(raw), hashlib.sha256(raw).hexdigest(), "apk")
    assert place.cache.has(musl, verify=True)
    text = (definition.folder / "lock.json").read_text()
    (definition.folder / "lock.json").write_text(text.replace('"x86_64"', '"aarch64"', 1))
    with pytest.raises(DocumentError, match=r"\[0\].architecture: must be x86_64 or noarch"):
        load_lock(definition.folder)


def test_a_package_that_the_index_does_not_mean(place: Place) -> None:
    """The package is signed, but is not the one whose checksum the signed index has."""
    other = Apk("musl", MUSL.version, MUSL.data, info={"pkgdesc": "another"}).build()
    path = place.repository / "musl-1.2.5_git20240101-r1.apk"
    packages = place.mirror().index(MAIN).packages
    path.write_bytes(other)
    resized = [dataclasses.replace(each, size=len(other)) for each in packages if each.name == "musl"]
    with pytest.raises(IntegrityError, match=r"its checksum is Q1.*, the index says Q1"):
        place.mirror().lock(resized, {})


def test_the_next_mirror_is_asked(place: Place, tmp_path: Path) -> None:
    broken, gone = tmp_path / "broken", tmp_path / "gone"
    write_repository(broken, [MUSL])
    (broken / MAIN / FILE).write_bytes(b"\x1f\x8b\x08\x00garbage")
    found = place.mirror(f"file://{gone}", f"file://{broken}", f"file://{tmp_path}/alpine").index(MAIN)
    assert len(found.packages) == 3
    with pytest.raises(FetchError, match="does not exist"):
        place.mirror(f"file://{gone}").index(MAIN)


def test_what_is_locked_and_cached_is_not_fetched_again(place: Place) -> None:
    packages = place.mirror().index(MAIN).packages
    first = place.mirror().lock(packages, {})
    for path in place.repository.glob("*.apk"):
        path.unlink()
    earlier = {(each.path, each.size): each for each in first}
    assert place.mirror().lock(packages, earlier) == first
    with pytest.raises(FetchError, match="does not exist"):
        place.mirror().lock(packages, {})


def test_an_image_is_built(place: Place) -> None:
    place.lock(place.define())
    built = _build(place, "one")
    tree = contents(built.layout, built.images["linux/amd64"].manifest.digest)
    assert {path: tree[path].link for path in tree if tree[path].link} == {
        "bin/ls": "/bin/busybox",
        "bin/sh": "/bin/busybox",
        "usr/bin/[": "/bin/busybox",
        "usr/sbin/adduser": "/bin/busybox",
    }
    assert tree["etc/apk/world"].data == b"busybox\nmusl\n"
    assert tree["etc/apk/arch"].data == b"x86_64\n"
    paragraphs = tree["lib/apk/db/installed"].data.decode().split("\n\n")
    assert [each.splitlines()[1] for each in paragraphs[:3]] == ["P:busybox", "P:busybox-binsh", "P:musl"]
    program = hashlib.sha1(b"program").digest()
    assert f"F:bin\nR:busybox\na:0:0:755\nZ:Q1{_base64(program)}\nF:etc\n" in paragraphs[0]
    trigger = tree["lib/apk/db/triggers"].data.decode()
    assert trigger == f"{opened(BUSYBOX.build()).signed.checksum} /bin /usr/bin\n"
    assert _build(place, "two").digest == built.digest


def _build(place: Place, name: str) -> BuiltImage:
    catalogue = load_catalogue(place.root / "images")
    supply = Fetcher(Cache(place.root / f"cache-{name}"), place.mirrors)
    return build_images(catalogue, output=place.root / name, supply=supply, frozen=True)[0]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


REFUSALS = {
    "scripts": (
        DEFINITION.replace("declared", "scripts").replace(
            "declare: [package-metadata, busybox-applets]\n", ""
        ),
        "configure: must be 'declared' with an Alpine base",
    ),
    "a suite": (DEFINITION.replace("[busybox, musl]", "[busybox/edge]"), "'busybox/edge' names a suite"),
    "a declaration of Debian": (
        DEFINITION.replace("package-metadata", "ld-cache"),
        "declare[0]: 'ld-cache' is not for Alpine",
    ),
    "a release without quotes": (DEFINITION.replace('"3.23"', "3.23"), "base.alpine: "),
    "a key that is not there": (DEFINITION.replace("files/", "file/"), "base.keys[0]: there is no file"),
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_definitions_that_are_refused(place: Place, text: str, message: str) -> None:
    place.define()
    with pytest.raises(DocumentError) as caught:
        place.define(text)
    assert message in str(caught.value)


def test_the_static_apk_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.write_bytes(
        Apk("apk-tools-static", data=[Member("sbin/apk.static", "#!/bin/sh\necho it\n")]).build()
    )
    extract_static(package, tmp_path / "program")
    assert (tmp_path / "program").read_text() == "#!/bin/sh\necho it\n"
    package.write_bytes(MUSL.build())
    with pytest.raises(LockError, match=r"has no file sbin/apk\.static"):
        extract_static(package, tmp_path / "other")


def test_the_words_of_apk_when_it_fails(tmp_path: Path) -> None:
    """A stand-in fails as apk does: apk's message is passed on."""
    program = tmp_path / "apk"
    program.write_text("#!/bin/sh\necho 'ERROR: unable to select packages:' >&2; exit 2\n")
    program.chmod(0o755)
    apk = PrivateApk(str(program), tmp_path / "root", "x86_64")
    apk.prepare({"main": b""}, KEYS)
    with pytest.raises(
        LockError, match="apk cannot resolve the packages:\nERROR: unable to select packages:"
    ):
        apk.resolve(["nothing"])


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files; without their length if the path says so."""

    def log_message(self, *_: object) -> None: ...

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Content-Length" or "unsized" not in self.directory:
            super().send_header(keyword, value)


@pytest.mark.parametrize("name", ["sized", "unsized"])
def test_a_mirror_on_http(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of an index is not signed, so any size is accepted, up to a limit."""
    write_repository(tmp_path / name, [BUSYBOX, BINSH, MUSL])
    with listening(partial(_Handler, directory=str(tmp_path / name))) as port:
        mirrors = Mirrors({"alpine": (f"http://127.0.0.1:{port}",)})
        mirror = ApkMirror(mirrors, KEYS, Cache(tmp_path / "cache"))
        packages = mirror.index(MAIN).packages
        assert [each.name for each in mirror.lock(packages, {})] == ["busybox", "busybox-binsh", "musl"]
        with pytest.raises(FetchError, match=r"edge/main/x86_64/APKINDEX\.tar\.gz does not exist"):
            mirror.index("edge/main/x86_64")
        monkeypatch.setattr(apk_mirror, "MAX_INDEX", 100)
        with pytest.raises(IntegrityError, match="is longer than 100 bytes"):
            mirror.index(MAIN)


def test_the_sbom_and_the_provenance(place: Place) -> None:
    """Each package has its SHA-256, source and files, even if the image has no database."""
    definition = place.define(DEFINITION.replace("package-metadata, ", ""))
    lock = place.lock(definition)
    built = _build(place, "one")
    locked = lock.packages("linux/amd64")
    files = package_files(
        locked, {each.sha256: place.cache.path(each.sha256) for each in locked}, place.cache
    )
    found = take_inventory("small", open_image(built.layout, platform="linux/amd64"), locked, files)
    assert [(each.kind, each.name, each.sha256, each.needs) for each in found.packages] == [
        ("apk", "busybox", locked[0].sha256, ("musl",)),
        ("apk", "busybox-binsh", locked[1].sha256, ()),
        ("apk", "musl", locked[2].sha256, ()),
    ]
    assert {each.licence.expression for each in found.packages} == {"MIT"}
    assert found.packages[0].files == (b"bin/busybox", b"etc/busybox-paths.d/busybox")
    uris = {each["uri"] for each in provenance._materials(lock, ["linux/amd64"])}
    assert "pkg:apk/alpine/musl@1.2.5_git20240101-r1?arch=x86_64&distro=alpine-3.23" in uris


def test_no_dockerfile(place: Place) -> None:
    recipe = Recipe("linux/amd64", TIME, "builder", None, place.define().config)
    with pytest.raises(
        BuildError, match=r"cannot write image '.*' as a Dockerfile: its packages are Alpine's"
    ):
        render_dockerfile(place.define(), recipe)


def test_the_image_that_ships() -> None:
    definition = load_definition(data_path("images", "more", "alpine-apk"))
    assert (definition.distribution, definition.suite, definition.keys) == ("alpine", "v3.23", ())
    with pytest.raises(HostError, match=r"no mirror of the archive 'alpine' is known; .*SANDWRIGHT_MIRROR"):
        lock_apk_image(definition, mirrors=Mirrors({}), cache=Path("/nonexistent"))
