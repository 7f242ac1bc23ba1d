"""Empty images, which trials of an engine load and remove, several trials at once."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandwright import process
from sandwright.engines.archive import empty_image
from sandwright.engines.client import EngineClient


@pytest.mark.needs("podman")
def test_many_at_once_leave_none() -> None:
    """Podman stores equal images once, and loses count of their names while some load and others remove."""
    purpose = f"test-{uuid.uuid4().hex[:8]}"

    def one(_: int) -> int:
        with empty_image(EngineClient("podman"), "linux/amd64", purpose=purpose) as reference:
            return process.run("podman", "image", "exists", reference, timeout=60).status

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(32))) == [0] * 32
    listed = process.run("podman", "images", "--format", "{{.Repository}}", timeout=60).text
    assert [line for line in listed.splitlines() if purpose in line] == []
