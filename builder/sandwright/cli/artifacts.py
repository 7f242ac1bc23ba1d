"""Compares a method's artifacts with the files in their directory, and updates the files.

A manifest beside them holds the digest of each file that was written. A file that the policy no longer needs
is removed only if the manifest lists it and its content is unchanged. The directory may be in another user's
project, so nothing is written or removed through a symbolic link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.errors import UsageError
from sandwright.methods import registry
from sandwright.outputs import write_output
from sandwright.reading import read_start
from sandwright.render.artifact import Artifact, json_artifact
from sandwright.render.rendered import Rendered
from sandwright.visible import one_line

MANIFEST = "manifest.json"
"""Beside a method's artifacts: the digest of each."""

MOST_BYTES = 64 << 20
"""Of all files in a directory of artifacts together, as a stranger may have put them there."""

_BESIDE = (".gitignore", "policy.schema.json")
"""Files that `init` and `render` write beside the directories of methods."""


@dataclass(frozen=True)
class Changes:
    """The changes that rendering makes in a directory.

    `written` are files that are missing or differ. `removed` are those that an earlier rendering wrote and
    this one does not. `strange` are others, which are left alone.
    """

    directory: Path
    written: tuple[Artifact, ...]
    removed: tuple[str, ...]
    strange: tuple[str, ...]

    def names(self) -> list[str]:
        """The paths of all of them, for messages, each in one line: a stranger chose some."""
        stale = [each.name for each in self.written] + [f"{each} (left over)" for each in self.removed]
        found = [*stale, *(f"{each} (not ours)" for each in self.strange)]
        return [one_line(str(self.directory / each)) for each in found]

    def apply(self) -> None:
        """Write and remove the files. Raise UsageError if the file system refuses."""
        try:
            for artifact in self.written:
                write_output(str(self.directory / artifact.name), artifact.content, mode=artifact.mode)
            for name in self.removed:
                self._remove_artifact(name)
        except OSError as error:
            raise UsageError(f"cannot write {self.directory}: {error}") from error

    def _remove_artifact(self, name: str) -> None:
        path = self.directory / name
        path.unlink(missing_ok=True)
        for parent in path.relative_to(self.directory).parents:
            if parent.name and not any((self.directory / parent).iterdir()):
                (self.directory / parent).rmdir()


def changes(rendered: Rendered, directory: Path) -> Changes:
    """The differences of a directory from the rendered artifacts. Raise UsageError for a symbolic link."""
    digests = {artifact.name: artifact.digest for artifact in rendered.artifacts}
    document = {"method": rendered.method, "artifacts": digests}
    manifest = json_artifact(MANIFEST, document, "digests of the artifacts")
    files = [*rendered.artifacts, manifest]
    there = dict(_read_files(directory))
    expected = {each.name for each in files}
    ours = _recorded_digests(there.get(MANIFEST, b""))
    extra = sorted(there.keys() - expected)
    removed = tuple(name for name in extra if ours.get(name) == _sha256_digest(there[name]))
    return Changes(
        directory,
        tuple(
            each for each in files if there.get(each.name) != each.content or _has_wrong_mode(directory, each)
        ),
        removed,
        tuple(name for name in extra if name not in removed),
    )


def stray_entries(out: Path, methods: Collection[str]) -> list[str]:
    """Entries beside the directories of methods, which might contain a launcher that nothing compares.

    Files that `init` and `render` write there do not count.
    """
    names = sorted(os.listdir(out)) if out.is_dir() else []  # noqa: PTH208 - names are compared
    extra = (name for name in names if name not in methods and not _written_beside(out / name))
    return [one_line(f"{out / name} (not ours)") for name in extra]


def _written_beside(path: Path) -> bool:
    return path.name in _BESIDE and path.is_file() and not path.is_symlink()


def content(path: Path) -> bytes:
    """The content of a file; empty without one. Raise UsageError for a file larger than any artifact."""
    try:
        found = read_start(path, size=MOST_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"cannot read {one_line(str(path))}: {error.strerror}") from error
    if len(found) > MOST_BYTES:
        raise UsageError(f"{one_line(str(path))} is larger than {MOST_BYTES} bytes, and so no artifact")
    return found


def _read_files(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The files below a directory by name."""
    for parent in (directory, directory.parent):
        if parent.is_symlink():
            raise UsageError(f"{parent} is a symbolic link: artifacts are not written through one")
    remaining = MOST_BYTES
    for folder, names, files in os.walk(directory, onerror=_refuse_unreadable):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UsageError(
                    f"{one_line(str(path))} is no plain file: artifacts are not written beside it"
                )
            if stat.S_ISREG(mode):
                found = content(path)
                remaining -= len(found)
                if remaining < 0:
                    raise UsageError(f"{directory} holds more than {MOST_BYTES} bytes, and so no artifacts")
                yield path.relative_to(directory).as_posix(), found


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise UsageError(f"cannot read {one_line(str(error.filename))}: {error.strerror}") from error


def _has_wrong_mode(directory: Path, artifact: Artifact) -> bool:
    """Whether a file's executable bit is wrong."""
    path = directory / artifact.name
    return path.exists() and bool(path.stat().st_mode & stat.S_IXUSR) is not artifact.executable


def rendered_method(directory: Path) -> str:
    """The method that a directory's manifest names; empty without a manifest of ours."""
    try:
        found = strictjson.loads(read_start(directory / MANIFEST, size=MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    ours = isinstance(found, dict) and found.keys() == {"method", "artifacts"}
    return str(found["method"]) if ours and found["method"] in registry.names() else ""


def _recorded_digests(manifest: bytes) -> Mapping[str, str]:
    """The digests of an earlier manifest; none when it is no manifest."""
    try:
        found = strictjson.loads(manifest)["artifacts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}


def _sha256_digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
