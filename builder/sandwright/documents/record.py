"""The codec of our own records: a dataclass as one JSON text, and back.

`documents.model` describes the supported dataclasses. Names of files may hold half characters, which
stand for their bytes (PEP 383).
"""

from __future__ import annotations

from typing import TypeVar

from sandwright.documents import strictjson
from sandwright.documents.decode import decode
from sandwright.documents.document import Value, without_positions
from sandwright.documents.model import plain
from sandwright.errors import DocumentError

T = TypeVar("T")


def encode_record(record: object) -> bytes:
    """The text, without a line break."""
    return strictjson.dumps(plain(record))


def decode_record(model: type[T], raw: bytes | str) -> T:
    """Decode the output of `encode_record`. Raise ValueError for anything else, such as an extra key."""
    return record_of(model, strictjson.loads_record(raw))


def record_of(model: type[T], data: Value) -> T:
    """The record of a JSON value. Raise ValueError as `decode_record` does."""
    try:
        return decode(model, without_positions(data, file="the record"))
    except DocumentError as error:
        raise ValueError(str(error)) from None
