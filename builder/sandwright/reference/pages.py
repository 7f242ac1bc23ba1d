"""Fills the generated parts of the pages in a directory, or lists the pages that differ from the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandwright.errors import HostError
from sandwright.reference import methods, policy, variables
from sandwright.reference.markdown import fill_generated, parts
from sandwright.rootfs.unpacking.store import write_atomically


def texts() -> dict[str, str]:
    """The parts about methods, policies and variables, by the name that pages use for them."""
    return {**methods.texts(), **policy.texts(), **variables.texts()}


def stale(directory: Path, generated: Mapping[str, str]) -> dict[Path, str]:
    """The pages below a directory that differ from their generated text, with that text.

    Raise DocumentError for a page with a part that is not generated, or has no end.
    """
    found = {}
    for path in sorted(directory.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        if parts(page):
            new = fill_generated(page, generated, file=str(path))
            if new != page:
                found[path] = new
    return found


def write(pages: Mapping[Path, str]) -> None:
    """Write pages. Raise HostError where that is not possible."""
    for path, text in pages.items():
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, text.encode())
        except OSError as error:
            raise HostError(f"cannot write {path}: {error.strerror}") from error
