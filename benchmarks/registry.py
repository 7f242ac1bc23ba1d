"""How fast an image is pushed to a registry and pulled from it, beside skopeo and crane, in what memory.

    python -m benchmarks.registry [--rounds N] [--megabytes 400] [--output results.json] [--scratch /dev/shm]

The registry is Debian's `docker-registry` on loopback, empty before every push. The image has five layers of
bytes that don't compress. The tools get the same OCI layout on the same file system, verify digests, and
start as a command does, Python included. Ours then reads back what it pushed; the others do not. crane takes
part where it is on PATH.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, Contestant, compare, record, table, write

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
LAYERS = 5
PUSH = """\
import sys
from pathlib import Path
from sandwright.image.remote import open_layout
from sandwright.registry.repository import open_repository
from sandwright.registry.push import push
from sandwright.registry.reference import parse_reference
from sandwright.registry.settings import RegistrySettings
image = open_layout(Path(sys.argv[1]))
with open_repository(parse_reference(sys.argv[2]), RegistrySettings(), push=True) as repository:
    push(repository, image.graph, image.open_blob, tags=["1"])
"""
PULL = """\
import sys
from pathlib import Path
from sandwright.image.cache import Cache
from sandwright.image.remote import pull_layout
from sandwright.registry.reference import parse_reference
from sandwright.registry.settings import RegistrySettings
pull_layout(parse_reference(sys.argv[1]), Path(sys.argv[2]), settings=RegistrySettings(),
            cache=Cache(Path(sys.argv[3])))
"""


def main() -> None:
    """Compare pushes and pulls, print tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--output", type=Path, default=RESULTS / "registry.json")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-", dir=options.scratch) as directory:
        scratch = Path(directory)
        layout = make_layout(scratch / "layout", options.megabytes * 10**6)
        with registry(scratch) as (host, storage):
            pushes = compare(pushers(layout, host, storage), rounds=options.rounds)
            pulls = compare(pullers(scratch, host), rounds=options.rounds)
    size = f"{options.megabytes} MB in {LAYERS} layers"
    print(table(f"push, {size}", pushes, reference="skopeo"))
    print(table(f"pull, {size}", pulls, reference="skopeo"))
    write(options.output, {"push": record(pushes), "pull": record(pulls)})


def pushers(layout: Path, host: str, storage: Path) -> list[Contestant]:
    """Who pushes; into an empty registry every time."""
    empty = partial(shutil.rmtree, storage, ignore_errors=True)
    target = f"{host}/bench/image:1"
    ours = (sys.executable, "-c", PUSH, str(layout), target)
    words = ("--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false")
    skopeo = ("skopeo", *words, f"oci:{layout}:latest", f"docker://{target}")
    crane = ("crane", "push", "--insecure", str(layout), target)
    return [
        Contestant(name, argv, before=empty)
        for name, argv in (("sandwright", ours), ("skopeo", skopeo), ("crane", crane))
        if name != "crane" or shutil.which(name)
    ]


def pullers(scratch: Path, host: str) -> list[Contestant]:
    """Who pulls what was pushed last; into nothing every time."""
    target, cache = scratch / "pulled", scratch / "cache"

    def empty() -> None:
        for path in (target, cache):
            shutil.rmtree(path, ignore_errors=True)

    source = f"{host}/bench/image:1"
    ours = (sys.executable, "-c", PULL, source, str(target), str(cache))
    words = ("--insecure-policy", "copy", "--quiet", "--src-tls-verify=false")
    skopeo = ("skopeo", *words, f"docker://{source}", f"oci:{target}:1")
    crane = ("crane", "pull", "--insecure", "--format=oci", source, str(target))
    return [
        Contestant(name, argv, before=empty, after=empty)
        for name, argv in (("sandwright", ours), ("skopeo", skopeo), ("crane", crane))
        if name != "crane" or shutil.which(name)
    ]


def make_layout(path: Path, size: int) -> Path:
    """An OCI layout of an image with `LAYERS` layers of `size` bytes together."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layers, diff_ids = [], []
    for number in range(LAYERS):
        raw = _tar(random.Random(number), size // LAYERS)
        diff_ids.append(f"sha256:{hashlib.sha256(raw).hexdigest()}")
        packed = gzip.compress(raw, 1, mtime=0)
        layers.append(_blob(blobs, packed, "application/vnd.oci.image.layer.v1.tar+gzip"))
    config = {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _blob(blobs, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": layers,
    }
    described = _blob(blobs, json.dumps(manifest).encode(), MANIFEST_TYPE)
    described["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path


def _tar(source: random.Random, size: int) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        member = tarfile.TarInfo("data")
        member.size = size
        tar.addfile(member, io.BytesIO(source.randbytes(size)))
    return held.getvalue()


def _blob(blobs: Path, content: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


@contextlib.contextmanager
def registry(scratch: Path) -> Iterator[tuple[str, Path]]:
    """A registry that runs: its host, and the directory that it keeps everything in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    storage = scratch / "storage"
    configuration = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(storage)}},
        "http": {"addr": host, "secret": "for a benchmark"},
    }
    written = scratch / "registry.json"
    written.write_text(json.dumps(configuration))
    server = subprocess.Popen(
        ["docker-registry", "serve", os.fspath(written)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(host)
        yield host, storage / "docker"
    finally:
        server.kill()
        server.wait(10)


def _wait_for(host: str) -> None:
    name, _, port = host.partition(":")
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((name, int(port)), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    main()
