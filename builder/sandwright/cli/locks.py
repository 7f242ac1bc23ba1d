"""The task that shows what new locks change: `sandwright lock-diff`."""

from __future__ import annotations

from pathlib import Path

from sandwright.cli import console


def lock_diff(*, before: str, images: str = "images") -> None:
    """Print what the locks of images change, package by package, in Markdown."""
    from sandwright.image.lockdiff import lock_differences, markdown  # noqa: PLC0415

    console.write(markdown(lock_differences(Path(before), Path(images))))
