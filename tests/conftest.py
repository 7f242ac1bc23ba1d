"""What every test has: required tools, and a check that nothing is left behind."""

from __future__ import annotations

import os

import pytest

from sandwright import process

REQUIRED = frozenset(os.environ.get("SANDWRIGHT_REQUIRE", "").split(","))
"""Tools whose absence is a failure instead of a skip; `all` means each that a test names. CI sets it."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            if process.find(tool) is not None:
                continue
            if tool in REQUIRED or "all" in REQUIRED:
                pytest.fail(f"{tool} is required here and not installed")
            pytest.skip(f"{tool} is not installed")
