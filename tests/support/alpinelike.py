"""An Alpine-like userland: one static busybox with `adduser` and `addgroup`, and the account files of Alpine.

It is not Alpine, which only registries have. Its busybox is built from Debian's source package, once per
machine, and kept beside the downloads; Debian's own build lacks the programs that add accounts.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from pathlib import Path

import requests

from sandwright import process
from sandwright.image.cache import Cache, default_cache
from sandwright.image.mirrors import find_mirrors
from support.tars import archive, file, folder, symlink

SOURCE = "pool/main/b/busybox/busybox_1.35.0.orig.tar.bz2"
SHA256 = "faeeb244c35a348a334f4a59e44626ee870fb07b6884d68c10ae8bc19f83a694"
"""The checksum in busybox_1.35.0-4+deb12u1.dsc."""

APPLETS = (
    "adduser addgroup ash cat chmod chown cp delgroup deluser echo env false getopt grep head hostname "
    "id kill ln ls mkdir mktemp mv printf pwd readlink rm sed sh sleep stat su test touch tr true uname wc "
    "whoami"
)
OPTIONS = (
    "STATIC SH_IS_ASH ASH_CMDCMD FEATURE_ADDUSER_TO_GROUP FEATURE_ADDUSER_LONG_OPTIONS "
    "FEATURE_ADDGROUP_LONG_OPTIONS LONG_OPTS FEATURE_SHADOWPASSWDS USE_BB_PWD_GRP BUSYBOX"
)
PASSWD = (
    b"root:x:0:0:root:/root:/bin/sh\n"
    b"bin:x:1:1:bin:/bin:/sbin/nologin\n"
    b"nobody:x:65534:65534:nobody:/:/sbin/nologin\n"
)
GROUP = b"root:x:0:root\nbin:x:1:root,bin,daemon\ndialout:x:20:root\nnobody:x:65534:\n"
SHADOW = b"root:*::0:::::\nbin:!::0:::::\nnobody:!::0:::::\n"
RELEASE = b'ID=alpine-like\nPRETTY_NAME="busybox of Debian, laid out as Alpine does"\n'


def busybox() -> Path:
    """The static program, built if necessary in about half a minute of one processor."""
    recipe = hashlib.sha256(f"{SHA256} {APPLETS} {OPTIONS}".encode()).hexdigest()[:16]
    kept = default_cache(os.environ) / "tests" / f"busybox-{recipe}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            built = _build(Path(scratch))
            built.replace(kept)
    return kept


def layers() -> list[bytes]:
    """Its layers as archives, lowest first: the second removes a file of the first."""
    links = [symlink(f"bin/{name}".encode(), b"busybox") for name in APPLETS.split()]
    places = [folder(name) for name in (b"bin", b"dev", b"etc", b"home", b"proc", b"sbin", b"sys", b"usr")]
    lowest = archive(
        *places,
        folder(b"root", mode=0o700),
        folder(b"tmp", mode=0o1777),
        file(b"bin/busybox", busybox().read_bytes(), mode=0o755),
        *links,
        file(b"etc/passwd", PASSWD),
        file(b"etc/group", GROUP),
        file(b"etc/shadow", SHADOW, mode=0o640),
        file(b"etc/left-over", b"taken away by the layer above\n"),
    )
    return [lowest, archive(file(b"etc/os-release", RELEASE), file(b"etc/.wh.left-over", b""))]


def packed(layer: bytes) -> bytes:
    """A layer compressed."""
    return gzip.compress(layer, 6, mtime=0)


def _build(scratch: Path) -> Path:
    process.run("tar", "-x", "--no-same-owner", "-f", _source(), "-C", scratch, timeout=60)
    (tree,) = (path for path in scratch.iterdir() if path.is_dir())
    make = ("make", "-C", tree, "-s")
    process.run(*make, "allnoconfig", timeout=300)
    configuration = tree / ".config"
    text = configuration.read_text()
    for name in [*OPTIONS.split(), *(applet.upper() for applet in APPLETS.split() if applet != "sh")]:
        text = text.replace(f"# CONFIG_{name} is not set", f"CONFIG_{name}=y")
    configuration.write_text(text)
    process.run(*make, "oldconfig", timeout=300, stdin=b"\n" * 500)
    process.run(*make, f"-j{os.cpu_count() or 1}", "busybox", timeout=540)
    return tree / "busybox"


def _source() -> Path:
    """Debian's source, from the mirror of the packages, after a check of its digest."""
    cache = Cache(default_cache(os.environ))
    target = cache.path(SHA256)
    if not target.exists():
        bases = find_mirrors(None, os.environ).bases("debian")
        with requests.get(f"{bases[0]}/{SOURCE}", timeout=60) as response:
            response.raise_for_status()
            content = response.content
        assert hashlib.sha256(content).hexdigest() == SHA256
        with cache.adding(SHA256) as kept:
            kept.write(content)
    return target
