"""Decompression: each codec complete, in several members, cut or flipped at any byte, and as a bomb.

Tests of rootfs/tar/zstd.py.
"""

from __future__ import annotations

import gzip
import io
import lzma
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.codec import Codec, decompressed
from sandwright.rootfs.tar.limits import ArchiveLimits

ALL: tuple[Codec, ...] = ("gzip", "zstd", "xz", "plain")
CONTENT = random.Random(0).randbytes(3000) + b"abc" * 3000
SKIPPABLE = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 20) + b"s" * 20


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zstd_streamed(data: bytes) -> bytes:
    """A frame that does not state the length of its content."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


def taken_off(
    raw: bytes, *, size: int = 1000, allow: tuple[Codec, ...] = ALL, limits: ArchiveLimits | None = None
) -> bytes:
    stream = decompressed(io.BytesIO(raw), name="blob", allow=allow, limits=limits or ArchiveLimits())
    pieces = []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    assert stream.read(size) == b""
    return b"".join(pieces)


WHOLE = {
    "gzip": ("gzip", gzip.compress(CONTENT)),
    "gzip members": (
        "gzip",
        gzip.compress(CONTENT[:100]) + gzip.compress(b"") + gzip.compress(CONTENT[100:]),
    ),
    "gzip of many small members": (
        "gzip",
        b"".join(gzip.compress(CONTENT[at : at + 7]) for at in range(0, 12_000, 7)),
    ),
    "gzip, zeros after it": ("gzip", gzip.compress(CONTENT) + bytes(700)),
    "gzip with a name in its header": (
        "gzip",
        b"\x1f\x8b\x08\x08" + gzip.compress(CONTENT)[4:10] + b"name\0" + gzip.compress(CONTENT)[10:],
    ),
    "zstd": ("zstd", zstd(CONTENT)),
    "zstd streamed": ("zstd", zstd_streamed(CONTENT)),
    "zstd frames": ("zstd", zstd(CONTENT[:5000]) + zstd_streamed(b"") + zstd(CONTENT[5000:])),
    "zstd, frames to skip": ("zstd", SKIPPABLE + zstd(CONTENT) + SKIPPABLE),
    "xz": ("xz", lzma.compress(CONTENT)),
    "xz streams": ("xz", lzma.compress(CONTENT[:9]) + lzma.compress(CONTENT[9:])),
    "xz, zeros after it": ("xz", lzma.compress(CONTENT) + bytes(8)),
    "plain": ("plain", CONTENT),
}


@pytest.mark.parametrize(("codec", "raw"), WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_whole(codec: str, raw: bytes, size: int) -> None:
    assert taken_off(raw, size=size) == CONTENT
    assert decompressed(io.BytesIO(raw), name="blob", allow=ALL).codec == codec


@pytest.mark.parametrize("compress", [gzip.compress, zstd, lzma.compress, bytes], ids=ALL)
@pytest.mark.parametrize("content", [b"", b"x", bytes(5_000_000)], ids=["nothing", "one byte", "zeros"])
def test_sizes(compress: Callable[[bytes], bytes], content: bytes) -> None:
    assert taken_off(compress(content), size=1 << 18) == content


CUT = {name: raw for name, (codec, raw) in WHOLE.items() if codec != "plain" and "many" not in name}


@pytest.mark.parametrize("raw", CUT.values(), ids=CUT.keys())
def test_every_cut_is_found_or_gives_a_whole_stream(raw: bytes) -> None:
    """A cut between two members leaves a complete stream; then the output is a prefix."""
    ends = 0
    for cut in [*range(6, min(len(raw), 400)), *range(max(400, len(raw) - 400), len(raw))]:
        try:
            content = taken_off(raw[:cut])
        except IntegrityError as error:
            assert str(error).startswith("blob: its ")  # noqa: PT017
            continue
        assert CONTENT.startswith(content)
        ends += 1
    assert ends < len(raw) // 2


FLIPPED = {"gzip": gzip.compress(CONTENT, mtime=0), "zstd": zstd(CONTENT), "xz": lzma.compress(CONTENT)}


@pytest.mark.parametrize("raw", FLIPPED.values(), ids=FLIPPED.keys())
def test_every_flipped_bit_is_found_or_changes_nothing(raw: bytes) -> None:
    """The checksums detect all damage to content; some bits of headers have no effect, like gzip's time."""
    found = 0
    for at in [*range(min(len(raw), 200)), *range(200, len(raw), 37), *range(len(raw) - 40, len(raw))]:
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        try:
            content = taken_off(bytes(damaged))
        except IntegrityError:
            found += 1
        except ArchiveRefused:
            assert at < 6
        else:
            assert content == CONTENT or (at < 6 and content == bytes(damaged))
    assert found > 200


FOLLOWED = {
    "gzip": (
        gzip.compress(b"x") + b"garbage",
        "blob: its gzip data is damaged: something else follows its end",
    ),
    "gzip, zeros first": (
        gzip.compress(b"x") + bytes(5) + b"garbage",
        "blob: its gzip data is damaged: something else follows its end",
    ),
    "gzip, one byte": (
        gzip.compress(b"x") + b"\x1f",
        "blob: its gzip data is damaged: something else follows its end",
    ),
    "zstd": (
        zstd(b"x") + b"garbage",
        "blob: its zstd data is damaged: something that is not Zstandard follows a frame",
    ),
    "zstd, one byte": (zstd(b"x") + b"\x28", "blob: its zstd data ends early"),
    "xz": (lzma.compress(b"x") + b"garbage", "blob: its xz data is damaged: something else follows its end"),
}


@pytest.mark.parametrize(("raw", "message"), FOLLOWED.values(), ids=FOLLOWED.keys())
def test_what_follows_the_end(raw: bytes, message: str) -> None:
    with pytest.raises(IntegrityError) as error:
        taken_off(raw)
    assert str(error.value) == message


def test_a_reserved_block_of_zstd() -> None:
    with pytest.raises(IntegrityError, match="reserved"):
        taken_off(zstd(b"x")[:6] + b"\x07\0\0" + b"x" * 20)


OTHERS = {
    "xz where only layers are taken": (
        lzma.compress(b"x"),
        "blob: is compressed with xz, and only gzip, zstd, plain is taken here",
    ),
    "bzip2": (b"BZh91AY&SY", "blob: is compressed with bzip2 or lzma, which no layer or package uses today"),
    "lzma": (
        lzma.compress(b"x", format=lzma.FORMAT_ALONE),
        "blob: is compressed with bzip2 or lzma, which no layer or package uses today",
    ),
}


@pytest.mark.parametrize(("raw", "message"), OTHERS.values(), ids=OTHERS.keys())
def test_codecs_that_are_not_taken(raw: bytes, message: str) -> None:
    with pytest.raises(ArchiveRefused) as refused:
        decompressed(io.BytesIO(raw), name="blob")
    assert str(refused.value) == message


def bomb_gzip(megabytes: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(compressor.compress(bytes(1 << 20)) for _ in range(megabytes)) + compressor.flush()


def bomb_zstd(megabytes: int) -> bytes:
    """Four bytes for each 128 KiB."""
    block = (1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (8 * megabytes - 1) + last


BOMBS = {"gzip": bomb_gzip, "zstd": bomb_zstd}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_where_it_grows_too_much(bomb: Callable[[int], bytes]) -> None:
    raw = bomb(64)
    assert len(taken_off(raw, size=1 << 20, limits=ArchiveLimits(ratio=200_000, ratio_floor=0))) == 64 << 20
    with pytest.raises(
        ArchiveRefused, match=r"^blob: \d+ bytes have become \d+; at most 500 for one are let through$"
    ):
        taken_off(raw, size=1 << 20, limits=ArchiveLimits(ratio_floor=4 << 20))


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_takes_no_memory(bomb: Callable[[int], bytes]) -> None:
    raw = bomb(100)
    tracemalloc.start()
    try:
        stream = decompressed(io.BytesIO(raw), name="blob", limits=ArchiveLimits(ratio=1_000_000))
        while stream.read(1 << 18):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_window_larger_than_memory_is_refused() -> None:
    """A frame may ask its reader for 3.75 TiB (RFC 8878, 3.1.1.1.2)."""
    raw = b"\x28\xb5\x2f\xfd\x00\xff" + b"\x01\0\0"
    with pytest.raises(IntegrityError, match="its zstd data is damaged"):
        taken_off(raw)


def test_a_gzip_bomb_of_empty_members_ends_in_time() -> None:
    raw = gzip.compress(b"", mtime=0) * 50_000
    assert taken_off(raw) == b""
