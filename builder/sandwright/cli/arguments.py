"""Decoders of options that several commands have: files, built images, lists of names, a date."""

from __future__ import annotations

import os
from pathlib import Path

from sandwright.environment import BUILD
from sandwright.errors import UsageError
from sandwright.policy.trusted import default_build
from sandwright.reading import open_named
from sandwright.resources import in_checkout

MAX_BYTES = 16 << 20
"""The bytes of a profile that are read at most; the largest real one is a hundredth of that."""


def read_file(file: str) -> bytes:
    """The bytes of a file from the command line. Raise UsageError when it can't be read, or is too large."""
    try:
        with open_named(file) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{file} is larger than {MAX_BYTES >> 20} MiB")
    return data


def build_directory(output: str) -> Path:
    """`--output`, else SANDWRIGHT_BUILD, else `build`; for a wheel the user's data directory."""
    named = output or os.environ.get(BUILD.name)
    return Path(named) if named else Path("build") if in_checkout() else default_build()


def image_path(image: str, output: Path, *, kind: str = "file or directory") -> Path:
    """The path of a built image by its name, or the given path.

    Raise UsageError where there is neither; `kind` describes the expected file.
    """
    built = output / "images" / image
    path = built if "/" not in image and built.is_dir() else Path(image)
    if not path.exists():
        raise UsageError(f"there is no image '{image}': neither {built} nor a {kind} of that name")
    return path


def names(text: str, option: str) -> list[str]:
    """The names between the commas of an option's value, each once; none for an empty one.

    Raise UsageError where a value has no name in it: the option would be ignored.
    """
    found = [each.strip() for each in text.split(",") if each.strip()]
    if text and not found:
        raise UsageError(f"{option} {text!r} names nothing")
    return list(dict.fromkeys(found))


def source_date_epoch() -> int | None:
    """SOURCE_DATE_EPOCH, as reproducible-builds.org specifies it."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not text.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH is {text!r}, not a whole number of seconds")
    return int(text)
