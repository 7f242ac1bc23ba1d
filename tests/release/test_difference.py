"""The difference of two images: the first layer, entry and field, by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sandwright.release.difference import first_difference, of_values
from support.layouts import Layout
from support.tars import archive, device, file, folder, hardlink, symlink

PLATFORM = "linux/amd64"
BASE = (folder(b"etc"), file(b"etc/a", b"one"), symlink(b"etc/l", b"a"), hardlink(b"etc/h", b"etc/a"))


def layout(path: Path, *layers: bytes, **more: Any) -> Path:
    made = Layout(path)
    return made.index(made.image(*layers, **more))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ((BASE[0], file(b"etc/a", b"two"), *BASE[2:]), "'etc/a': content: sha256 7692c3ad"),
        ((BASE[0], file(b"etc/a", b"three"), *BASE[2:]), "'etc/a': size: 3 published, 5 made"),
        (
            (BASE[0], file(b"etc/a", b"one", mode=0o4755), *BASE[2:]),
            "'etc/a': mode: 0644 published, 4755 made",
        ),
        ((BASE[0], file(b"etc/a", b"one", uid=7), *BASE[2:]), "'etc/a': uid: 0 published, 7 made"),
        ((BASE[0], file(b"etc/a", b"one", gid=8), *BASE[2:]), "'etc/a': gid: 0 published, 8 made"),
        (
            (BASE[0], file(b"etc/a", b"one", mtime=5), *BASE[2:]),
            "'etc/a': mtime_ns: 1600000000000000000 published, 5000000000 made",
        ),
        ((*BASE[:2], symlink(b"etc/l", b"h"), BASE[3]), "'etc/l': link: 'a' published, 'h' made"),
        ((*BASE[:2], folder(b"etc/l"), BASE[3]), "'etc/l': kind: symbolic link published, directory made"),
        (BASE[:3], "'etc/h': only in what was published"),
        ((*BASE, file(b"etc/z", b"")), "'etc/z': only in what was made"),
        ((BASE[0], *BASE[2:3], BASE[1], BASE[3]), "'etc/a' published, where 'etc/l' was made"),
        ((*BASE, device(b"etc/d", 1, 3)), "'etc/d': only in what was made"),
    ],
)
def test_entries(tmp_path: Path, members: tuple[bytes, ...], told: str) -> None:
    one, other = layout(tmp_path / "one", archive(*BASE)), layout(tmp_path / "other", archive(*members))
    assert first_difference(one, other, PLATFORM).startswith(f"{PLATFORM}: layer 1: {told}")


def test_the_same(tmp_path: Path) -> None:
    one, other = (layout(tmp_path / name, archive(*BASE)) for name in ("one", "other"))
    assert first_difference(one, other, PLATFORM) == ""


def test_which_layer(tmp_path: Path) -> None:
    lowest = archive(*BASE)
    one = layout(tmp_path / "one", lowest, archive(file(b"x", b"1")))
    other = layout(tmp_path / "other", lowest, archive(file(b"x", b"22")))
    assert first_difference(one, other, PLATFORM) == f"{PLATFORM}: layer 2: 'x': size: 1 published, 2 made"
    fewer = layout(tmp_path / "fewer", lowest)
    assert first_difference(one, fewer, PLATFORM) == f"{PLATFORM}: 2 layers published, 1 made"


def test_only_the_compression(tmp_path: Path) -> None:
    one = layout(tmp_path / "one", archive(*BASE))
    made = Layout(tmp_path / "other")
    manifest = made.manifest(archive(*BASE))
    packed = gzip.compress(archive(*BASE), 9, mtime=0)
    manifest["layers"] = [made.blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")]
    other = made.index(made.document(manifest, "application/vnd.oci.image.manifest.v1+json"))
    told = first_difference(one, other, PLATFORM)
    assert told.startswith(f"{PLATFORM}: layer 1: the same archive, compressed to other bytes: sha256:")


def test_documents(tmp_path: Path) -> None:
    one = layout(tmp_path / "one", archive(*BASE), config={"Env": ["A=1", "B=2"]})
    other = layout(tmp_path / "other", archive(*BASE), config={"Env": ["A=1", "B=3"]})
    told = f"{PLATFORM}: config.config.Env[1]: 'B=2' published, 'B=3' made"
    assert first_difference(one, other, PLATFORM) == told
    noted = layout(
        tmp_path / "noted", archive(*BASE), config={"Env": ["A=1", "B=2"]}, change={"annotations": {"x": "y"}}
    )
    assert (
        first_difference(one, noted, PLATFORM) == f"{PLATFORM}: manifest.annotations: only in what was made"
    )


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({}, {}, ""),
        ([1, {"a": [2]}], [1, {"a": [2]}], ""),
        ({"a": 1}, {"a": 1.5}, "x.a: 1 published, 1.5 made"),
        ({"a": None}, {}, "x.a: only in what was published"),
        ([1, 2], [1], "x: [1, 2] published, [1] made"),
        (
            {"a": {"b": [0, {"c": True}]}},
            {"a": {"b": [0, {"c": False}]}},
            "x.a.b[1].c: True published, False made",
        ),
    ],
)
def test_values(one: object, other: object, told: str) -> None:
    assert of_values(one, other, "x") == told
    assert json.dumps(one) is not None
