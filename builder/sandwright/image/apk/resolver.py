"""Resolves packages with the real apk, in a private root, without a network.

apk decides which versions belong together. It reads the indices that we fetched, checks their signatures
itself, and only lists the packages that it would install. Where this machine has no apk, a static one comes
from the repository: package `apk-tools-static`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.errors import LockError
from sandwright.image.apk.package import ApkPackage
from sandwright.outputs import disk_errors
from sandwright.rootfs.tar.entry import EntryKind

STATIC_PACKAGE = "apk-tools-static"
_STATIC_PROGRAM = b"sbin/apk.static"
_TIMEOUT = 120.0
_INSTALLING = re.compile(r"^\( *[0-9]+/[0-9]+\) Installing (\S+) \((\S+)\)$", re.MULTILINE)
_DATABASE = "lib/apk/db"


@dataclass(frozen=True)
class PrivateApk:
    """apk for one architecture (`x86_64`), in the empty directory `root`. `program` is its path."""

    program: str
    root: Path
    architecture: str

    def prepare(self, indices: Mapping[str, bytes], keys: Mapping[str, bytes]) -> None:
        """Write repositories of nothing but indices, and the keys.

        `indices` are by name of the repository.
        """
        with disk_errors(self.root):
            for name in ("keys", f"tree/{_DATABASE}", "tree/etc/apk", "tree/tmp", "tree/var/cache/apk"):
                (self.root / name).mkdir(parents=True)
            for name in ("triggers", "scripts.tar", "installed"):
                (self.root / "tree" / _DATABASE / name).touch()
            (self.root / "tree/etc/apk/world").touch()
            for name, raw in indices.items():
                directory = self.root / "repositories" / name / self.architecture
                directory.mkdir(parents=True)
                (directory / "APKINDEX.tar.gz").write_bytes(raw)
            lines = "".join(f"{self.root}/repositories/{name}\n" for name in indices)
            (self.root / "sources").write_text(lines)
            for name, content in keys.items():
                (self.root / "keys" / name).write_bytes(content)

    def resolve(
        self, packages: Sequence[str], *, without: Iterable[Mapping[str, str]] = ()
    ) -> list[tuple[str, str]]:
        """Names and versions of the packages that apt installs into an empty system for these to work.

        `without` are the index' paragraphs of packages that are taken to be there. Raise LockError when
        that can't be.
        """
        self._write_installed(without)
        result = process.run(
            self.program,
            *("--root", self.root / "tree", "--arch", self.architecture, "--keys-dir", self.root / "keys"),
            *("--repositories-file", self.root / "sources", "--no-network", "--no-cache", "--no-progress"),
            *("--simulate", "add", *packages),
            env={"LC_ALL": "C", "PATH": process.search_path()},
            timeout=_TIMEOUT,
            check=False,
        )
        if not result:
            raise LockError(f"apk cannot resolve the packages:\n{_apk_errors(result)}")
        return _INSTALLING.findall(result.stdout.decode("utf-8", "replace"))

    def _write_installed(self, paragraphs: Iterable[Mapping[str, str]]) -> None:
        fields = [{key: each[key] for key in "CPVAp" if key in each} for each in paragraphs]
        entries = ["".join(f"{key}:{value}\n" for key, value in each.items()) + "\n" for each in fields]
        with disk_errors(self.root):
            (self.root / "tree" / _DATABASE / "installed").write_text("".join(entries))
            (self.root / "tree/etc/apk/world").write_text("".join(f"{each['P']}\n" for each in fields))


def extract_static(package: Path, target: Path) -> None:
    """Write the program of the package `apk-tools-static`, which has been verified.

    Raise LockError without one.
    """
    with disk_errors(target), package.open("rb") as raw:
        opened = ApkPackage(raw, label=STATIC_PACKAGE)
        for entry in opened.data:
            if entry.path == _STATIC_PROGRAM and entry.kind is EntryKind.FILE:
                target.write_bytes(b"".join(opened.data.chunks()))
                target.chmod(0o755)
                return
    raise LockError(f"package {STATIC_PACKAGE}: it has no file {_STATIC_PROGRAM.decode()}")


def _apk_errors(result: process.Result) -> str:
    lines = [line for line in result.stderr.splitlines() if not line.startswith("WARNING: The indexes")]
    return "\n".join(lines)
