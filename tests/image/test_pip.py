"""Python packages of an image: a real pip locks and downloads them; their installation needs none.

Tests of image/pip.py.
Tests of image/wheel.py: a wheel's SHA-256.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import get_args

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
from sandwright.image.dockerfile.render import Recipe, render_dockerfile
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import check_lock, load_lock, lock_changes, write_lock
from sandwright.image.lockedwheel import LockedWheel
from sandwright.image.mirrors import find_mirrors
from sandwright.image.overlay import Overlay
from sandwright.image.pip import python_target, with_wheels
from sandwright.image.sections import Config
from sandwright.image.tree import FileTree
from sandwright.image.wheel import PythonWheels, install_wheels
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.unpacking.unpack import unpack
from support.filetrees import EPOCH, overlay_on
from support.pythonworld import DEFINITION, SITE, TOOL, PythonWorld, native
from support.smallworld import contents
from support.wheels import NATIVE, Wheel

pytestmark = [pytest.mark.needs("pip3"), pytest.mark.timeout(120)]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PythonWorld:
    return PythonWorld(tmp_path, monkeypatch)


def test_the_lock(shop: PythonWorld) -> None:
    lock = shop.lock()
    digest = {each.file: hashlib.sha256(each.build()).hexdigest() for each in (TOOL, *map(native, NATIVE))}
    for platform, wheels in lock.wheels.items():
        names = [(each.name, each.file) for each in wheels]
        assert names == [("native", native(platform).file), ("some-tool", TOOL.file)]
    assert lock.wheels.keys() == NATIVE.keys()
    assert all(each.sha256 == digest[each.file] for wheels in lock.wheels.values() for each in wheels)
    assert load_lock(shop.world.images / "base") == lock
    assert lock_changes(dataclasses.replace(lock, wheels={}), lock) == [
        "+ native (Python) 1.0 (linux/amd64, linux/arm64)",
        "+ some-tool (Python) 1.0 (linux/amd64, linux/arm64)",
    ]


def test_other_requirements_make_the_lock_stale(shop: PythonWorld) -> None:
    shop.lock()
    (shop.world.images / "base/files/requirements.txt").write_text(f"{shop.requirements}# more\n")
    definition = load_catalogue(shop.world.images)["base"]
    with pytest.raises(LockError, match="its definition has changed"):
        check_lock(definition, load_lock(definition.folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("sha256:", "sha256:0000")[:-5] + "\n", "DO NOT MATCH THE HASHES"),
        (lambda text: text.partition(" --hash")[0] + "\n", "Hashes are required in --require-hashes mode"),
        (lambda text: text.splitlines()[0] + "\n", "native"),
        (lambda text: text.replace("==", ">="), "must have their versions pinned"),
        (lambda text: f"{text}absent==1 --hash=sha256:{'0' * 64}\n", "absent"),
    ],
    ids=[
        "a wrong hash",
        "no hash",
        "an incomplete file",
        "no version",
        "not in the index",
    ],
)
def test_requirements_that_are_refused(shop: PythonWorld, change: Callable[[str], str], message: str) -> None:
    with pytest.raises(LockError, match=r"image 'base': languages\.pip: linux/") as caught:
        shop.lock(change(shop.requirements))
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["--no-binary=:all:", "-r other.txt", "--index-url https://x", "-e ."])
def test_options_in_requirements_are_refused(shop: PythonWorld, option: str) -> None:
    """With one of them, pip would build its downloads, which runs their code."""
    with pytest.raises(LockError, match=f"{option}: an option; name the index"):
        shop.lock(f"{shop.requirements}{option}\n")


@pytest.mark.parametrize(
    "line",
    [
        "evil @ file://{archive} --hash=sha256:{digest}",
        "{archive} --hash=sha256:{digest}",
        "evil.tar.gz --hash=sha256:{digest}",
        "file://{archive} --hash=sha256:{digest}",
        "./evil.tar.gz --hash=sha256:{digest}",
        "# a comment\f-r other.txt",
        "# coding: utf-7\nevil +AEA- file://{archive} --hash=sha256:{digest}",
        "${{HOME}} --hash=sha256:{digest}",
    ],
)
def test_nothing_that_requirements_name_is_built(
    shop: PythonWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """pip prefers no wheel if a requirement is a path or an address."""
    source = tmp_path / "evil"
    source.mkdir()
    ran = tmp_path / "ran"
    (source / "backend.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    archive = tmp_path / "evil.tar.gz"
    process.run("tar", "-czf", archive, "-C", tmp_path, "evil")
    monkeypatch.chdir(tmp_path)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(
        LockError, match=r"not the name of a package|an option; name the index|languages\.pip"
    ):
        shop.lock(line.format(archive=archive, digest=digest) + f"\n{shop.requirements}")
    assert not ran.exists()


def test_hashes_may_stand_on_lines_of_their_own(shop: PythonWorld) -> None:
    """`pip-compile --generate-hashes` writes them like this."""
    lines = shop.requirements.replace(" --hash", " \\\n    --hash")
    assert shop.lock(lines).wheels == shop.lock().wheels


def test_a_source_distribution_is_refused(shop: PythonWorld) -> None:
    """Building a source distribution would run its code."""
    (shop.index / "sdist-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(LockError, match="No matching distribution"):
        shop.lock(f"sdist==1.0 --hash=sha256:{hashlib.sha256(b'').hexdigest()}\n")


def test_the_interpreter_of_the_settings_is_not_run(
    shop: PythonWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    evil.chmod(0o755)
    monkeypatch.setenv("PIP_PYTHON", str(evil))
    process.run("pip3", "download", check=False, timeout=60)
    (tmp_path / "ran").unlink()  # the control: pip runs it
    shop.lock()
    assert not (tmp_path / "ran").exists()


def test_a_pip_without_that_setting(
    shop: PythonWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is a pip before 22.3, as in Ubuntu 22.04."""
    old = tmp_path / "old/pip3"
    old.parent.mkdir()
    refusal = 'case "$1" in --python=*) echo "no such option: --python" >&2; exit 2;; esac'
    old.write_text(f'#!/bin/sh\n{refusal}\nexec {process.which("pip3")} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    assert shop.lock().wheels


def test_an_image_without_python() -> None:
    with pytest.raises(LockError, match="the image has no Python; add the package python3"):
        python_target("linux/amd64", [])


def test_two_builds_are_equal(shop: PythonWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.lock()
    built = shop.build("one")
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    before = os.umask(0o077)
    try:
        assert shop.build("two").digest == built.digest
    finally:
        os.umask(before)
    for platform, image in built.images.items():
        tree = contents(built.layout, image.manifest.digest)
        assert tree[f"{SITE}/native.so"].data == platform.encode()
        assert tree[f"{SITE}/tool/data.txt"].data == b"data\n"
        assert (tree["usr/local/bin/tool"].mode, tree["usr/local/bin/tool"].data[:18]) == (
            0o755,
            b"#!/usr/bin/python3",
        )
        assert tree[f"{SITE}/tool/__init__.py"].mode == 0o644
        assert not [path for path in tree if path.endswith(".pyc")]


def test_a_wheel_that_is_no_longer_in_the_index(shop: PythonWorld) -> None:
    shop.lock()
    shop.build("one")
    Wheel("native", tag=NATIVE["linux/amd64"], files={"native.so": "other"}).write(shop.index)
    with pytest.raises(FetchError, match="DO NOT MATCH THE HASHES"):
        shop.build("two")


def test_as_pip_installs_it(shop: PythonWorld, tmp_path: Path) -> None:
    """The result has the same files, bytes and modes, except for files in which an installer names itself."""
    shop.define()
    prefix = tmp_path / "prefix"
    wheel = shop.index / TOOL.file
    options = ("--no-deps", "--no-compile", "--no-warn-script-location", "--ignore-installed")
    process.run("pip3", "install", "--quiet", *options, f"--prefix={prefix}", str(wheel), timeout=60)
    (site,) = prefix.rglob("python3.*/*-packages")  # Debian's pip: below local/
    theirs = {str(path.relative_to(site)): path for path in site.rglob("*") if path.is_file()}
    ours = {path.removeprefix(f"{SITE}/"): each for path, each in installed(tmp_path, TOOL).items()}
    own = {"Some.Tool-1.0.dist-info/INSTALLER", "Some.Tool-1.0.dist-info/RECORD"}
    pips = {"Some.Tool-1.0.dist-info/REQUESTED", "Some.Tool-1.0.dist-info/direct_url.json"}
    assert ours.keys() - {"usr/local/bin/tool"} == theirs.keys() - pips
    for name in ours.keys() & theirs.keys() - own:
        assert ours[name] == (theirs[name].read_bytes(), stat.S_IMODE(theirs[name].stat().st_mode)), name


def installed(
    directory: Path, *wheels: Wheel, overlay: Overlay | None = None
) -> dict[str, tuple[bytes, int]]:
    """The files that wheels add: path → content and mode."""
    locked, files = [], {}
    for wheel in wheels:
        content = wheel.build()
        digest = hashlib.sha256(content).hexdigest()
        files[digest] = directory / digest
        files[digest].write_bytes(content)
        locked.append(
            LockedWheel(wheel.name.lower().replace(".", "-"), wheel.version, len(content), digest, wheel.file)
        )
    overlay = Overlay(FileTree(), epoch=EPOCH) if overlay is None else overlay
    install_wheels(overlay, PythonWheels("3.11", locked, files))
    return {
        each.entry.path.decode(): (b"".join(each.content()), each.entry.mode)
        for each in overlay
        if each.entry.kind is EntryKind.FILE
    }


def test_metadata_in_other_letters(tmp_path: Path) -> None:
    found = installed(tmp_path, Wheel("some", info="Some-1.0.dist-info"))
    assert f"{SITE}/Some-1.0.dist-info/METADATA" in found


def test_the_schemes_of_data(tmp_path: Path) -> None:
    data = {
        "scripts/run": "#!python\nprint()\n",
        "scripts/other": "#!/bin/sh\n",
        "data/share/x": "x",
        "headers/x.h": "h",
        "purelib/pure.py": "p",
    }
    found = installed(
        tmp_path, Wheel("some", files={f"some-1.0.data/{name}": text for name, text in data.items()})
    )
    assert found["usr/local/bin/run"] == (b"#!/usr/bin/python3\nprint()\n", 0o755)
    assert found["usr/local/bin/other"] == (b"#!/bin/sh\n", 0o755)
    assert found["usr/local/share/x"] == (b"x", 0o644)
    assert found["usr/local/include/python3.11/some/x.h"] == (b"h", 0o644)
    record = found[f"{SITE}/some-1.0.dist-info/RECORD"][0].decode().splitlines()
    assert sorted(line.partition(",")[0] for line in record)[:3] == [
        "../../../bin/other",
        "../../../bin/run",
        "../../../include/python3.11/some/x.h",
    ]


HOSTILE = {
    "a path upwards": (Wheel("some", files={"../x.py": ""}), "holds '.' or '..'"),
    "an absolute path": (Wheel("some", files={"/etc/x": ""}), "has a slash too many"),
    "a symbolic link": (Wheel("some", links={"x": "/etc/passwd"}), "x is a link"),
    "an unknown scheme": (
        Wheel("some", files={"some-1.0.data/root/x": ""}),
        "some-1.0.data/root is not known",
    ),
    "another format": (Wheel("some", format="2.0"), "does not state version 1"),
    "a program upwards": (
        Wheel("some", programs="[console_scripts]\n../x = a:b\n"),
        "entry_points.txt: ../x = a:b",
    ),
    "a program with code": (
        Wheel("some", programs="[console_scripts]\nx = a:b;print()\n"),
        "entry_points.txt: x = a:b;print()",
    ),
    "no metadata": (Wheel("some", info=""), "it has 0 directories *.dist-info"),
    "two files for a program": (
        Wheel("some", files={"some-1.0.data/scripts/x": ""}, programs="[console_scripts]\nx = a:b\n"),
        "/usr/local/bin/x is there twice",
    ),
}


@pytest.mark.parametrize(("wheel", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_wheels_that_are_refused(tmp_path: Path, wheel: Wheel, message: str) -> None:
    with pytest.raises(BuildError, match=r"some 1\.0") as caught:
        installed(tmp_path, wheel)
    assert message in str(caught.value)


def test_a_path_that_is_taken(tmp_path: Path) -> None:
    one, other = (Wheel(name, files={"same.py": name}) for name in ("one", "two"))
    with pytest.raises(BuildError, match=rf"two 1\.0 \(Python\): /{SITE}/same\.py is in the image already"):
        installed(tmp_path, one, other)
    with pytest.raises(BuildError, match="is in the image already"):
        installed(tmp_path, one, overlay=overlay_on(f"{SITE}/same.py"))


def test_another_file_than_the_lock_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"other")
    wheel = LockedWheel("some", "1.0", 5, "0" * 64, "some-1.0-py3-none-any.whl")
    with pytest.raises(IntegrityError, match="the lock says 0000"):
        install_wheels(overlay_on(), PythonWheels("3.11", [wheel], {"0" * 64: tmp_path / "file"}))


def test_a_dockerfile_is_refused(shop: PythonWorld) -> None:
    shop.define()
    recipe = Recipe("linux/amd64", 0, "builder@sha256:0", None, Config())
    with pytest.raises(BuildError, match="cannot write image 'base' as a Dockerfile: it has languages"):
        render_dockerfile(load_catalogue(shop.world.images)["base"], recipe)


def test_definitions_that_are_refused(shop: PythonWorld) -> None:
    with pytest.raises(DocumentError, match=r"languages\.pip: there is no file 'files/none'"):
        shop.define(text=DEFINITION.replace("requirements.txt", "none"))
    derived = "schema: 1\ndescription: x\nbase: {image: base}\nlanguages: {pip: files/requirements.txt}\n"
    with pytest.raises(DocumentError, match="languages: only an image with a Debian"):
        shop.define(text=derived)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("apt-get", "bwrap")
def test_a_compiled_package_is_imported(tmp_path: Path) -> None:
    """The package comes from the real index, in an image of real packages."""
    (platform,) = (each for each in get_args(Platform) if each == collect_host().platform)
    folder_ = tmp_path / "images/python"
    (folder_ / "files").mkdir(parents=True)
    requirements = folder_ / "files/requirements.txt"
    requirements.write_text("")
    (folder_ / "image.yaml").write_text(
        "schema: 1\ndescription: Python.\nbase: {debian: bookworm}\nconfigure: declared\n"
        "packages: [python3-minimal, libpython3-stdlib]\ndeclare: [merged-usr, ld-cache, tmp]\n"
        f"languages: {{pip: files/requirements.txt}}\nplatforms: [{platform}]\n"
    )
    cache = Cache(default_cache(os.environ))
    try:
        mirrors = find_mirrors(None, os.environ)
        definition = load_catalogue(tmp_path / "images")["python"]
        bare = lock_image(definition, mirrors=mirrors, cache=cache.root)
        options = python_target(platform, bare.packages(platform)).options
        argv = ("pip3", "download", "-q", "--only-binary=:all:", "--no-deps", f"--dest={tmp_path / 'wheels'}")
        process.run(*argv, *options, "markupsafe==3.0.2", timeout=120)
    except (FetchError, HostError, LockError, CommandFailed) as error:
        pytest.skip(f"the packages can't be had: {error}")
    (wheel,) = (tmp_path / "wheels").iterdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    requirements.write_text(f"MarkupSafe==3.0.2 --hash=sha256:{digest}\n")
    definition = load_catalogue(tmp_path / "images")["python"]
    lock = lock_image(definition, mirrors=mirrors, cache=cache.root)
    write_lock(folder_, with_wheels(definition, lock, cache))
    (built,) = build_images(
        {"python": definition}, output=tmp_path / "build", supply=Fetcher(cache, mirrors), frozen=True
    )
    root = tmp_path / "root"
    unpack(open_image(built.layout, platform=platform).layers, root)
    sandbox = ("bwrap", "--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all")
    code = (
        "import importlib.metadata, markupsafe._speedups as module\n"
        "print(module.__file__, importlib.metadata.version('MarkupSafe'))"
    )
    said = process.run(*sandbox, "/usr/bin/python3", "-c", code, timeout=60).text
    assert said.startswith(f"/{SITE}/markupsafe/_speedups")
    assert said.endswith(" 3.0.2")
