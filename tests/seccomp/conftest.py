"""Fixtures for the seccomp tests: libseccomp as a judge, and an image in Docker."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
from collections.abc import Iterator

import pytest

from sandwright import process
from support.seccomp_engines import image

REQUIRED = frozenset(os.environ.get("SANDWRIGHT_REQUIRE", "").split(","))


@pytest.fixture(scope="session")
def libseccomp() -> None:
    """The library, through pyseccomp. Skips by name without it; fails where it is required."""
    missing = [
        *([] if ctypes.util.find_library("seccomp") else ["libseccomp"]),
        *([] if importlib.util.find_spec("pyseccomp") else ["pyseccomp"]),
    ]
    if missing:
        fail = {"all", "libseccomp"} & REQUIRED
        (pytest.fail if fail else pytest.skip)(f"{' and '.join(missing)} not installed")


@pytest.fixture(scope="module")
def docker() -> Iterator[str]:
    """The name of an image that Docker has. Skips where no daemon answers; fails where it is required."""
    if not process.run("docker", "version", timeout=30, check=False):
        (pytest.fail if {"all", "docker"} & REQUIRED else pytest.skip)("the Docker daemon does not answer")
    with image("docker") as label:
        yield label
