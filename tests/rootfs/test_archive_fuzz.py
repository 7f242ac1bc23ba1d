"""Archives broken at random (fuzz): the reader ends in time, with our errors or members by the rules."""

from __future__ import annotations

import contextlib
import io
import random
import time

import pytest

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import TarReader
from support.tars import GNU, archive, device, file, folder, hardlink, long, member, pax, symlink

PATIENCE = 30.0
"""The limit in seconds for one archive of a few kilobytes; it usually takes a thousandth of that."""

SEED = archive(
    folder(b"./"),
    folder(b"usr/"),
    file(b"usr/a", b"content" * 200),
    file(b"usr/b", b"x"),
    long(b"usr/" + b"l" * 150) + member(b"l", b"y" * 600, magic=GNU),
    pax({b"path": b"usr/pax", b"mtime": b"1.5", b"size": b"3", b"SCHILY.xattr.user.x": b"z"})
    + file(b"p", b"abc"),
    pax({b"comment": b"hello"}, kind=b"g"),
    symlink(b"usr/s", b"../etc/x"),
    hardlink(b"usr/h", b"usr/a"),
    device(b"null", 1, 3),
)


def attempt(raw: bytes) -> int:
    """Read an archive; return the number of members before its end or its refusal."""
    started = time.monotonic()
    reader = TarReader(io.BytesIO(raw), limits=ArchiveLimits(bytes=1 << 24, entries=1000))
    with contextlib.suppress(ArchiveRefused, IntegrityError):
        for entry in reader:
            parts = entry.path.split(b"/")
            assert entry.path == b"" or not {b"", b".", b".."} & {*parts}
            assert b"\0" not in entry.path + entry.link
            assert sum(map(len, reader.chunks())) == entry.size
    assert time.monotonic() - started < PATIENCE
    return reader.entries


def test_the_seed_is_whole() -> None:
    assert attempt(SEED) == 9


@pytest.mark.parametrize("seed", range(8))
def test_bytes_that_changed(seed: int) -> None:
    source = random.Random(seed)
    seen = set()
    for _ in range(400):
        raw = bytearray(SEED)
        for _ in range(source.choice((1, 2, 8, 40))):
            raw[source.randrange(len(raw))] = source.randrange(256)
        seen.add(attempt(bytes(raw)))
    assert len(seen) > 3


@pytest.mark.parametrize("seed", range(8))
def test_headers_that_changed_and_have_the_right_checksum(seed: int) -> None:
    """Every field of a header is changed, and the checksum is corrected, so that the reader gets past it."""
    source = random.Random(seed)
    seen = set()
    for _ in range(400):
        raw = bytearray(SEED)
        at = 512 * source.randrange(len(raw) // 512)
        for _ in range(source.choice((1, 2, 6))):
            field = source.choice(
                ((0, 100), (100, 124), (124, 136), (136, 148), (156, 157), (157, 257), (257, 500))
            )
            raw[at + source.randrange(*field)] = source.choice(
                (0, 0x20, 0x2E, 0x2F, 0x30, 0x37, 0x80, 0xFF, source.randrange(256))
            )
        raw[at + 148 : at + 156] = b" " * 8
        raw[at + 148 : at + 156] = b"%06o\0 " % sum(raw[at : at + 512])
        seen.add(attempt(bytes(raw)))
    assert len(seen) > 3


@pytest.mark.parametrize("seed", range(4))
def test_pieces_that_were_cut_moved_and_doubled(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(300):
        blocks = [SEED[at : at + 512] for at in range(0, len(SEED), 512)]
        for _ in range(source.randrange(1, 5)):
            at, to = source.randrange(len(blocks)), source.randrange(len(blocks))
            match source.randrange(3):
                case 0:
                    del blocks[at]
                case 1:
                    blocks.insert(to, blocks[at])
                case _:
                    blocks[at], blocks[to] = blocks[to], blocks[at]
        raw = b"".join(blocks)
        attempt(raw[: source.randrange(len(raw) + 1)])


def test_noise() -> None:
    source = random.Random(0)
    for size in (0, 1, 511, 512, 513, 1024, 5000):
        for _ in range(50):
            attempt(source.randbytes(size))


def test_a_header_repeated_for_megabytes_ends() -> None:
    """CVE-2026-11972: no loop needs more than one pass over the bytes."""
    assert attempt(pax({b"comment": b"x"}, kind=b"g") * 3000) == 0
    assert attempt(file(b"a") * 2000) == 1001
