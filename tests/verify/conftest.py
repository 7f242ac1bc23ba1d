"""Fixtures of proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving import Prove, red
from sandwright.verify.program import own_platform, probe_program
from sandwright.verify.prove import Weaken
from small_image import host, listening, small_image

__all__ = ["host", "listening", "program", "prove_with", "small_image"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe program."""
    return probe_program(own_platform(), tmp_path_factory.mktemp("cache"))


@pytest.fixture
def prove_with(program: Path, tmp_path: Path) -> Prove:
    """Proves a method with a policy."""

    def proved(method: str, text: str, weaken: Weaken | None = None, *, runs: bool = False) -> dict[str, str]:
        return red(method, text, tmp_path / "project", program, weaken, runs=runs)

    return proved
