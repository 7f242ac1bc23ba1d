"""Sparse files in layers: as GNU tar and bsdtar write them and umoci unpacks them, and hostile ones.

Tests of rootfs/tar/sparse.py.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.program import main
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import TarReader
from support import layouts, tars
from support.tars import GNU, pax

MIB = 1 << 20
FORMS = {
    "GNU tar, old": ("tar", "--format=gnu", "--sparse"),
    "GNU tar, 0.0": ("tar", "--format=posix", "--sparse", "--sparse-version=0.0"),
    "GNU tar, 0.1": ("tar", "--format=posix", "--sparse", "--sparse-version=0.1"),
    "GNU tar, 1.0": ("tar", "--format=posix", "--sparse", "--sparse-version=1.0"),
    "bsdtar": ("bsdtar", "--format=pax"),
}


def _make(folder: Path) -> dict[str, int]:
    """Files with holes at the start, in the middle, at the end and everywhere; return the sizes."""
    folder.mkdir()
    places: dict[str, list[int]] = {
        "start": [3 * MIB],
        "middle": [0, 2 * MIB],
        "end": [0],
        "all": [],
        "many": [number * 128 * 1024 for number in range(60)],
        "x" * 120: [MIB],
    }
    for name, offsets in places.items():
        with (folder / name).open("wb") as file:
            for offset in offsets:
                file.seek(offset)
                file.write(b"data at %d" % offset)
            file.truncate(8 * MIB)
    (folder / "plain").write_bytes(b"no hole")
    return {each.name: each.stat().st_size for each in folder.iterdir()}


@pytest.fixture(params=FORMS)
def layer(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bytes]:
    program, *options = FORMS[request.param]
    if process.find(program) is None:
        pytest.skip(f"{program} is not installed")
    sizes = _make(tmp_path / "made")
    process.run(program, *options, "-cf", tmp_path / "x.tar", "-C", tmp_path / "made", *sorted(sizes))
    raw = (tmp_path / "x.tar").read_bytes()
    assert len(raw) < 4 * MIB, "the control: it is written with holes"
    return tmp_path, raw


def test_a_layer_is_unpacked_as_it_was_packed(layer: tuple[Path, bytes]) -> None:
    place, raw = layer
    path = layouts.simple(place / "i", layouts.HELLO, raw)
    bundle = place / "bundle"
    words = ("bundle", str(path), "--bundle", str(bundle), "--output", str(place / "out"))
    assert main(list(words)) == 0
    root = bundle / json.loads((bundle / "config.json").read_bytes())["root"]["path"]
    for each in (place / "made").iterdir():
        made = root / each.name
        assert made.read_bytes() == each.read_bytes(), each.name
        assert made.stat().st_blocks * 512 <= made.stat().st_size // 2 or each.name in ("plain", "many")
    assert main(["lint-image", str(path)]) == 12, "it is read to its end: an image without much in it"


@pytest.mark.needs("umoci")
def test_umoci_unpacks_the_same(layer: tuple[Path, bytes]) -> None:
    place, raw = layer
    made = layouts.Layout(place / "i")
    made.index(layouts.named(made.image(raw), "x"))
    words = ("umoci", "unpack", "--rootless", "--image", f"{place / 'i'}:x", place / "u")
    ended = process.run(*words, timeout=60, check=False)
    if b"GNU.sparse" not in raw:
        assert "unknown typeflag" in ended.stderr, "old GNU headers, which we take, and Docker doesn't either"
        return
    assert ended, ended.stderr
    reader = TarReader(io.BytesIO(raw), may_be_sparse=True)
    seen = {entry.path.decode(): b"".join(reader.chunks()) for entry in reader}
    assert set(seen) == {each.name for each in (place / "u/rootfs").iterdir()}
    for name, content in seen.items():
        assert (place / "u/rootfs" / name).read_bytes() == content, name


def read(raw: bytes, **limits: int) -> dict[bytes, bytes]:
    reader = TarReader(io.BytesIO(raw), limits=ArchiveLimits(**limits), may_be_sparse=True)
    return {entry.path: b"".join(reader.chunks()) for entry in reader}


S = "GNU.sparse."


def newer(content: bytes, **keys: str) -> bytes:
    records = {f"{S}{key}".encode(): value.encode() for key, value in keys.items()}
    return tars.archive(pax(records) + tars.member(b"header", content) + tars.file(b"after", b"z"))


def version_1(text: bytes, data: bytes, realsize: str = "10", **keys: str) -> bytes:
    return newer(tars.padded(text) + data, major="1", minor="0", name="n", realsize=realsize, **keys)


def old(
    pieces: list[tuple[int, int]], size: int, data: bytes, *, more: list[tuple[int, int]] | None = None
) -> bytes:
    def numbers(found: list[tuple[int, int]]) -> bytes:
        return b"".join(b"%011o\0%011o\0" % each for each in found)

    block = bytearray(tars.header(b"n", kind=b"S", size=len(data), magic=GNU))
    block[386 : 386 + 24 * len(pieces)] = numbers(pieces)
    block[482] = more is not None
    block[483:495] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    extra = numbers(more).ljust(512, b"\0") if more is not None else b""
    return tars.archive(bytes(block) + extra + tars.padded(data), tars.file(b"after", b"z"))


GOOD = {
    "1.0": version_1(b"2\n1\n2\n5\n1\n", b"abc"),
    "0.1": newer(b"abc", major="0", minor="1", name="n", map="1,2,5,1", size="10", numblocks="2"),
    "0.1 without a version": newer(b"abc", map="1,2,5,1", size="10", name="n"),
    "old": old([(1, 2), (5, 1)], 10, b"abc"),
    "old, continued": old([(1, 2)], 10, b"abc", more=[(5, 1)]),
}


@pytest.mark.parametrize("name", GOOD)
def test_each_form(name: str) -> None:
    assert read(GOOD[name]) == {b"n": b"\0ab\0\0c\0\0\0\0", b"after": b"z"}


@pytest.mark.parametrize("name", GOOD)
def test_content_that_is_not_read_is_skipped(name: str) -> None:
    reader = TarReader(io.BytesIO(GOOD[name]), may_be_sparse=True)
    assert [(entry.path, entry.size) for entry in reader] == [(b"n", 10), (b"after", 1)]


@pytest.mark.parametrize("name", GOOD)
def test_refused_where_no_layer_is_read(name: str) -> None:
    with pytest.raises(ArchiveRefused, match="it is a sparse file"):
        list(TarReader(io.BytesIO(GOOD[name])))


EMPTY = pax({b"GNU.sparse.map": b"0,0", b"GNU.sparse.size": b"9"})
HOSTILE = {
    "huge": version_1(b"0\n", b"", realsize="9223372036854775807"),
    "negative": version_1(b"1\n-1\n2\n", b"ab"),
    "overlap": version_1(b"2\n1\n2\n2\n1\n", b"abc"),
    "backwards": version_1(b"2\n5\n1\n1\n2\n", b"abc"),
    "behind the end": version_1(b"1\n9\n2\n", b"ab"),
    "less data": version_1(b"1\n1\n2\n", b"abc"),
    "more data": version_1(b"1\n1\n4\n", b"abc"),
    "map without an end": version_1(b"9\n1\n2\n", b""),
    "map of letters": version_1(b"x\n1\n2\n", b"ab"),
    "map and more": version_1(b"1\n1\n2\nevil", b"ab"),
    "two maps": version_1(b"1\n1\n2\n", b"ab", map="0,2"),
    "two sizes": version_1(b"1\n1\n2\n", b"ab", size="10"),
    "no size": newer(b"ab", map="0,2"),
    "odd map": newer(b"ab", map="0,2,3", size="10"),
    "other count": newer(b"ab", map="0,2", size="10", numblocks="2"),
    "offset alone": newer(b"ab", offset="0", size="10"),
    "map twice": newer(b"ab", map="0,2", offset="0", numbytes="2", size="10"),
    "unknown version": newer(b"ab", major="2", minor="0", realsize="10"),
    "unknown key": newer(b"ab", map="0,2", size="10", other="1"),
    "no map": newer(b"ab", size="10"),
    "a directory": tars.archive(EMPTY, tars.folder(b"n")),
    "two forms": EMPTY + GOOD["old"],
    "old, cut off": old([(1, 2)], 10, b"ab", more=[(5, 1)])[:512],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ones_are_refused(name: str) -> None:
    with pytest.raises((ArchiveRefused, IntegrityError)):
        read(HOSTILE[name])


def test_holes_are_bounded() -> None:
    big = newer(b"ab", map="0,2", size=str(100 * MIB), name="n")
    assert len(read(big)[b"n"]) == 100 * MIB
    for limits in ({"holes": 100 * MIB - 3}, {"bytes": 100 * MIB}):
        with pytest.raises(ArchiveRefused, match="holes, or in all"):
            read(big, **limits)
    several = big[: -len(tars.archive())] * 3
    with pytest.raises(ArchiveRefused, match="holes, or in all"):
        read(several + tars.archive(), holes=250 * MIB)


def test_maps_are_bounded() -> None:
    text = b"5000\n" + b"".join(b"%d\n0\n" % number for number in range(5000))
    assert len(read(version_1(text, b"", realsize="5000"))[b"n"]) == 5000
    with pytest.raises(ArchiveRefused, match="sparse map has more than"):
        read(version_1(text, b"", realsize="5000"), extension=4096)


def test_a_name_in_the_map_is_a_name(tmp_path: Path) -> None:
    raw = tars.archive(pax({b"GNU.sparse.map": b"0,2", b"GNU.sparse.size": b"9", b"GNU.sparse.name": b"../x"})
                       + tars.member(b"n", b"ab"))  # fmt: skip
    with pytest.raises(ArchiveRefused, match="climbs"):
        read(raw)


NOT_DISTRIBUTED = (
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
)


@pytest.mark.parametrize("kind", NOT_DISTRIBUTED)
def test_layers_that_may_not_be_distributed(kind: str, tmp_path: Path) -> None:
    """With the blob they are unpacked like any other layer; without it, nothing is fetched."""
    made = layouts.Layout(tmp_path / "i")
    manifest = made.manifest(layouts.HELLO)
    raw = layouts.HELLO if kind.endswith("tar") else tars.layer(layouts.HELLO).open().read()
    manifest["layers"] = [made.blob(raw, kind, urls=["http://127.0.0.1:1/x"])]
    path = made.index(made.document(manifest, layouts.MANIFEST))
    words = ("bundle", str(path), "--bundle", str(tmp_path / "b"), "--output", str(tmp_path / "o"))
    assert main(list(words)) == 0
    root = json.loads((tmp_path / "b/config.json").read_bytes())["root"]["path"]
    assert (tmp_path / "b" / root / "bin/hello").exists()
    (path / "blobs/sha256" / manifest["layers"][0]["digest"][7:]).unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        open_image(path)
