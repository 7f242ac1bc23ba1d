"""Layouts and definitions with a pipe or a device in place of a file: no command waits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright import process
from sandwright.check.documents import check_layout
from sandwright.check.structure import read_tests
from sandwright.errors import ArchiveRefused, DocumentError, HostError, IntegrityError, LockError, UsageError
from sandwright.image.definition import load_definition
from sandwright.image.existing import read_layout
from sandwright.image.layout import LAYOUT_FILE
from sandwright.image.lockfile import read_file
from sandwright.rootfs.images.source import open_image
from sandwright.verify.foreign.claims import read_promises
from support import layouts, tars

PLACES = ("oci-layout", "index.json", "manifest")


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


STRANGE: dict[str, Callable[[Path], None]] = {"a pipe": os.mkfifo, "a device": _zero}


def layout(folder: Path, place: str, strange: Callable[[Path], None]) -> Path:
    """A layout of one image in which the file `place` is replaced by another kind of file."""
    made = layouts.Layout(folder)
    image = made.image(tars.archive(tars.file(b"f", b"1")))
    path = made.index(image)
    name = "blobs/sha256/" + image["digest"].removeprefix("sha256:") if place == "manifest" else place
    (path / name).unlink()
    strange(path / name)
    return path


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("place", PLACES)
def test_a_layout_is_refused_by_every_reader(
    place: str, strange: Callable[[Path], None], tmp_path: Path
) -> None:
    path = layout(tmp_path / "layout", place, strange)
    with pytest.raises(ArchiveRefused, match="is not a regular file"):
        open_image(path)
    with pytest.raises(IntegrityError, match="not a whole image layout"):
        read_layout(path)
    if place != "oci-layout":
        assert "layout/blob" in {each.rule for each in check_layout(path)}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_check_image_ends(strange: Callable[[Path], None], tmp_path: Path) -> None:
    """The check used to block forever, or to fill the memory for a device; `bundle` refused at once."""
    path = layout(tmp_path / "layout", "index.json", strange)
    (path / "oci-layout").write_bytes(LAYOUT_FILE)
    task = (sys.executable, "-c", "from sandwright.cli import main; main()", "lint-image", path)
    ended = process.run(*task, check=False, timeout=60)
    assert "index.json is not a regular file" in ended.stderr


def test_a_document_that_is_said_to_be_endless(tmp_path: Path) -> None:
    """A sparse file of a terabyte is not read as a manifest."""
    made = layouts.Layout(tmp_path / "layout")
    image = made.image(tars.archive(tars.file(b"f", b"1")))
    blob = tmp_path / "layout/blobs/sha256" / ("0" * 64)
    blob.touch()
    os.truncate(blob, 1 << 40)
    path = made.index(image, {**image, "digest": f"sha256:{blob.name}", "size": 1 << 40})
    found = [(each.where, each.message) for each in check_layout(path)]
    assert [each for each in found if "more than are read of it" in each[1]]


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_definitions_and_locks_are_refused(strange: Callable[[Path], None], tmp_path: Path) -> None:
    for name in ("image.yaml", "lock.json"):
        strange(tmp_path / name)
    with pytest.raises(DocumentError, match="not a regular file"):
        load_definition(tmp_path)
    with pytest.raises(LockError, match="not a regular file"):
        read_file(tmp_path)


def test_a_file_without_an_end_that_a_person_names(tmp_path: Path) -> None:
    _zero(tmp_path / "tests.yaml")
    with pytest.raises(UsageError, match="is longer than"):
        read_tests(tmp_path / "tests.yaml")
    with pytest.raises(UsageError, match="is longer than"):
        read_promises(str(tmp_path / "tests.yaml"))


def test_an_archive_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "image.tar")
    with pytest.raises((UsageError, HostError), match="not a file or directory"):
        open_image(tmp_path / "image.tar")
