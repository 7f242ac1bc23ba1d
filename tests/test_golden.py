"""Golden artifacts, byte for byte: each change of a renderer or seccomp profile fails here."""

from __future__ import annotations

import os

import pytest

from sandwright.errors import RenderError
from sandwright.methods.registry import render
from support.goldens import (
    CASES,
    FOLDERS,
    GOLDEN,
    INPUTS,
    NOT_RENDERED,
    case_policy,
    check_golden,
    record_all,
)


@pytest.fixture(scope="module", autouse=True)
def _recorded_first() -> None:
    if os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1":
        record_all()


@pytest.mark.parametrize("folder", FOLDERS)
def test_golden(folder: str) -> None:
    check_golden(folder)


def test_no_file_is_left_over() -> None:
    """`check_golden` examines only the files of its own folder."""
    files = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file()}
    rest = {file for file in files if not file.startswith(tuple(f"{folder}/" for folder in FOLDERS))}
    assert rest == {f"{case}/{name}" for case in CASES for name in INPUTS}


@pytest.mark.parametrize(("case", "method"), NOT_RENDERED)
def test_a_method_refuses_what_it_can_not_enforce(case: str, method: str) -> None:
    with pytest.raises(RenderError, match=NOT_RENDERED[case, method]):
        render(case_policy(case), method)
