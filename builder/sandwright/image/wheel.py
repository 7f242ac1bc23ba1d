"""Adds Python packages to an image: unpacks wheels as pip does, without running anything.

Format: the PyPA's "Binary distribution format" and "Recording installed projects". Files go below /usr/local,
where Debian's Python looks for packages of the administrator. The same wheels always give the same files.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import posixpath
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import BuildError, IntegrityError
from sandwright.image.fields import check_path
from sandwright.image.lockedwheel import LockedWheel
from sandwright.image.overlay import Content, Overlay

_PREFIX = "usr/local"
_PYTHON = "#!/usr/bin/python3"
_CHUNK = 1 << 20
_MOST_FILES = 200_000
_LARGEST_TEXT = 4 << 20
_MODULE = r"[A-Za-z_][\w.]*"
_ENTRY = re.compile(rf"({_MODULE})\s*:\s*({_MODULE})\s*(?:\[.*\])?")
_SCRIPT = """\
{python}
import sys
from {module} import {top}
if __name__ == "__main__":
    sys.exit({function}())
"""


@dataclass(frozen=True)
class PythonWheels:
    """Wheels for `python`, a version like 3.11. `files` has them by SHA-256."""

    python: str
    wheels: Sequence[LockedWheel]
    files: Mapping[str, Path]


def install_wheels(overlay: Overlay, found: PythonWheels) -> None:
    """Verify the SHA-256 of wheels, and add them to an image.

    Raise IntegrityError for a file with another digest, BuildError for one that is not a wheel, or has a path
    that is taken.
    """
    for wheel in found.wheels:
        path = found.files[wheel.sha256]
        if (digest := _wheel_digest(path)) != wheel.sha256:
            raise IntegrityError(f"{wheel}: its SHA-256 is {digest}, the lock says {wheel.sha256}")
        try:
            _Wheel(wheel, zipfile.ZipFile(path), found.python).install(overlay)
        except (
            ValueError,
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            OSError,
            KeyError,
        ) as error:
            raise BuildError(f"{wheel}: not a wheel that can be installed: {error}") from error


class _Wheel:
    """One wheel: its own files by their path in the image, and those that installers write."""

    def __init__(self, wheel: LockedWheel, archive: zipfile.ZipFile, python: str) -> None:
        self._label = str(wheel)
        self._archive = archive
        self._site = f"{_PREFIX}/lib/python{python}/dist-packages"
        self._headers = f"{_PREFIX}/include/python{python}/{wheel.name}"
        self._sources: dict[str, zipfile.ZipInfo] = {}
        self._made: dict[str, tuple[bytes, int]] = {}
        tops = {name.partition("/")[0] for name in archive.namelist()}
        stems = [top.removesuffix(".dist-info") for top in tops if top.endswith(".dist-info")]
        if len(stems) != 1:
            raise ValueError(f"it has {len(stems)} directories *.dist-info")
        self._info, self._data = f"{stems[0]}.dist-info", f"{stems[0]}.data"

    def install(self, overlay: Overlay) -> None:
        members = [each for each in self._archive.infolist() if not each.is_dir()]
        if len(members) > _MOST_FILES:
            raise ValueError(f"more than {_MOST_FILES} files")
        for member in members:
            self._sort(member)
        self._check_format()
        for name, entry in self._entry_points():
            self._put_made(f"{_PREFIX}/bin/{name}", entry, 0o755)
        self._put_made(f"{self._site}/{self._info}/INSTALLER", b"sandwright\n", 0o644)
        self._sources.pop(f"{self._site}/{self._info}/RECORD", None)
        record = f"{self._site}/{self._info}/RECORD"
        self._made[record] = (self._record_content(record), 0o644)
        self._add_to(overlay)

    def _sort(self, member: zipfile.ZipInfo) -> None:
        """Decide where a file goes, by the scheme of its directory in `.data`."""
        check_path(f"/{member.filename}")
        if stat.S_ISLNK(member.external_attr >> 16) or member.flag_bits & 1:
            raise ValueError(f"{member.filename} is a link, or encrypted")
        top, _, rest = member.filename.partition("/")
        if top != self._data:
            target = f"{self._site}/{member.filename}"
        else:
            scheme, _, path = rest.partition("/")
            target = f"{self._scheme(scheme)}/{path}"
            if scheme == "scripts" and self._member_bytes(member).startswith(b"#!python"):
                _, newline, body = self._member_bytes(member).partition(b"\n")
                self._put_made(target, _PYTHON.encode() + newline + body, 0o755)
                return
        if target in self._sources:
            raise ValueError(f"{member.filename} is there twice")
        self._sources[target] = member

    def _scheme(self, name: str) -> str:
        schemes = {
            "purelib": self._site,
            "platlib": self._site,
            "scripts": f"{_PREFIX}/bin",
            "data": _PREFIX,
            "headers": self._headers,
        }
        if name not in schemes:
            raise ValueError(f"{self._data}/{name} is not known")
        return schemes[name]

    def _check_format(self) -> None:
        text = self._text("WHEEL")
        if not re.search(r"^Wheel-Version: 1\.", text, re.MULTILINE):
            raise ValueError(f"{self._info}/WHEEL does not state version 1")

    def _entry_points(self) -> Iterator[tuple[str, bytes]]:
        """The programs that the wheel asks installers to make: names and contents."""
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(self._text("entry_points.txt"))
        except configparser.Error as error:
            raise ValueError(f"entry_points.txt: {error}") from None
        for section in ("console_scripts", "gui_scripts"):
            for name, value in parser.items(section) if parser.has_section(section) else ():
                match = _ENTRY.fullmatch(value)
                if match is None or not re.fullmatch(r"[\w.+-]+", name):
                    raise ValueError(f"entry_points.txt: {name} = {value}")
                module, function = match[1], match[2]
                top = function.partition(".")[0]
                text = _SCRIPT.format(python=_PYTHON, module=module, top=top, function=function)
                yield name, text.encode()

    def _text(self, name: str) -> str:
        """A file of the metadata; empty if there is none."""
        member = self._sources.get(f"{self._site}/{self._info}/{name}")
        return "" if member is None else self._member_bytes(member).decode("utf-8", "replace")

    def _member_bytes(self, member: zipfile.ZipInfo) -> bytes:
        if member.file_size > _LARGEST_TEXT:
            raise ValueError(f"{member.filename} has {member.file_size} bytes")
        return self._archive.read(member)

    def _put_made(self, target: str, content: bytes, mode: int) -> None:
        if target in self._made or target in self._sources:
            raise ValueError(f"/{target} is there twice")
        self._made[target] = (content, mode)

    def _record_content(self, itself: str) -> bytes:
        """The list of installed files with their digests."""
        rows = {itself: ",,"}
        for target, member in self._sources.items():
            digest = hashlib.sha256()
            for chunk in self._member_chunks(member):
                digest.update(chunk)
            rows[target] = f",{_record_digest(digest.digest())},{member.file_size}"
        for target, (content, _) in self._made.items():
            rows[target] = f",{_record_digest(hashlib.sha256(content).digest())},{len(content)}"
        return "".join(f"{self._row_name(target)}{rows[target]}\n" for target in sorted(rows)).encode()

    def _row_name(self, target: str) -> str:
        relative = posixpath.relpath(target, self._site)
        return f'"{relative.replace(chr(34), chr(34) * 2)}"' if re.search(r'[",]', relative) else relative

    def _add_to(self, overlay: Overlay) -> None:
        for target in sorted([*self._sources, *self._made]):
            if not overlay.missing(target.encode()):
                raise BuildError(f"{self._label}: /{target} is in the image already")
            if target in self._made:
                content, mode = self._made[target]
                overlay.file(target.encode(), content, mode=mode)
                continue
            member = self._sources[target]
            runs = member.external_attr >> 16 & 0o111 or target.startswith(f"{_PREFIX}/bin/")
            overlay.file(
                target.encode(), self._content(member), size=member.file_size, mode=0o755 if runs else 0o644
            )

    def _content(self, member: zipfile.ZipInfo) -> Content:
        return lambda: self._member_chunks(member)

    def _member_chunks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        with self._archive.open(member) as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def _record_digest(digest: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _wheel_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
