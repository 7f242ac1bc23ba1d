"""The task that shows what new locks change: `sandwright lock-diff`."""

from __future__ import annotations

from pathlib import Path

from invoke.context import Context

from sandwright.cli import console
from sandwright.cli.command import command


@command(
    help={
        "before": "the directory of images as it was, such as another checkout's images/",
        "images": "the directory of images as it is (absent: images)",
    },
    positional=["before"],
)
def lock_diff(c: Context, before: str, *, images: str = "images") -> None:  # noqa: ARG001
    """Print what the locks of images change, package by package, in Markdown."""
    from sandwright.image.lockdiff import lock_differences, markdown  # noqa: PLC0415

    console.write(markdown(lock_differences(Path(before), Path(images))))
