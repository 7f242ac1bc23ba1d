"""Records of the modules of a repeated start, as JSON."""

from __future__ import annotations

from typing import Any

from sandwright.documents import strictjson


def loads(text: bytes) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a text, which is UTF-8. Raise ValueError when it is no JSON."""
    return strictjson.loads_record(text)


def dumps(value: object) -> bytes:
    """The text of a value, in ASCII; characters that stand for bytes (surrogates) are kept, too."""
    return strictjson.dumps(value)
