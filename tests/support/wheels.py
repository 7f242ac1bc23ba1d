"""Makes small wheels, valid and invalid."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PURE = "py3-none-any"
NATIVE = {
    "linux/amd64": "cp311-cp311-manylinux_2_17_x86_64",
    "linux/arm64": "cp311-cp311-manylinux_2_17_aarch64",
}


@dataclass
class Wheel:
    """A wheel. `files` are further ones by name; `links` are symbolic links, which no wheel may have."""

    name: str
    version: str = "1.0"
    tag: str = PURE
    files: Mapping[str, str] = field(default_factory=dict)
    metadata: str = ""
    requires: tuple[str, ...] = ()
    programs: str = ""
    executable: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    format: str = "1.0"
    info: str | None = None
    """The directory of its metadata, which has the name of the wheel by default."""

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.tag}.whl"

    def build(self) -> bytes:
        info = f"{self.name}-{self.version}.dist-info" if self.info is None else self.info
        requires = "".join(f"Requires-Dist: {each}\n" for each in self.requires)
        contents = {
            **self.files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n"
            f"{requires}{self.metadata}",
            f"{info}/WHEEL": f"Wheel-Version: {self.format}\nGenerator: test\nTag: {self.tag}\n",
        }
        if self.programs:
            contents[f"{info}/entry_points.txt"] = self.programs
        rows = [f"{name},{_encoded(text.encode())},{len(text.encode())}\n" for name, text in contents.items()]
        contents[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, text in contents.items():
                mode = 0o755 if name in self.executable else 0o644
                archive.writestr(_member(name, stat.S_IFREG | mode), text)
            for name, target in self.links.items():
                archive.writestr(_member(name, stat.S_IFLNK | 0o777), target)
        return buffer.getvalue()

    def write(self, directory: Path) -> str:
        """Write it; return its line for a requirements file."""
        directory.mkdir(parents=True, exist_ok=True)
        content = self.build()
        (directory / self.file).write_bytes(content)
        return f"{self.name}=={self.version} --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"


def _member(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16
    return info


def _encoded(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
