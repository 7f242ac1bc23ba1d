"""One class for each exit code, and messages with positions.

Tests of errors.py.
"""

from __future__ import annotations

import sandwright.errors
from sandwright.errors import DocumentError, Problem, SandwrightError


def _classes() -> list[type[SandwrightError]]:
    named = vars(sandwright.errors).values()
    return [c for c in named if isinstance(c, type) and issubclass(c, SandwrightError)]


def test_exit_codes_differ_and_mean_failure() -> None:
    codes = [c.exit_code for c in _classes() if "exit_code" in vars(c)]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 125 for code in codes), "125 and above belong to the commands that sessions run"


def test_document_error_lists_all_problems_in_order() -> None:
    error = DocumentError(
        "sandbox.yaml",
        [Problem(12, 5, "filesystem.write[1]", "is not absolute"), Problem(3, 1, "netwrok", "no such key")],
    )
    assert str(error) == (
        "sandbox.yaml:3:1: netwrok: no such key\nsandbox.yaml:12:5: filesystem.write[1]: is not absolute"
    )


def test_problem_of_the_whole_document_has_no_position() -> None:
    assert Problem(0, 0, "", "is empty").render("lock.json") == "lock.json: is empty"
