"""Finds the data that ships with the package: `images/`, `oci/`, `seatbelt/`, `seccomp/`.

In a wheel it lies under `sandwright/data/`; in a checkout (editable installs too) it is the directory of that
name beside `builder/`. `importlib.resources` can't see the second.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

from sandwright.documents import strictjson

Room = Literal["images", "oci", "seatbelt", "seccomp"]

_PACKAGE = Path(__file__).resolve().parent


def data_path(room: Room, *parts: str) -> Path:
    """The path of a shipped file or directory. Raise FileNotFoundError when this install doesn't have it."""
    for base in (_PACKAGE / "data", _PACKAGE.parent.parent):
        candidate = base.joinpath(room, *parts)
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"sandwright was installed without {'/'.join((room, *parts))}")


def in_checkout() -> bool:
    """Whether the package is that of a checkout (also as an editable install), not of a wheel."""
    return not (_PACKAGE / "data").is_dir()


def data_json(room: Room, *parts: str) -> Any:  # noqa: ANN401 - any JSON value
    """The content of a shipped JSON file."""
    return strictjson.loads(data_path(room, *parts).read_bytes())


@functools.cache
def shipped_images() -> frozenset[str]:
    """The names of the images whose definitions ship, with those that are built only when named."""
    images = data_path("images")
    found = (*images.glob("*/image.yaml"), *images.glob("more/*/image.yaml"))
    return frozenset(path.parent.name for path in found)
