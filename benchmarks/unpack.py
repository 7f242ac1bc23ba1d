"""How fast layers are unpacked, verified, beside `umoci raw unpack`; and how much memory that takes.

    python -m benchmarks.unpack [--rounds N] [--output results.json] [--scratch /dev/shm]

Two layers, made here and the same on every machine: 50,000 small files, and 400 MB in 880 files. Both tools
get the same OCI layout on tmpfs, where a disk's noise is not in the figures, and verify digest and diff_id.
Then layers of 100, 400 and 800 MB, for the memory of ours. umoci comes from the distribution.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.harness import MIB, RESULTS, Contestant, compare, measure, record, table, write

from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter

TIME = 1_700_000_000 * 10**9
OURS = """\
import sys
from pathlib import Path
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.unpacking.unpack import unpack
unpack(open_image(Path(sys.argv[1])).layers, Path(sys.argv[2]))
"""


class _Compressing:
    """A gzip file that is written, with the digests of what goes in and of what comes out."""

    def __init__(self, file: BinaryIO) -> None:
        self.inner = hashlib.sha256()
        self.outer = hashlib.sha256()
        self.size = 0
        self._file = file
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31)

    def write(self, data: bytes, /) -> None:
        self.inner.update(data)
        self._out(self._deflate.compress(data))

    def close(self) -> None:
        self._out(self._deflate.flush())

    def _out(self, data: bytes) -> None:
        self.outer.update(data)
        self.size += len(data)
        self._file.write(data)


def small_files(writer: TarWriter) -> None:
    """50,000 files of up to 2,600 bytes in 500 directories, as an interpreter's library has them."""
    source = random.Random(1)
    text = source.randbytes(1 << 16).hex().encode()
    for number in range(500):
        folder = b"usr/lib/package%02d/part%02d" % divmod(number, 10)
        _folders(writer, folder, fresh=number % 10 == 0)
        for name in range(100):
            start, size = source.randrange(100_000), source.randrange(2_600)
            writer.add(_file(folder + b"/module%03d.py" % name, size), [text[start : start + size]])


def large_files(megabytes: int, writer: TarWriter) -> None:
    """Files of 10 to 900 KB, `megabytes` in all, which shrink to a good third, as programs do."""
    source = random.Random(2)
    left, number = megabytes * 1_000_000, 0
    _folders(writer, b"opt/files", fresh=True)
    while left > 0:
        size = min(left, source.randrange(10_000, 900_000))
        writer.add(_file(b"opt/files/library%05d.so" % number, size), _blocks(source, size))
        left, number = left - size, number + 1


def _blocks(source: random.Random, size: int) -> Iterator[bytes]:
    """A third of noise, and a good deal of repetition."""
    while size > 0:
        block = source.randbytes(1400) + source.randbytes(40) * 30 + bytes(1496)
        yield block[:size]
        size -= len(block)


def _folders(writer: TarWriter, folder: bytes, *, fresh: bool) -> None:
    above, _, _ = folder.rpartition(b"/")
    for path in ([above] if fresh else []) + [folder]:
        writer.add(TarEntry(path, EntryKind.DIRECTORY, 0o755, mtime_ns=TIME))


def _file(path: bytes, size: int) -> TarEntry:
    return TarEntry(path, EntryKind.FILE, 0o644, size=size, mtime_ns=TIME)


def layout(folder: Path, fill: Callable[[TarWriter], None]) -> Path:
    """An OCI layout of one image, called `layer`, of one gzip layer that `fill` writes."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    with (folder / "blob").open("wb") as file:
        sink = _Compressing(file)
        writer = TarWriter(sink)
        fill(writer)
        writer.close()
        sink.close()
    (folder / "blob").rename(blobs / sink.outer.hexdigest())
    layer = _descriptor("layer.v1.tar+gzip", sink.outer.hexdigest(), sink.size)
    diff_ids = [f"sha256:{sink.inner.hexdigest()}"]
    about = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    config = _document(blobs, "config.v1+json", about)
    manifest = _document(blobs, "manifest.v1+json", {"schemaVersion": 2, "config": config, "layers": [layer]})
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "layer"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def _document(blobs: Path, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    raw = json.dumps(document).encode()
    digest = hashlib.sha256(raw).hexdigest()
    (blobs / digest).write_bytes(raw)
    return _descriptor(kind, digest, len(raw))


def _descriptor(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": size}


def _contestants(image: Path, target: Path) -> list[Contestant]:
    clean = partial(shutil.rmtree, target, ignore_errors=True)
    umoci = ("umoci", "raw", "unpack", "--image", f"{image}:layer", os.fspath(target))
    ours = (sys.executable, "-c", OURS, os.fspath(image), os.fspath(target))
    return [Contestant("umoci raw unpack", umoci, after=clean), Contestant("sandwright", ours, after=clean)]


def main() -> None:
    """Make the layers, compare, print, and write what was asked for."""
    options = _options()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir=options.scratch) as scratch:
        folder = Path(scratch)
        cases: dict[str, Callable[[TarWriter], None]] = {
            "50,000 small files": small_files,
            "400 MB in 880 files": partial(large_files, 400),
        }
        for number, (title, fill) in enumerate(cases.items()):
            image = layout(folder / f"image{number}", fill)
            taken = compare(_contestants(image, folder / "rootfs"), rounds=options.rounds)
            print(table(title, taken, reference="umoci raw unpack"), flush=True)
            results[title] = record(taken)
            shutil.rmtree(image)
        results["memory"] = dict(_memory(folder))
    write(options.output, results)


def _memory(folder: Path) -> Iterator[tuple[str, float]]:
    for megabytes in (100, 400, 800):
        image = layout(folder / "image", partial(large_files, megabytes))
        ours = _contestants(image, folder / "rootfs")[1]
        peak = measure(ours.argv).memory / MIB
        ours.after()
        shutil.rmtree(image)
        print(f"peak memory, layer of {megabytes} MB: {peak:.1f} MiB", flush=True)
        yield f"{megabytes} MB", peak


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Unpacking, compared with umoci.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each program runs")
    parser.add_argument("--output", type=Path, default=RESULTS / "unpack.json", help="where the figures go")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a directory on tmpfs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
