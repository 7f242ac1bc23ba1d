"""How fast images are built beside `mmdebstrap --variant=extract` with the same packages, in what memory.

    python -m benchmarks.build [--rounds N] [--output results.json] [--scratch /dev/shm] [--images build]

Cold: `distroless` from packages that are on this machine already. mmdebstrap gets them in a repository beside
it, on the same tmpfs, and writes a plain tar of everything in them; we verify every package, leave out what
the definition says, compress, hash, and write an OCI layout. Both start as a command does, Python included.

No change: all images, whose layouts are there; built first, untimed, where they are not. Once as a command,
and once the time inside of it.

Memory: a package of 50, 200 and 400 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import random
import re
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from benchmarks.harness import MIB, RESULTS, Contestant, compare, measure, record, table, write

from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, LockedPackage, checksum, load_lock, write_lock
from sandwright.image.lockfile import ARCHITECTURES
from sandwright.image.mirrors import find_mirrors
from sandwright.image.packagefile import ExpectedDigest, open_package
from sandwright.progress import SILENT
from sandwright.resources import data_path
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter

IMAGE = "distroless"
OURS = """\
import sys, time
from pathlib import Path
from sandwright.image.build import build_images
from sandwright.image.fetcher import Fetcher
from sandwright.image.cache import Cache
from sandwright.image.definition import load_catalogue
images, cache, output, told, *options = sys.argv[1:]
names, platforms = (words.split(",") if words else None for words in options)
begin = time.perf_counter()
build_images(
    load_catalogue(Path(images)), names or (), output=Path(output), platforms=platforms,
    supply=Fetcher(Cache(Path(cache)), lambda: sys.exit("a package is missing")), frozen=True,
)
if told:
    with open(told, "a") as file:
        print(time.perf_counter() - begin, file=file)
"""
DEFINITION = """\
schema: 1
description: One large package.
base: {debian: bookworm}
configure: declared
packages: [large]
platforms: [linux/amd64]
"""


@dataclass(frozen=True)
class Place:
    """Where a comparison works: everything lies on the same file system."""

    scratch: Path
    images: Path
    cache: Path

    @property
    def output(self) -> Path:
        """Where we build."""
        return self.scratch / "output"

    def ours(self, output: Path, *, names: str = "", platforms: str = "", told: str = "") -> tuple[str, ...]:
        """Our command."""
        paths = (os.fspath(self.images), os.fspath(self.cache), os.fspath(output), told)
        return (sys.executable, "-c", OURS, *paths, names, platforms)


def prepare(scratch: Path) -> Place:
    """Have the packages of the image in a cache in `scratch`."""
    kept = Cache(default_cache(os.environ))
    place = Place(scratch, data_path("images"), scratch / "cache")
    supply = Fetcher(kept, lambda: find_mirrors(None, os.environ))
    lock = load_lock(place.images / IMAGE)
    for platform in lock.platforms:
        for sha256, path in supply.fetch(lock.packages(platform), SILENT).items():
            target = Cache(place.cache).path(sha256)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return place


def repository(place: Place, lock: Lock, platform: str) -> Path:
    """A repository of exactly the packages, without their relations: not all that they name is there."""
    architecture = ARCHITECTURES[platform]
    root = place.scratch / f"repository-{architecture}"
    lists = root / f"dists/{lock.suite}/main/binary-{architecture}"
    for folder in (root / "pool", lists):
        folder.mkdir(parents=True)
    paragraphs = []
    for package in lock.packages(platform):
        path = Cache(place.cache).path(package.sha256)
        os.link(path, root / "pool" / f"{package.name}.deb")
        with open_package(
            path, ExpectedDigest(str(package), package.size, package.sha256, package.format)
        ) as opened:
            control = opened.control["control"].decode()
        control = re.sub(r"(?m)^(Pre-Depends|Depends|Conflicts|Breaks):.*\n(?:[ \t].*\n)*", "", control)
        located = f"Filename: pool/{package.name}.deb\nSize: {package.size}\nSHA256: {package.sha256}\n"
        paragraphs.append(control.strip("\n") + "\n" + located)
    (lists / "Packages").write_text("\n".join(paragraphs))
    release = (
        f"Suite: {lock.suite}\nCodename: {lock.suite}\nArchitectures: {architecture}\nComponents: main\n"
    )
    (root / f"dists/{lock.suite}/Release").write_text(release)
    return root


def mmdebstrap(place: Place, lock: Lock, platform: str) -> list[str]:
    """Its command for one platform."""
    architecture = ARCHITECTURES[platform]
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=extract",
        "--skip=check/qemu",
        f"--architectures={architecture}",
        f"--include={','.join(package.name for package in lock.packages(platform))}",
        lock.suite,
        os.fspath(place.scratch / f"extracted-{architecture}.tar"),
        f"deb [trusted=yes] copy:{repository(place, lock, platform)} {lock.suite} main",
    ]


def cold(place: Place, rounds: int) -> dict[str, Any]:
    """The cold build, for one platform and for both."""
    lock = load_lock(place.images / IMAGE)
    commands = {platform: mmdebstrap(place, lock, platform) for platform in lock.platforms}
    clean = partial(shutil.rmtree, place.output, ignore_errors=True)
    _as_installed(place)
    os.environ.update(TMPDIR=os.fspath(place.scratch), SOURCE_DATE_EPOCH=str(lock.epoch))
    results = {}
    for title, platforms in {"amd64": ["linux/amd64"], "amd64 and arm64": sorted(commands)}.items():
        theirs = " && ".join(shlex.join(commands[platform]) for platform in platforms)
        ours = place.ours(place.output, names=IMAGE, platforms=",".join(platforms))
        contestants = [
            Contestant("mmdebstrap, a plain tar", ("sh", "-c", theirs)),
            Contestant("sandwright, an OCI layout", ours, after=clean),
        ]
        taken = compare(contestants, rounds=rounds)
        print(table(f"cold build of {IMAGE}, {title}", taken, reference=contestants[0].name), flush=True)
        results[f"cold build of {IMAGE}, {title}"] = record(taken)
    return results


def _as_installed(place: Place) -> None:
    """Keep byte code, as an installed program has it, and make it once before anything is timed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = os.fspath(place.scratch / "bytecode")
    measure(place.ours(place.output, names=IMAGE))
    shutil.rmtree(place.output)


def unchanged(place: Place, output: Path, rounds: int) -> dict[str, Any]:
    """The build that finds nothing to do."""
    catalogue = load_catalogue(place.images)
    supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
    built = build_images(catalogue, output=output, supply=supply, frozen=True)
    told = place.scratch / "told"
    command = place.ours(output, told=os.fspath(told))
    (taken,) = compare([Contestant("sandwright", command)], rounds=rounds)
    inside = statistics.median(float(line) for line in told.read_text().split())
    title = f"no change, {len(built)} images for both platforms"
    print(table(title, [taken], reference="sandwright"))
    print(f"  of which inside the call, definitions read included: {inside * 1000:.0f} ms", flush=True)
    return {title: {"process": record([taken]), "call": inside}}


def memory(place: Place) -> Iterator[tuple[str, float]]:
    """The highest memory for one large package, by its size."""
    for megabytes in (50, 200, 400):
        world = place.scratch / f"large-{megabytes}"
        one = Place(world, world / "images", world / "cache")
        _large(one, megabytes)
        peak = measure(one.ours(one.output)).memory / MIB
        shutil.rmtree(world)
        print(f"peak memory, package of {megabytes} MB: {peak:.1f} MiB", flush=True)
        yield f"{megabytes} MB", peak


def _large(place: Place, megabytes: int) -> None:
    """A world of one image of one package, of noise."""
    folder = place.images / "large"
    folder.mkdir(parents=True)
    (folder / "image.yaml").write_text(DEFINITION)
    control = "Package: large\nVersion: 1\nArchitecture: amd64\n"
    package = place.scratch / "large.deb"
    with package.open("wb") as file:
        file.write(b"!<arch>\n")
        _member(file, "debian-binary", b"2.0\n")
        _member(file, "control.tar.zst", _packed(b"control", control.encode()))
        _member(file, "data.tar.zst", _packed(b"noise", _noise(megabytes)))
    with package.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = package.stat().st_size
    target = Cache(place.cache).path(digest)
    target.parent.mkdir(parents=True)
    package.rename(target)
    locked = LockedPackage("large", "1", "amd64", size, digest, "debian", "pool/large.deb", "large", "1", 1)
    definition = load_catalogue(place.images)["large"]
    write_lock(folder, Lock(checksum(definition), "bookworm", 1_700_000_000, {"linux/amd64": (locked,)}))


def _noise(megabytes: int) -> bytes:
    """What can't be compressed. `randbytes` itself gives at most 256 MiB at once."""
    made = random.Random(1)
    return b"".join(made.randbytes(1_000_000) for _ in range(megabytes))


def _packed(path: bytes, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(buffer, closefd=False) as sink:
        writer = TarWriter(sink)
        writer.add(TarEntry(path, EntryKind.FILE, 0o644, size=len(data)), (data,))
        writer.close()
    return buffer.getvalue()


def _member(file: BinaryIO, name: str, content: bytes) -> None:
    size = len(content)
    file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode())
    file.write(content + b"\n" * (size % 2))


def main() -> None:
    """Prepare, compare, print, and write what was asked for."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir=options.scratch) as scratch:
        place = prepare(Path(scratch))
        results = cold(place, options.rounds)
        results |= unchanged(place, options.images, options.rounds)
        results["memory"] = dict(memory(place))
    write(options.output, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Building, compared with mmdebstrap.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each program runs")
    parser.add_argument("--output", type=Path, default=RESULTS / "build.json", help="where the figures go")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a directory on tmpfs")
    parser.add_argument("--images", type=Path, default=RESULTS.parent, help="where all images are built")
    return parser.parse_args()


if __name__ == "__main__":
    main()
