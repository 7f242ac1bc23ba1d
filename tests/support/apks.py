"""Makes small Alpine packages and repositories for tests, signed with new keys."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.debs import TIME, Member, tar

KEY = "builder@example.invalid-1.rsa.pub"
_INDEXED = (("D", "depend"), ("p", "provides"), ("i", "install_if"), ("k", "provider_priority"))
STRANGER = "stranger@example.invalid-1.rsa.pub"


@functools.cache
def private_key(name: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_key(name: str = KEY) -> bytes:
    return private_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def member(files: Sequence[Member], *, ends: bool) -> bytes:
    """A gzip member with a tar archive, as abuild writes it with or without the zeros at its end."""
    raw = tar(files)
    size = sum(0 if ends else 512 + -(-len(each.data) // 512) * 512 for each in files)
    return gzip.compress(raw if ends else raw[:size], 1, mtime=0)


def signature(content: bytes, key: str = KEY, *, algorithm: str = "RSA") -> bytes:
    """The gzip member of a signature."""
    digest = SHA256() if algorithm == "RSA256" else SHA1()
    value = private_key(key).sign(content, padding.PKCS1v15(), digest)
    return member([Member(f".SIGN.{algorithm}.{key}", value)], ends=False)


@dataclass
class Apk:
    """A package. `info` are further fields of its `.PKGINFO`, `scripts` by name, as `.post-install`."""

    name: str
    version: str = "1.0-r0"
    data: Sequence[Member] = ()
    architecture: str = "x86_64"
    info: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    built: int = TIME

    def control(self, data: bytes) -> bytes:
        """The gzip member of its control archive."""
        fields = {"pkgname": self.name, "pkgver": self.version, "arch": self.architecture, "size": "4096"}
        fields |= {"origin": self.name, "builddate": str(self.built), "license": "MIT"}
        fields |= {"pkgdesc": "a package", "datahash": hashlib.sha256(data).hexdigest()}
        lines = ["# made by a test"]
        for name, value in {**fields, **self.info}.items():
            lines += [f"{name} = {each}" for each in ([value] if isinstance(value, str) else value)]
        info = Member(".PKGINFO", "\n".join(lines) + "\n")
        scripts = [Member(name, content, mode=0o755) for name, content in sorted(self.scripts.items())]
        return member([info, *scripts], ends=False)

    def _data(self) -> bytes:
        return member([_with_checksum(each) for each in self.data], ends=True)

    def build(self, key: str = KEY, *, algorithm: str = "RSA") -> bytes:
        """The package, signed."""
        data = self._data()
        control = self.control(data)
        return signature(control, key, algorithm=algorithm) + control + data

    def indexed(self) -> tuple[bytes, str]:
        """The package, and its paragraph in an index."""
        data = self._data()
        control = self.control(data)
        raw = signature(control) + control + data
        digest = hashlib.sha1(control).digest()
        return raw, self._paragraph(base64.b64encode(digest).decode(), len(raw))

    def _paragraph(self, checksum: str, size: int) -> str:
        lines = {"C": f"Q1{checksum}", "P": self.name, "V": self.version, "A": self.architecture}
        lines |= {"S": str(size), "I": "4096", "T": "a package", "t": str(self.built)}
        lines |= {"L": str(self.info.get("license", "MIT")), "o": str(self.info.get("origin", self.name))}
        for letter, name in _INDEXED:
            if value := self.info.get(name):
                lines[letter] = value if isinstance(value, str) else " ".join(value)
        return "".join(f"{letter}:{value}\n" for letter, value in lines.items())


def _with_checksum(file: Member) -> Member:
    """A member of the data archive with the header that apk requires: the SHA-1 of its content or target."""
    if file.kind not in (tarfile.REGTYPE, tarfile.SYMTYPE):
        return file
    content = file.link.encode() if file.kind == tarfile.SYMTYPE else file.data
    digest = hashlib.sha1(content).hexdigest()
    return replace(file, pax={"APK-TOOLS.checksum.SHA1": digest, **(file.pax or {})})


def write_repository(
    root: Path, packages: Sequence[Apk], *, directory: str = "v3.23/main", architecture: str = "x86_64"
) -> Path:
    """Write packages and their signed index into a repository below `root`; return its directory."""
    target = root / directory / architecture
    target.mkdir(parents=True, exist_ok=True)
    paragraphs = []
    for each in packages:
        raw, paragraph = each.indexed()
        (target / f"{each.name}-{each.version}.apk").write_bytes(raw)
        paragraphs.append(paragraph)
    write_index(target, paragraphs)
    return target


def write_index(target: Path, paragraphs: Sequence[str], key: str = KEY) -> None:
    files = [Member("DESCRIPTION", "test"), Member("APKINDEX", "\n".join(paragraphs))]
    content = member(files, ends=True)
    (target / "APKINDEX.tar.gz").write_bytes(signature(content, key) + content)
