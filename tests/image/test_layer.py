"""Layers and their compression: the same bytes every time, in bounded memory, readable by everyone.

Tests of image/compress.py.
Tests of image/layer.py.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import platform
import random
import re
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import IntegrityError
from sandwright.image.compress import DEFAULT, Compression, Compressor, parse_compression
from sandwright.image.layer import LayerWriter, writing_layer
from sandwright.image.layout import staging
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.tar.codec import decompressed
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from support.thorough import examples

CHUNK = DEFAULT.chunk
ZSTD = Compression("zstd", 3)


def compressed(pieces: list[bytes], *, workers: int = 2, compression: Compression = DEFAULT) -> bytes:
    parts: list[bytes] = []
    with ThreadPoolExecutor(workers) as pool:
        compressor = Compressor(parts.append, pool, compression)
        for piece in pieces:
            compressor.write(piece)
        compressor.close()
    return b"".join(parts)


def mixed(size: int) -> bytes:
    """Half noise, half compressible."""
    source = random.Random(size)
    return b"".join(source.randbytes(512) + bytes(512) for _ in range(size // 1024 + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 7])
def test_what_goes_in_comes_out(size: int) -> None:
    assert gzip.decompress(compressed([mixed(size)])) == mixed(size)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(0, CHUNK // 2), max_size=8))
def test_how_it_is_cut_makes_no_difference(sizes: list[int]) -> None:
    data = mixed(sum(sizes))
    ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    pieces = [data[start:end] for start, end in itertools.pairwise(ends)]
    assert compressed(pieces) == compressed([data])


@pytest.mark.parametrize("size", [0, 1, ZSTD.chunk - 1, ZSTD.chunk, 2 * ZSTD.chunk + 7])
def test_what_goes_into_zstandard_comes_out(size: int) -> None:
    written = compressed([mixed(size)], compression=ZSTD)
    stream = decompressed(io.BytesIO(written), name="it")
    assert stream.codec == "zstd"
    assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == mixed(size)


@pytest.mark.parametrize("compression", [DEFAULT, ZSTD, Compression("gzip", 12)], ids=str)
def test_how_many_work_on_it_makes_no_difference(compression: Compression) -> None:
    data = [mixed(3 * compression.chunk)]
    made = {compressed(data, workers=workers, compression=compression) for workers in (1, 2, 5)}
    assert len(made) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gzip", Compression("gzip", 1)),
        ("gzip:12", Compression("gzip", 12)),
        ("zstd", Compression("zstd", 9)),
        ("zstd:19", Compression("zstd", 19)),
    ],
)
def test_codec_and_level(text: str, expected: Compression) -> None:
    assert parse_compression(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("xz", "'xz' is none of gzip, zstd, with or without :LEVEL"),
        ("gzip:", "'gzip:': levels of gzip are 1 to 12"),
        ("gzip:0", "'gzip:0': levels of gzip are 1 to 12"),
        ("gzip:13", "'gzip:13': levels of gzip are 1 to 12"),
        ("zstd:22", "'zstd:22': levels of zstd are 1 to 19"),
        ("zstd:-1", "'zstd:-1': levels of zstd are 1 to 19"),
        ("zstd:\u0661", "'zstd:\u0661': levels of zstd are 1 to 19"),
    ],
)
def test_no_codec(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_compression(text)


def test_the_header_says_nothing_of_time_or_machine() -> None:
    """RFC 1952, 2.3: no time, no name; the last two bytes are "extra flags" and "unknown system"."""
    for member in (compressed([b""]), compressed([b"x"]), compressed([mixed(CHUNK)])):
        assert member[:4] == b"\x1f\x8b\x08\x00"
        assert member[4:8] == bytes(4)
        assert member[9] == 0xFF


def test_the_bytes_written_down() -> None:
    """Another version of the library may give other bytes; then the identity has changed, too: update both.

    The same digest was found on arm64, with that architecture's wheel under qemu.
    """
    assert DEFAULT.identity == "gzip; deflate=0.9.0; level=1; chunk=1048576"
    assert hashlib.sha256(compressed([mixed(2 * CHUNK)])).hexdigest() == (
        "c6c52f2701b3923a41c3d11143d9aaafe30830ae21ed05883a72b1adf08e1590"
    )


PROBE = """\
import hashlib, random
import deflate
source = random.Random(5)
data = b"".join(source.randbytes(512) + bytes(200) + b"the same words again " * 15 for _ in range(300))
print(hashlib.sha256(bytes(deflate.gzip_compress(data, {level}))).hexdigest())
"""


@pytest.mark.needs("qemu-x86_64-static")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processors are those of x86_64")
@pytest.mark.parametrize("processor", ["qemu64", "Nehalem", "Haswell", "max"])
def test_another_processor_gives_the_same_bytes(processor: str) -> None:
    """Libraries choose their code by the processor's features; isal's output varies with them, not ours."""
    code = PROBE.format(level=DEFAULT.level)
    here = process.run(sys.executable, "-c", code).text
    emulator = ["qemu-x86_64-static", "-cpu", processor]
    there = process.run(*emulator, sys.executable, "-c", code, timeout=120).text
    assert re.fullmatch("[0-9a-f]{64}", here)
    assert there == here


def test_a_failing_compressor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Compression, chunk: bytes) -> bytes:
        raise MemoryError

    monkeypatch.setattr(Compression, "compress", fail)
    with pytest.raises(MemoryError):
        compressed([mixed(CHUNK)])


def write(writer: LayerWriter) -> None:
    writer.add(TarEntry(b"usr", EntryKind.DIRECTORY, 0o755, mtime_ns=10**9))
    writer.add(TarEntry(b"usr/a", EntryKind.FILE, 0o644, size=3, mtime_ns=10**9), [b"a", b"bc"])


def test_a_layer_and_its_digests(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, staging(tmp_path) as area:
        with writing_layer(area, pool, Event()) as writer:
            write(writer)
        packed = (area.path / writer.layer.blob.name).read_bytes()
    layer = writer.layer
    plain = gzip.decompress(packed)
    assert layer.blob.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert layer.diff_id == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    assert (layer.blob.size, layer.size, layer.entries) == (len(packed), len(plain), 2)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert archive.getnames() == ["usr", "usr/a"]


def test_content_of_another_length_than_announced(tmp_path: Path) -> None:
    entry = TarEntry(b"a", EntryKind.FILE, 0o644, size=3)
    with ThreadPoolExecutor(1) as pool, staging(tmp_path) as area:  # noqa: SIM117
        with (
            pytest.raises(IntegrityError, match="'a': 4 bytes"),
            writing_layer(area, pool, Event()) as writer,
        ):
            writer.add(entry, [b"four"])


def test_a_layer_that_nobody_wants_any_more(tmp_path: Path) -> None:
    cancelled = Event()
    cancelled.set()
    with ThreadPoolExecutor(1) as pool, staging(tmp_path) as area:  # noqa: SIM117
        with pytest.raises(Cancelled), writing_layer(area, pool, cancelled) as writer:
            write(writer)
    assert list(tmp_path.iterdir()) == []
