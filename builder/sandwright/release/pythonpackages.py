"""The Python packages of an image that no package of the distribution brings: those below /usr/local.

Format: the PyPA's "Core metadata" and "Recording installed projects".
"""

from __future__ import annotations

import base64
import binascii
import csv
import email.parser
import posixpath
import re
from collections.abc import Iterator, Sequence

from sandwright.image.lock import LanguagePackage
from sandwright.image.lockedwheel import LockedWheel, normalised
from sandwright.release.contents import ImageContents
from sandwright.release.licences import UNKNOWN, spdx_licence
from sandwright.release.packages import PYTHON, Package

_METADATA = re.compile(re.escape(PYTHON.decode()) + r"[0-9]+/dist-packages/[^/]+\.dist-info/METADATA")


def find_python_packages(contents: ImageContents, locked: Sequence[LanguagePackage] = ()) -> list[Package]:
    """The Python packages, sorted, with their unaltered files. `locked` are packages of the lock.

    Dependencies are not resolved, so their list is not complete.
    """
    sums = {(each.name, each.version): each.sha256 for each in locked if isinstance(each, LockedWheel)}
    found = []
    for path, content in contents.tree.kept.items():
        if not _METADATA.fullmatch(path.decode("utf-8", "replace")):
            continue
        fields = email.parser.BytesHeaderParser().parsebytes(content)
        name, version = normalised(str(fields.get("Name", ""))), str(fields.get("Version", ""))
        expression = str(fields.get("License-Expression", ""))
        found.append(
            Package(
                "pypi",
                name,
                version,
                "",
                sums.get((name, version), ""),
                maintainer=str(fields.get("Author-email") or fields.get("Author") or ""),
                complete=False,
                licence=spdx_licence(expression) if expression else UNKNOWN,
                files=tuple(_recorded_files(path, contents)),
            )
        )
    return sorted(found)


def _recorded_files(metadata: bytes, contents: ImageContents) -> Iterator[bytes]:
    """The files in the RECORD beside a METADATA that have its digests, and the RECORD itself."""
    info = metadata.rpartition(b"/")[0]
    record = info + b"/RECORD"
    site = info.rpartition(b"/")[0].decode("utf-8", "surrogateescape")
    text = contents.tree.kept.get(record, b"").decode("utf-8", "surrogateescape")
    for row in csv.reader(text.splitlines()):
        name, digest, *_ = [*row, "", ""]
        path = posixpath.normpath(posixpath.join(site, name)).encode("utf-8", "surrogateescape")
        file = contents.files.get(path)
        if file is not None and (path == record or file.digests.get("sha256") == _hexadecimal(digest)):
            yield path


def _hexadecimal(digest: str) -> str | None:
    """A digest of a RECORD in hexadecimal; None if it is not a SHA-256."""
    algorithm, _, encoded = digest.partition("=")
    try:
        raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        return None
    return raw.hex() if algorithm == "sha256" else None
