"""The keys and values of a document that a reader knows: the effect of any other is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.documents.document import Document, Path


@dataclass(frozen=True)
class OneOf:
    """Exactly one of several values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Each:
    """A list whose items all have one shape."""

    shape: Shape


Shape = Mapping[str, "Shape"] | OneOf | Each | None
"""The keys of an object, each with the shape of its value; None for any value."""


def keys(*names: str) -> dict[str, Shape]:
    """A shape with these keys, each of which can have any value."""
    return dict.fromkeys(names)


def check_shape(document: Document, shape: Shape, value: Any, at: Path = ()) -> None:  # noqa: ANN401 - JSON
    """Raise DocumentError for each key and value of a part of a document that its shape does not have."""
    document.refuse(
        (path, "is unknown: the artifact is not used") for path in _unknown_keys(shape, value, at)
    )


def _unknown_keys(shape: Shape, value: Any, at: Path) -> Iterator[Path]:  # noqa: ANN401 - JSON
    match shape:
        case None:
            return
        case OneOf(values):
            if not any(type(each) is type(value) and each == value for each in values):
                yield at
        case Each(item) if isinstance(value, list):
            for index, each in enumerate(value):
                yield from _unknown_keys(item, each, (*at, index))
        case Mapping() if isinstance(value, dict):
            for key, each in value.items():
                if key in shape:
                    yield from _unknown_keys(shape[key], each, (*at, key))
                else:
                    yield (*at, key)
        case _:
            yield at
