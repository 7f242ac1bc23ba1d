"""JSON without importing `json`: that takes longer than all else that `sandwright run` does at its start.

The C parts of `json` do the work, which CPython 3.11 to 3.14 have. `json` itself is asked where they are
missing, or a text is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Strict:
    """What `json.JSONDecoder` tells the C scanner by default."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def loads(text: bytes) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a text, which is UTF-8. Raise ValueError when it is no JSON."""
    try:
        from _json import make_scanner  # noqa: PLC0415

        stripped = text.decode().strip()
        value, end = make_scanner(_Strict)(stripped, 0)  # type: ignore[arg-type]  # it has the attributes
        if end == len(stripped):
            return value
    except Exception:  # noqa: BLE001, S110 - whatever it is, the other way finds it again
        pass
    import json  # noqa: PLC0415

    return json.loads(text)


def dumps(value: object) -> bytes:
    """The text of a value, in ASCII; characters that stand for bytes (surrogates) are kept, too."""
    try:
        from _json import encode_basestring_ascii, make_encoder  # noqa: PLC0415

        encode = make_encoder(None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)  # type: ignore[arg-type]
        return "".join(encode(value, 0)).encode()
    except Exception:  # noqa: BLE001, S110
        pass
    import json  # noqa: PLC0415

    return json.dumps(value).encode()
