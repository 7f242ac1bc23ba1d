"""The run document: one run's arguments for the launcher, besides the launch plan that holds for all runs.

`launch --run DESCRIPTOR COMMAND …` reads it from memory: its content is neither in the environment, which
programs would inherit, nor in arguments, which other users see. Its form is that of a launch plan;
`source/run_fields.h` has the same table.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.launcher.plan import Words, document_bytes

HEAD = ("sandwright-run", "1")


@dataclass(frozen=True, kw_only=True)
class RunDocument:
    """Each field of `run_fields.h`, in its order; that file explains each of them."""

    post_run: Words = ()
    denials: str | None = None
    journal: str | None = None
    record: str | None = None
    record_calls: Words = ()
    record_uses: bool = False
    egress: str | None = None
    authorities: str | None = None
    shims: str | None = None
    channel: int | None = None
    started: int | None = None
    requests: str | None = None
    cidfile: str | None = None
    variables: Words = ()
    workspace: Words = ()
    mcp: bool = False


def run_document_bytes(document: RunDocument) -> bytes:
    """The document as it is written. Raise RenderError for NUL in a word."""
    return document_bytes(document, HEAD)


def workspace_words(copies: Mapping[str, str]) -> Words:
    """The words of `workspace`: each project and its copy, with DEVICE:INODE behind each path.

    `copies` has the copy by project; without one there are no words. Raise OSError for a missing directory.
    """
    status = {path: Path(path).lstat() for pair in copies.items() for path in pair}
    return tuple(word for path, of in status.items() for word in (path, f"{of.st_dev}:{of.st_ino}"))


def open_run_document(document: RunDocument) -> int:
    """A descriptor of the document, for any number of launchers. It is closed when we execute a program."""
    file = os.memfd_create("run", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as opened:
        opened.write(run_document_bytes(document))
    return file


@contextlib.contextmanager
def handed_over(document: RunDocument) -> Iterator[int]:
    """A descriptor of the document for the length of a `with`, to be inherited by launchers."""
    file = open_run_document(document)
    try:
        yield file
    finally:
        os.close(file)


def with_document(argv: Sequence[str], descriptor: int) -> list[str]:
    """The words that start a launcher with a document."""
    return [argv[0], "--run", str(descriptor), *argv[1:]]
