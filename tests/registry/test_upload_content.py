"""The content of an upload is hashed once, even if its parts are split differently for a second try."""

from __future__ import annotations

import io
import os
from itertools import islice

import pytest

from sandwright.errors import IntegrityError
from sandwright.registry import upload
from sandwright.registry.failure import RegistryOperation
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.transport import Transport

SIZE = 5 * upload._PIECE + 7


@pytest.mark.parametrize("again", [0, 1, upload._PIECE // 2, upload._PIECE - 1, upload._PIECE])
@pytest.mark.parametrize("change", [False, True])
def test_another_attempt_may_begin_within_a_piece(again: int, *, change: bool) -> None:
    content = os.urandom(SIZE)
    described = sha256_descriptor("application/octet-stream", content[::-1] if change else content)
    operation = RegistryOperation("registry", "repository", "blob")
    sent = upload._Content(lambda: io.BytesIO(content), described, operation, Transport(RegistrySettings()))
    list(islice(sent.read(0, SIZE), 1))  # the registry refused the first request after one piece
    if change:
        with pytest.raises(IntegrityError, match="the content to be sent has the digest"):
            list(sent.read(again, SIZE))
        return
    assert b"".join(sent.read(again, SIZE)) == content[again:]
    sent.settle(whole=True)
