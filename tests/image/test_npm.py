"""Packages of npm in an image: a real npm locks and downloads them; their installation needs none.

Tests of image/npm.py.
Tests of image/npmpackage.py.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from sandwright import process
from sandwright.errors import (
    BuildError,
    CommandFailed,
    DocumentError,
    FetchError,
    HostError,
    IntegrityError,
    LockError,
)
from sandwright.host import collect_host
from sandwright.image.apt import lock_image
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import Platform, load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, check_lock, load_lock, lock_changes, parse_lock, write_lock
from sandwright.image.lockednpm import LockedNpm
from sandwright.image.mirrors import find_mirrors
from sandwright.image.npm import with_npm
from sandwright.image.npmpackage import NpmPackages, install_npm
from sandwright.image.overlay import Overlay
from sandwright.image.tree import FileTree
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.unpacking.unpack import unpack
from support.debs import Member, tar
from support.filetrees import EPOCH, overlay_on
from support.npms import (
    DEFINITION,
    ENTRIES,
    HELPER,
    LOCK_FILE,
    MODULES,
    NATIVE,
    OFFERED,
    TEXT,
    TOOL,
    Npm,
    NpmWorld,
    npm_world,
    package_lock,
)
from support.smallworld import contents

pytestmark = [pytest.mark.needs("npm"), pytest.mark.timeout(180)]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmWorld]:
    with npm_world(tmp_path, monkeypatch) as made:
        yield made


def test_the_lock(shop: NpmWorld) -> None:
    lock = shop.lock(TEXT)
    digests = {(each.name, each.version): hashlib.sha256(each.build()).hexdigest() for each in OFFERED}
    for platform, packages in lock.npm.items():
        assert [(each.path, each.name, each.version, each.direct) for each in packages] == [
            ("node_modules/@scope/helper", "@scope/helper", "2.1.0-rc.1", False),
            (
                f"node_modules/{NATIVE[platform].name}",
                NATIVE[platform].name,
                "1.0.0",
                platform.endswith("amd64"),
            ),
            ("node_modules/scope-helper", "scope-helper", "1.0.0", False),
            ("node_modules/tool", "tool", "1.0.0", True),
            ("node_modules/tool/node_modules/@scope/helper", "@scope/helper", "1.0.0", False),
        ]
        assert all(each.sha256 == digests[each.name, each.version] for each in packages)
    assert lock.npm.keys() == NATIVE.keys()
    assert load_lock(shop.world.images / "base") == lock
    changes = lock_changes(dataclasses.replace(lock, npm={}), lock)
    assert "+ tool/node_modules/@scope/helper (npm) 1.0.0 (linux/amd64, linux/arm64)" in changes
    assert "+ native-arm64 (npm) 1.0.0 (linux/arm64)" in changes


def test_another_file_makes_the_lock_stale(shop: NpmWorld) -> None:
    shop.lock(TEXT)
    (shop.world.images / "base" / LOCK_FILE).write_text(TEXT + "\n")
    definition = load_catalogue(shop.world.images)["base"]
    with pytest.raises(LockError, match="its definition has changed"):
        check_lock(definition, load_lock(definition.folder))


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "from Git": ({"resolved": "git+ssh://git@github.com/user/tool.git#0123"}, "not of a registry"),
    "from an address": ({"resolved": "https://example.com/tool.tgz"}, "not of a registry"),
    "from GitHub": ({"resolved": "https://codeload.github.com/user/tool/tar.gz/0123"}, "not of a registry"),
    "from a file": ({"resolved": "file:../tool-1.0.0.tgz"}, "not of a registry"),
    "a link": ({"resolved": "packages/tool", "link": True}, "only packages of a registry"),
    "no digest": ({"integrity": None}, "it has no 'integrity'"),
    "SHA-1": ({"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}, "it has no 'integrity'"),
    "not base64": ({"integrity": "sha512-####"}, "it has no 'integrity'"),
    "a path for a version": ({"version": "file:/etc"}, "no name and version"),
    "a tag for a version": ({"version": "latest"}, "no name and version"),
    "an option for a name": ({"name": "--prefix=/"}, "no name and version"),
    "a path for a name": ({"name": "./tool"}, "no name and version"),
    "another processor": ({"cpu": ["ppc64"]}, "it is not for linux/amd64 with glibc"),
    "another C library": ({"libc": ["musl"]}, "it is not for linux/amd64 with glibc"),
    "another system": ({"os": ["!linux"]}, "it is not for linux/amd64 with glibc"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_entries_that_are_refused(shop: NpmWorld, change: dict[str, object], message: str) -> None:
    """Nothing is requested from npm for such entries."""
    with pytest.raises(LockError, match=r"package-lock\.json: .*tool") as caught:
        shop.lock(package_lock({**ENTRIES, "tool": {**ENTRIES["tool"], **change}}))
    assert message in str(caught.value)
    assert not shop.registry.asked


@pytest.mark.parametrize("path", ["../up", "packages/a", "a/../../b", "a/node_modules/", "a b"])
def test_directories_that_are_refused(shop: NpmWorld, path: str) -> None:
    with pytest.raises(LockError, match="is a directory of the project"):
        shop.lock(package_lock({path: TOOL.entry()}))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"lockfileVersion": 1, "dependencies": {}}',
        '{"lockfileVersion": 3}',
        '{"lockfileVersion": 3, "packages": {}, "packages": {}}',
    ],
)
def test_documents_that_are_refused(shop: NpmWorld, text: str) -> None:
    with pytest.raises(LockError, match=r"not a package-lock\.json|lockfileVersion is not 2 or 3"):
        shop.lock(text)


def test_what_npm_cannot_find(shop: NpmWorld) -> None:
    with pytest.raises(LockError, match=r"image 'base': languages\.npm: (?s:.*)absent"):
        shop.lock(package_lock({"absent": Npm("absent").entry()}))


def test_another_file_than_the_project_names(shop: NpmWorld) -> None:
    """The registry has another package of that name."""
    other = dataclasses.replace(TOOL, files={"bin/run.js": "another"})
    with pytest.raises(IntegrityError, match=r"tool@1\.0\.0: npm downloaded another file: its sha512 is"):
        shop.lock(package_lock({"tool": other.entry()}))


def test_one_package_with_two_digests(shop: NpmWorld) -> None:
    """The registry has only one of them."""
    other = dataclasses.replace(TOOL, files={"bin/run.js": "another"})
    for order in (("tool", "z/node_modules/tool"), ("z/node_modules/tool", "tool")):
        with pytest.raises(IntegrityError, match="npm downloaded another file"):
            shop.lock(package_lock({order[0]: TOOL.entry(), order[1]: other.entry()}))


def test_settings_of_a_directory_above_are_not_read(
    shop: NpmWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user can write to the temporary directory."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "package.json").write_text("{}")
    (shared / ".npmrc").write_text("dry-run=true\n")
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    assert shop.lock(TEXT).npm


def test_two_builds_are_equal(shop: NpmWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.lock(TEXT)
    built = shop.build("one")
    assert "not run: install scripts of npm's tool" in " ".join(shop.world.notes)
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    before = os.umask(0o077)
    try:
        assert shop.build("two").digest == built.digest
    finally:
        os.umask(before)
    for platform, image in built.images.items():
        tree = contents(built.layout, image.manifest.digest)
        native = tree[f"{MODULES}/{NATIVE[platform].name}/native.node"]
        assert (native.data, native.mode) == (platform.encode(), 0o644)
        assert (tree[f"{MODULES}/tool/bin/run.js"].mode, tree[f"{MODULES}/tool/lib/data.txt"].data) == (
            0o755,
            b"data\n",
        )
        assert tree[f"{MODULES}/tool/node_modules/@scope/helper/index.js"].data == b"older"
        links = {path: each.link for path, each in tree.items() if each.kind == tarfile.SYMTYPE}
        assert links[f"{MODULES}/.bin/tool"] == "../tool/bin/run.js"
        assert links[f"{MODULES}/.bin/helper"] == "../@scope/helper/index.js"
        assert links["usr/local/bin/tool"] == "../lib/node_modules/tool/bin/run.js"
        assert "usr/local/bin/helper" not in tree
        assert not any("for-tests" in path for path in tree)
    assert not Path("/tmp/ran").exists()


def test_a_package_that_is_no_longer_in_the_registry(shop: NpmWorld) -> None:
    shop.lock(TEXT)
    shop.build("one")
    shop.registry.offered.remove(TOOL)
    with pytest.raises(FetchError, match=r"(?s)npm: .*tool"):
        shop.build("two")
    shop.registry.offered.append(dataclasses.replace(TOOL, files={"bin/run.js": "another"}))
    with pytest.raises(IntegrityError, match=r"tool@1\.0\.0: npm downloaded another file: its sha256 is"):
        shop.build("three")


def installed(
    directory: Path, *packages: Npm, overlay: Overlay | None = None
) -> dict[str, tuple[bytes, int]]:
    """The files that packages add: path → content or target, and mode."""
    locked, files = [], {}
    for package in packages:
        content = package.build()
        digest = hashlib.sha256(content).hexdigest()
        files[digest] = directory / digest
        files[digest].write_bytes(content)
        path = f"node_modules/{package.name}"
        locked.append(LockedNpm(path, package.name, package.version, len(content), digest, direct=True))
    overlay = Overlay(FileTree(), epoch=EPOCH) if overlay is None else overlay
    install_npm(overlay, NpmPackages(locked, files), io.BytesIO())
    return {
        each.entry.path.decode(): (b"".join(each.content()) or each.entry.link, each.entry.mode)
        for each in overlay
        if each.entry.kind is not EntryKind.DIRECTORY
    }


STRANGE = Npm(
    "strange",
    files={"src/.gitignore": "x", "both/.npmignore": "own", "both/.gitignore": "dropped"},
    described={"bin": {"there": "there.sh", "absent": "absent.sh", "up": "../../../there.sh"}},
    members=[
        Member("package/there.sh", "#!/bin/sh\n", mode=0o600),
        Member("package/private", "x", mode=0o600),
        Member("package/runs", "x", mode=0o755),
        Member("other/top", "x"),
        Member("package/link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
    ],
)


PROGRAMS = {
    "tool": {"tool": "bin/run.js"},
    "@scope/helper": {"helper": "index.js"},
    "strange": {"there": "there.sh", "absent": "absent.sh", "up": "there.sh"},
}
"""The entries as npm writes them to a package-lock.json."""


def test_as_npm_installs_it(shop: NpmWorld, tmp_path: Path) -> None:
    """The result has the same files and links with the same bytes and modes as `npm ci`."""
    shop.registry.offered.append(STRANGE)
    entries = {name: entry for name, entry in ENTRIES.items() if name != "for-tests"}
    lock = json.loads(package_lock({**entries, "strange": STRANGE.entry()}))
    optional = {each.name: "*" for each in NATIVE.values()}
    direct = dict.fromkeys(("tool", "@scope/helper", "scope-helper", "strange"), "*")
    direct["@scope/helper"] = HELPER.version
    for name, stated in PROGRAMS.items():
        lock["packages"][f"node_modules/{name}"]["bin"] = stated
    lock["packages"][""] |= {"dependencies": direct, "optionalDependencies": optional}
    shop.lock(json.dumps(lock))
    built = shop.build("one")
    (platform,) = (each for each in get_args(Platform) if each == collect_host().platform)
    tree = contents(built.layout, built.images[platform].manifest.digest)
    ours = {
        path.removeprefix(f"{MODULES}/"): (each.data or each.link.encode(), each.mode)
        for path, each in tree.items()
        if path.startswith(f"{MODULES}/") and each.kind != tarfile.DIRTYPE
    }
    assert ours == _npm_ci(tmp_path / "project", lock)


def _npm_ci(project: Path, lock: dict[str, Any]) -> dict[str, tuple[bytes, int]]:
    """The files that npm installs from a package-lock.json: path → content or target, and mode."""
    project.mkdir()
    (project / "package-lock.json").write_text(json.dumps(lock))
    (project / "package.json").write_text(json.dumps(lock["packages"][""]))
    process.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=project, timeout=100)
    found = {}
    modules = project / "node_modules"
    for path in modules.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(modules))] = (str(path.readlink()).encode(), 0o777)
        elif path.is_file() and path.name != ".package-lock.json":
            found[str(path.relative_to(modules))] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


HOSTILE = {
    "a path upwards": (Npm("some", members=[Member("package/../../x")]), "climbs with '..'"),
    "a device": (Npm("some", members=[Member("package/x", kind=tarfile.CHRTYPE)]), "character device"),
    "a program upwards": (
        Npm("some", files={"x": ""}, described={"bin": {"../x": "x"}}),
        "'../x' is not the name of a program",
    ),
    "a list": (
        Npm("some", members=[Member("package/package.json", "[]")]),
        "not an object",
    ),
    "not JSON": (Npm("some", members=[Member("package/package.json", "{")]), "not a package"),
    "a file in place of a directory": (Npm("some", files={"x": "", "x/y": ""}), "not a package"),
}


@pytest.mark.parametrize(("package", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_packages_that_are_refused(tmp_path: Path, package: Npm, message: str) -> None:
    with pytest.raises(BuildError, match=r"some 1\.0\.0 \(npm\)") as caught:
        installed(tmp_path, package)
    assert message in str(caught.value)


def test_archives_that_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"no archive", tar([Member("package/package.json", "{}")]), gzip.compress(b"x")):
        digest = hashlib.sha256(content).hexdigest()
        (tmp_path / digest).write_bytes(content)
        package = LockedNpm("node_modules/a", "a", "1.0.0", len(content), digest, direct=True)
        with pytest.raises(BuildError, match=r"a 1\.0\.0 \(npm\): not a package that can be installed"):
            install_npm(overlay_on(), NpmPackages([package], {digest: tmp_path / digest}), io.BytesIO())


def test_a_path_that_is_taken(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"/usr/local/bin/tool is in the image already"):
        installed(tmp_path, TOOL, dataclasses.replace(TOOL, name="twin"))
    with pytest.raises(BuildError, match=r"package\.json is in the image already"):
        installed(tmp_path, TOOL, overlay=overlay_on(f"{MODULES}/tool/package.json"))


def test_another_file_than_the_lock_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"other")
    package = LockedNpm("node_modules/a", "a", "1.0.0", 5, "0" * 64, direct=True)
    with pytest.raises(IntegrityError, match="the lock says 0000"):
        install_npm(overlay_on(), NpmPackages([package], {"0" * 64: tmp_path / "file"}), io.BytesIO())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "node_modules/../x"}, "must be a path like node_modules/NAME"),
        ({"path": "usr/bin"}, "must be a path like node_modules/NAME"),
        ({"name": "-x/y"}, "must be the name of a package of npm"),
        ({"version": "file:x"}, "must be a version like"),
    ],
)
def test_locks_that_are_refused(change: dict[str, object], message: str) -> None:
    entry = {"path": "node_modules/a", "name": "a", "version": "1.0.0", "size": 1, "sha256": "0" * 64}
    lock = {"npm": {"linux/amd64": [{**entry, "direct": True, **change}]}}
    with pytest.raises(DocumentError, match=message):
        parse_lock(json.dumps(lock).encode(), file="lock.json")


def test_definitions_that_are_refused(shop: NpmWorld) -> None:
    with pytest.raises(DocumentError, match=r"languages\.npm: there is no file 'files/none'"):
        shop.define(TEXT, DEFINITION.replace("package-lock.json", "none"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("apt-get", "bwrap")
def test_a_program_of_the_real_registry_runs(tmp_path: Path) -> None:
    """esbuild has a native program for each platform, and a script that is not run."""
    (platform,) = (each for each in get_args(Platform) if each == collect_host().platform)
    folder = tmp_path / "images/node"
    (folder / "files").mkdir(parents=True)
    (folder / "image.yaml").write_text(
        "schema: 1\ndescription: Node.\nbase: {debian: bookworm}\nconfigure: declared\n"
        "packages: [nodejs, libc-bin, coreutils]\ndeclare: [merged-usr, ld-cache, tmp]\n"
        f"languages: {{npm: {LOCK_FILE}}}\nplatforms: [{platform}]\n"
    )
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"dependencies": {"esbuild": "0.25.0", "semver": "7.6.3"}}')
    cache = Cache(default_cache(os.environ))
    try:
        process.run("npm", "install", "--package-lock-only", "--no-audit", cwd=project, timeout=300)
        (folder / LOCK_FILE).write_bytes((project / "package-lock.json").read_bytes())
        mirrors = find_mirrors(None, os.environ)
        definition = load_catalogue(tmp_path / "images")["node"]
        lock: Lock = lock_image(definition, mirrors=mirrors, cache=cache.root)
    except (FetchError, HostError, LockError, CommandFailed) as error:
        pytest.skip(f"the packages can't be had: {error}")
    write_lock(folder, with_npm(definition, lock, cache))
    (built,) = build_images(
        {"node": definition}, output=tmp_path / "build", supply=Fetcher(cache, mirrors), frozen=True
    )
    root = tmp_path / "root"
    unpack(open_image(built.layout, platform=platform).layers, root)
    sandbox = ("bwrap", "--ro-bind", root, "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all")
    assert process.run(*sandbox, "/usr/local/bin/esbuild", "--version", timeout=60).text == "0.25.0"
    assert process.run(*sandbox, "/usr/local/bin/semver", "1.2.3", timeout=60).text == "1.2.3"
    code = "console.log(require('esbuild').transformSync('let x: number = 1', {loader: 'ts'}).code)"
    words = ("--setenv", "NODE_PATH", f"/{MODULES}", "/usr/bin/node", "-e", code)
    assert process.run(*sandbox, *words, timeout=60).text == "let x = 1;"
