"""Reads JSON strictly: a text means one thing to every program that reads it, or is refused.

Parsers differ on duplicate keys, NaN, numbers out of range and lone surrogates. Go's encoding/json ignores
the case of keys, and the last one wins; it also reads U+017F as an s and U+212A as a k. So one digest could
be two images.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from sandwright.documents.fields import Fields
from sandwright.errors import ArchiveRefused

MAX_BYTES = 16 << 20

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(raw: bytes | str) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a text; bytes are UTF-8.

    Raise ValueError for a duplicate key, NaN, an infinite number, half a character, more than `MAX_BYTES` or
    nesting that is too deep; json.JSONDecodeError for broken syntax.
    """
    value = _parse_strict(raw)
    if _SURROGATE.search(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")):
        _check_whole(value)
    return value


def loads_record(raw: bytes | str) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a record of ours, read as by `loads`.

    Half a character may be in it: it stands for a byte of a file name (PEP 383).
    """
    return _parse_strict(raw)


def dumps(value: object) -> bytes:
    """The text of a record of ours, in ASCII; half characters stand for bytes of file names (PEP 383)."""
    return json.dumps(value).encode()


def loads_lenient(raw: bytes | str) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a text that another program wrote for us: an engine's answer, a server's, a log's line.

    Such a program is trusted, and its next version may repeat a key or write NaN; refusing that would end a
    run without need. Raise ValueError for a text that is not JSON or is nested too deep.
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deep") from None


def parse_json(raw: bytes, where: str, fields: Fields) -> dict[str, Any]:
    """Parse a JSON object as `parse_json_value` does."""
    value = parse_json_value(raw, where, fields)
    if not isinstance(value, dict):
        raise ArchiveRefused(f"{where}: expected an object")
    return value


def parse_json_value(raw: bytes, where: str, fields: Fields) -> object:
    """Parse JSON as `loads` does. Raise ArchiveRefused, with `where`.

    No key is one of `fields`, or another key, but for its case.
    """
    try:
        value: object = loads(raw)
        _check_case(value, fields, "")
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(f"{where}: not valid JSON: {error}") from error
    return value


def fold(key: str) -> str:
    """A key as programs have it that ignore case: Go's encoding/json, json-iterator and such."""
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()


def _check_case(value: object, fields: Fields, path: str) -> None:
    """Raise ValueError for a key that is a field, or another key, to programs that ignore case."""
    if isinstance(value, list):
        for each in value:
            _check_case(each, fields, path)
        return
    if not isinstance(value, dict):
        return
    folded: dict[str, str] = {fold(name): name for name in fields}
    for key, inner in value.items():
        spelled = folded.setdefault(fold(key), key)
        if spelled != key:
            raise ValueError(f"key {path + key[:60]!a} is {spelled[:60]!a} to programs that ignore case")
        if fields.get(key) is not None:
            _check_case(inner, fields[key], f"{path}{key}.")


def _parse_strict(raw: bytes | str) -> Any:  # noqa: ANN401 - as json.loads
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    text = raw.decode() if isinstance(raw, bytes) else raw
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {twice[:60]!r} twice")
    return found


def _check_whole(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a character (a lone surrogate)") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is larger than any number that is kept")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
