"""Fixtures of proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.verify.prove import Weaken
from support.proving import Prove, red
from support.small_image import host, listening, small_image

__all__ = ["host", "listening", "prove_with", "small_image"]


@pytest.fixture
def prove_with(tmp_path: Path) -> Prove:
    """Proves a method with a policy."""

    def proved(method: str, text: str, weaken: Weaken | None = None, *, runs: bool = False) -> dict[str, str]:
        return red(method, text, tmp_path / "project", weaken, runs=runs)

    return proved
