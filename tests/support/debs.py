"""Makes small Debian packages for tests, valid and invalid, with Python's own tarfile and compressors."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from sandwright.image.packagefile import ExpectedDigest
from sandwright.image.packages import PackageSource

COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TIME = 1_600_000_000


@dataclass
class Member:
    """A tar member. `kind` is tarfile's type; text content is UTF-8."""

    path: str
    content: bytes | str = b""
    kind: bytes = tarfile.REGTYPE
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = TIME
    link: str = ""
    device: tuple[int, int] = (0, 0)
    pax: Mapping[str, str] | None = None

    @property
    def data(self) -> bytes:
        """The content as bytes."""
        return self.content.encode() if isinstance(self.content, str) else self.content


def folder(path: str, mode: int = 0o755, *, uid: int = 0, gid: int = 0) -> Member:
    return Member(path, kind=tarfile.DIRTYPE, mode=mode, uid=uid, gid=gid)


def link(path: str, target: str) -> Member:
    return Member(path, kind=tarfile.SYMTYPE, mode=0o777, link=target)


def tar(members: Sequence[Member]) -> bytes:
    """A PAX archive of the members, as they come."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(member.path)
            info.type, info.mode, info.mtime = member.kind, member.mode, member.mtime
            info.uid, info.gid, info.uname, info.gname = member.uid, member.gid, "builder", "builders"
            info.size, info.linkname = len(member.data), member.link
            info.devmajor, info.devminor = member.device
            info.pax_headers = dict(member.pax or {})
            archive.addfile(info, io.BytesIO(member.data))
    return buffer.getvalue()


def read_tar(raw: bytes) -> list[Member]:
    """The members of an archive, in their order, as Python's tarfile reads them."""
    members = []
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for info in archive:
            assert (info.uname, info.gname) == ("", "")
            file = archive.extractfile(info) if info.isreg() else None
            member = Member(info.name, file.read() if file else b"", info.type, info.mode, info.uid, info.gid)
            member.mtime, member.link = int(info.mtime), info.linkname
            member.device, member.pax = (info.devmajor, info.devminor), dict(info.pax_headers)
            members.append(member)
    return members


def ar(members: Sequence[tuple[str, bytes]]) -> bytes:
    """An ar archive, in the format of ar(5)."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        parts.append(f"{name:<16}{TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
        parts.append(content + b"\n" * (len(content) % 2))
    return b"".join(parts)


def control(name: str = "thing", version: str = "1.0-1", architecture: str = "amd64", **fields: str) -> str:
    lines = {"Package": name, "Version": version, "Architecture": architecture, **fields}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def deb(
    data: Sequence[Member],
    *,
    name: str = "thing",
    version: str = "1.0-1",
    architecture: str = "amd64",
    suffix: str = ".xz",
    files: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """A package with these data members. `files` are added to its control archive."""
    text = control(name, version, architecture, Maintainer="Nobody <nobody@example.invalid>")
    members = [folder("./"), Member("./control", text)]
    members += [Member(f"./{path}", content) for path, content in (files or {}).items()]
    return ar(
        [
            ("debian-binary", b"2.0\n"),
            (f"control.tar{suffix}", COMPRESSORS[suffix](tar(members))),
            (f"data.tar{suffix}", COMPRESSORS[suffix](tar(data))),
        ]
    )


def promise(raw: bytes, label: str = "thing 1.0-1 (amd64)") -> ExpectedDigest:
    return ExpectedDigest(label, len(raw), hashlib.sha256(raw).hexdigest())


def source(directory: Path, raw: bytes, *, name: str = "thing", version: str = "1.0-1") -> PackageSource:
    """Write a package into a directory, as a source to build from."""
    path = directory / f"{name}.deb"
    path.write_bytes(raw)
    return PackageSource(name, path, promise(raw, f"{name} {version} (amd64)"), version, "amd64")
