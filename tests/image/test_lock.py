"""Lock files: their text, refused content, when they are stale, and the changes of a new one.

Tests of image/lock.py.
Tests of image/lockfile.py.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import DocumentError, LockError
from sandwright.image.definition import ImageDefinition, load_definition
from sandwright.image.lock import (
    Lock,
    LockedPackage,
    PackageGone,
    check_lock,
    checksum,
    load_lock,
    lock_changes,
    lock_text,
    parse_lock,
    write_lock,
)
from sandwright.resources import data_path

LIBC = LockedPackage(
    name="libc6",
    version="2.36-9+deb12u14",
    architecture="amd64",
    size=2759320,
    sha256="a" * 64,
    archive="debian",
    path="pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb",
    source="glibc",
    source_version="2.36-9+deb12u14",
    installed=12987,
)
TZDATA = LockedPackage(
    name="tzdata",
    version="2026a-0+deb12u1",
    architecture="all",
    size=300000,
    sha256="b" * 64,
    archive="debian-security",
    path="pool/updates/main/t/tzdata/tzdata_2026a-0+deb12u1_all.deb",
    source="tzdata",
    source_version="2026a-0+deb12u1",
    installed=2560,
)
LOCK = Lock(f"sha256:{'c' * 64}", "bookworm", 1700000000, {"linux/amd64": (LIBC, TZDATA)})
TEXT = """\
{
 "definition": "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
 "epoch": 1700000000,
 "platforms": {
  "linux/amd64": [
   {"architecture": "amd64", "archive": "debian", "installed": 12987, "name": "libc6", \
"path": "pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb", \
"sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "size": 2759320, \
"source": "glibc", "source_version": "2.36-9+deb12u14", "version": "2.36-9+deb12u14"},
   {"architecture": "all", "archive": "debian-security", "installed": 2560, "name": "tzdata", \
"path": "pool/updates/main/t/tzdata/tzdata_2026a-0+deb12u1_all.deb", \
"sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "size": 300000, \
"source": "tzdata", "source_version": "2026a-0+deb12u1", "version": "2026a-0+deb12u1"}
  ]
 },
 "schema": 1,
 "suite": "bookworm"
}
"""


def test_the_text_of_a_lock() -> None:
    assert lock_text(LOCK) == TEXT


def test_the_order_of_packages_makes_no_difference() -> None:
    turned = dataclasses.replace(LOCK, platforms={"linux/amd64": (TZDATA, LIBC)})
    assert lock_text(turned) == TEXT


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_lock(tmp_path, LOCK)
    assert (tmp_path / "lock.json").read_text() == TEXT
    assert load_lock(tmp_path) == LOCK
    assert [path.name for path in tmp_path.iterdir()] == ["lock.json"]
    assert (tmp_path / "lock.json").stat().st_mode & 0o777 == 0o644


def test_a_lock_that_can_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "lock.json").mkdir()
    with pytest.raises(LockError, match=r"cannot write .*lock\.json: Is a directory$"):
        write_lock(tmp_path, LOCK)
    assert [path.name for path in tmp_path.iterdir()] == ["lock.json"]
    (tmp_path / "file").touch()
    with pytest.raises(LockError, match=r"cannot write .*: Not a directory$"):
        write_lock(tmp_path / "file", LOCK)


def test_a_lock_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        load_lock(tmp_path / "tools")
    assert (
        str(caught.value) == "image 'tools' is not locked; do so with 'sandwright lock-images --name tools'"
    )


def test_a_platform_that_is_not_locked() -> None:
    assert LOCK.packages("linux/amd64") == (LIBC, TZDATA)
    with pytest.raises(LockError, match=r"^the lock does not hold linux/arm64, only linux/amd64$"):
        LOCK.packages("linux/arm64")


def _with(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["platforms"]["linux/amd64"][1].update(changes)

    return change


def _without_path(data: dict[str, Any]) -> None:
    del data["platforms"]["linux/amd64"][0]["path"]


FIRST, SECOND = ('lock.json: platforms["linux/amd64"][0]', 'lock.json: platforms["linux/amd64"][1]')
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another version of the format": (
        lambda data: data.update(schema=2),
        "lock.json: schema: this program reads 1",
    ),
    "a version that only equals it": (
        lambda data: data.update(schema=True),
        "lock.json: schema: this program reads 1",
    ),
    "an unknown key": (
        lambda data: data.update(extra=1),
        "lock.json: extra: no such key; there is schema, definition, suite, epoch, platforms, wheels, npm",
    ),
    "a missing key": (lambda data: data.pop("suite"), "lock.json: suite: is required"),
    "a checksum that is none": (
        lambda data: data.update(definition="md5:1"),
        "lock.json: definition: must be sha256:…",
    ),
    "a suite that is a path": (
        lambda data: data.update(suite="../x"),
        "lock.json: suite: must be the code name of a suite",
    ),
    "a time before time": (lambda data: data.update(epoch=-1), "lock.json: epoch: must be a time in seconds"),
    "a time that is text": (
        lambda data: data.update(epoch="1"),
        "lock.json: epoch: must be a time in seconds",
    ),
    "a time that no date says": (
        lambda data: data.update(epoch=253_402_300_800),
        "lock.json: epoch: must be a time in seconds",
    ),
    "no platforms": (
        lambda data: data.update(platforms={}),
        "lock.json: platforms: must be a mapping that is not empty",
    ),
    "a platform there is not": (
        lambda data: data["platforms"].update({"linux/mips": data["platforms"]["linux/amd64"]}),
        'lock.json: platforms["linux/mips"]: is none of linux/amd64, linux/arm64',
    ),
    "no packages": (
        lambda data: data.update(platforms={"linux/amd64": []}),
        'lock.json: platforms["linux/amd64"]: must be a list that is not empty',
    ),
    "a package that is text": (
        lambda data: data.update(platforms={"linux/amd64": ["libc6"]}),
        f"{FIRST}: must be a mapping, not 'libc6'",
    ),
    "a package twice": (
        lambda data: data["platforms"]["linux/amd64"].append(data["platforms"]["linux/amd64"][0]),
        'lock.json: platforms["linux/amd64"]: holds twice: libc6',
    ),
    "a package without a path": (_without_path, f"{FIRST}.path: is required"),
    "a package with more": (
        _with(url="x"),
        f"{SECOND}.url: no such key; there is name, version, architecture, size, sha256, archive, path, "
        "source, source_version, installed",
    ),
    "a name that is an option": (_with(name="--force"), f"{SECOND}.name: must be the name of a package"),
    "a version that is a path": (_with(version="1/../2"), f"{SECOND}.version: must be a version"),
    "an unknown architecture": (
        _with(architecture="mips"),
        f"{SECOND}.architecture: must be an architecture",
    ),
    "another architecture": (_with(architecture="arm64"), f"{SECOND}.architecture: must be amd64 or all"),
    "a negative size": (_with(size=-1), f"{SECOND}.size: must be a number of bytes"),
    "a size that is a truth value": (_with(size=True), f"{SECOND}.size: must be a number of bytes"),
    "a size that is a fraction": (_with(size=1.0), f"{SECOND}.size: must be a number of bytes"),
    "a size beyond all packages": (_with(size=2**40), f"{SECOND}.size: must be a number of bytes"),
    "a short checksum": (
        _with(sha256="b" * 63),
        f"{SECOND}.sha256: must be a SHA-256 in 64 hexadecimal digits",
    ),
    "a checksum in capitals": (
        _with(sha256="B" * 64),
        f"{SECOND}.sha256: must be a SHA-256 in 64 hexadecimal digits",
    ),
    "a checksum with a line end": (
        _with(sha256="b" * 64 + "\n"),
        f"{SECOND}.sha256: must be a SHA-256 in 64 hexadecimal digits",
    ),
    "an unknown archive": (
        _with(archive="x"),
        f"{SECOND}.archive: must be one of debian, debian-security, alpine, or the address of an archive",
    ),
    "a path that climbs": (
        _with(path="pool/../../x.deb"),
        f"{SECOND}.path: must be a path like pool/…/name.deb",
    ),
    "a path to elsewhere": (
        _with(path="http://x/pool/a.deb"),
        f"{SECOND}.path: must be a path like pool/…/name.deb",
    ),
    "an absolute path": (_with(path="/pool/a.deb"), f"{SECOND}.path: must be a path like pool/…/name.deb"),
    "a path with a query": (
        _with(path="pool/a?b.deb"),
        f"{SECOND}.path: must be a path like pool/…/name.deb",
    ),
    "several faults": (
        _with(size="1", archive=None),
        f"{SECOND}.archive: must be one of debian, debian-security, alpine, or the address of an archive\n"
        f"{SECOND}.size: must be a number of bytes",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_locks_that_are_refused(change: Callable[[dict[str, Any]], object], message: str) -> None:
    data = json.loads(TEXT)
    change(data)
    with pytest.raises(DocumentError) as caught:
        parse_lock(json.dumps(data).encode(), file="lock.json")
    assert str(caught.value) == message


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "lock.json:1:1: is not JSON: Expecting value"),
    "half a lock": (TEXT[:100].encode(), "lock.json:3:9: is not JSON: Expecting ':' delimiter"),
    "a list": (b"[]", "lock.json: must be a mapping, not a list"),
    "a key twice": (b'{"a": 1, "a": 2}', "lock.json: is not a lock: key 'a' twice"),
    "a number that is none": (b'{"a": NaN}', "lock.json: is not a lock: NaN is no number of JSON"),
    "too deep": (
        b"[" * 100_000,
        "lock.json: is not a lock: nested too deep",
    ),
    "not UTF-8": (
        b'{"\xff": 1}',
        "lock.json: is not a lock: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte",
    ),
    "too large": (b" " * ((16 << 20) + 1), "lock.json: is not a lock: larger than 16 MiB"),
}


@pytest.mark.parametrize(("raw", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_files_that_are_no_locks(raw: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_lock(raw, file="lock.json")
    assert str(caught.value) == message


DEFINITION = """\
schema: 1
description: An image.
base: {debian: bookworm}
configure: declared
packages: [libc6, tzdata]
"""


def definition(folder: Path, text: str = DEFINITION) -> ImageDefinition:
    folder.mkdir(exist_ok=True)
    (folder / "image.yaml").write_text(text)
    return load_definition(folder)


def test_a_lock_is_of_one_definition(tmp_path: Path) -> None:
    before = definition(tmp_path / "tools")
    lock = dataclasses.replace(LOCK, definition=checksum(before))
    check_lock(before, lock)
    after = definition(tmp_path / "tools", DEFINITION.replace("tzdata", "curl"))
    with pytest.raises(LockError) as caught:
        check_lock(after, lock)
    assert str(caught.value) == (
        f"image 'tools': its definition has changed since {tmp_path}/tools/lock.json was made; "
        "lock it again with 'sandwright lock-images --name tools'"
    )


DECIDING = {
    "a package more": DEFINITION.replace("[libc6", "[git, libc6"),
    "scripts": DEFINITION.replace("declared", "scripts"),
    "a package left out": DEFINITION + "without: {dpkg: why}\n",
    "a platform less": DEFINITION + "platforms: [linux/amd64]\n",
}
NOT_DECIDING = {
    "another description": DEFINITION.replace("An image.", "The image."),
    "a comment": "# comment\n" + DEFINITION,
    "another order": DEFINITION.replace("[libc6, tzdata]", "[tzdata, libc6]"),
    "exclusions": DEFINITION + "exclude: [/usr/share/doc/*]\n",
    "configuration": DEFINITION + "config: {user: '1'}\n",
    "the same platforms": DEFINITION + "platforms: [linux/arm64, linux/amd64]\n",
    "layers": DEFINITION + "layers: {budget: 1}\n",
    "smoke checks": DEFINITION + "smoke: {programs: [[a]]}\n",
}


@pytest.mark.parametrize("text", DECIDING.values(), ids=DECIDING.keys())
def test_the_checksum_changes_with_what_decides(tmp_path: Path, text: str) -> None:
    assert checksum(definition(tmp_path / "a", text)) != checksum(definition(tmp_path / "b"))


@pytest.mark.parametrize("text", NOT_DECIDING.values(), ids=NOT_DECIDING.keys())
def test_the_checksum_stays_with_what_does_not(tmp_path: Path, text: str) -> None:
    assert checksum(definition(tmp_path / "a", text)) == checksum(definition(tmp_path / "b"))


def test_the_checksum_is_not_of_a_reason(tmp_path: Path) -> None:
    one = definition(tmp_path / "a", DEFINITION + "without: {dpkg: why}\n")
    other = definition(tmp_path / "b", DEFINITION + "without: {dpkg: because}\n")
    assert checksum(one) == checksum(other)


def test_what_a_new_lock_changes() -> None:
    newer = dataclasses.replace(LIBC, version="2.36-9+deb12u15", sha256="d" * 64)
    arm = dataclasses.replace(LIBC, architecture="arm64", sha256="e" * 64)
    arm_newer = dataclasses.replace(newer, architecture="arm64", sha256="f" * 64)
    git = dataclasses.replace(LIBC, name="git", version="1:2.39.5")
    old = Lock("x", "bookworm", 1700000000, {"linux/amd64": (LIBC, TZDATA), "linux/arm64": (arm, TZDATA)})
    new = Lock("y", "bookworm", 1700000060, {"linux/amd64": (git, newer), "linux/arm64": (arm_newer, TZDATA)})
    assert lock_changes(old, new) == [
        "+ git 1:2.39.5 (linux/amd64)",
        "  libc6 2.36-9+deb12u14 → 2.36-9+deb12u15 (linux/amd64, linux/arm64)",
        "- tzdata 2026a-0+deb12u1 (linux/amd64)",
        "epoch 2023-11-14T22:13:20Z → 2023-11-14T22:14:20Z",
    ]
    assert lock_changes(old, old) == []


def test_what_the_first_lock_changes() -> None:
    assert lock_changes(None, LOCK) == [
        "+ libc6 2.36-9+deb12u14 (linux/amd64)",
        "+ tzdata 2026a-0+deb12u1 (linux/amd64)",
    ]


def test_other_bytes_under_the_same_version_are_told() -> None:
    other = dataclasses.replace(
        LOCK, platforms={"linux/amd64": (LIBC, dataclasses.replace(TZDATA, sha256="0" * 64))}
    )
    assert lock_changes(LOCK, other) == ["  tzdata 2026a-0+deb12u1 has other bytes (linux/amd64)"]


def test_packages_that_are_gone_are_named() -> None:
    gone = PackageGone([LIBC, TZDATA], ["http://one.example/debian"])
    assert gone.packages == (LIBC, TZDATA)
    assert isinstance(gone, LockError)
    assert str(gone) == (
        "no longer on http://one.example/debian: libc6 2.36-9+deb12u14 (amd64), "
        "tzdata 2026a-0+deb12u1 (all); lock again with 'sandwright lock-images'"
    )


ROOT = Path(__file__).parents[2]
LOCKED = sorted(
    path.parent for tree in ("images", "tests/lab/images") for path in (ROOT / tree).rglob("lock.json")
)


def test_there_are_locks() -> None:
    assert len(LOCKED) >= 8


@pytest.mark.parametrize("folder", LOCKED, ids=[each.name for each in LOCKED])
def test_locks_are_of_their_definitions(folder: Path) -> None:
    """These are the locks of the shipped images, and of the lab's machines."""
    image = load_definition(folder)
    lock = load_lock(image.folder)
    check_lock(image, lock)
    for platform in image.platforms:
        locked = {package.name for package in lock.packages(platform)}
        assert {*image.packages} <= locked
        assert not {*image.without} & locked
    assert lock_text(lock) == (image.folder / "lock.json").read_text()


def test_the_debian_lock_holds_what_is_essential() -> None:
    # `Essential: yes` in bookworm.
    essential = {
        *("base-files", "base-passwd", "bash", "bsdutils", "coreutils", "dash", "debianutils", "diffutils"),
        *("dpkg", "findutils", "grep", "gzip", "hostname", "init-system-helpers", "libc-bin", "login"),
        *("ncurses-base", "ncurses-bin", "perl-base", "sed", "sysvinit-utils", "tar", "util-linux"),
    }
    lock = load_lock(data_path("images", "debian"))
    for packages in lock.platforms.values():
        names = {package.name for package in packages}
        assert essential <= names
        assert not {"apt", "usrmerge"} & names


def test_a_derived_image_has_no_lock() -> None:
    assert not (data_path("images", "workspace") / "lock.json").exists()


def test_no_lock_names_a_host() -> None:
    for path in data_path("images").glob("*/lock.json"):
        assert "://" not in path.read_text()


def test_reading_a_lock_does_not_import_requests() -> None:
    program = (
        "import sys; from sandwright.image.lock import load_lock;"
        "from sandwright.resources import data_path; load_lock(data_path('images', 'debian'));"
        "sys.exit('requests' in sys.modules)"
    )
    assert process.run(sys.executable, "-c", program, timeout=30, check=False).status == 0
