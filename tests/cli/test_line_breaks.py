"""No text of a stranger's begins a line of a command's output: CI obeys lines like `::error::`.

Tests of visible.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import sandwright
from sandwright.cli.program import main
from sandwright.errors import CommandFailed, DocumentError, HostError, Problem
from sandwright.visible import message

NAME = "q\n::error::x"
OBEYED = re.compile(r"^\s*(::|##\[)|[\x1b\x07\x9b\u2028\u2029\u202e\u0085]", re.MULTILINE)
COMMANDS = (
    ("lint-image", NAME), ("bundle", NAME), ("verify-audit", NAME), ("-C", NAME, "lint"),
    ("push-image", NAME, "x"),
    ("build-images", "--images", NAME), ("build-images", "--name", NAME), ("sbom", NAME),
    ("export-image", NAME), ("dockerfile", NAME), ("lock-diff", NAME), (NAME,), ("run", f"--{NAME}"),
    ("run", "--policy", NAME, "--", "true"), ("lint", NAME), ("diff", NAME, "y"), ("explain", NAME, "y"),
    ("verify", "--method", NAME), ("render", "--method", NAME), ("seccomp-eval", NAME, "read"),
    ("sbpl-eval", NAME, "file-read-data", "/"), ("pull-image", NAME), ("schema", NAME),
    ("verify-image", NAME, "--key", "k"), ("init", "--method", NAME), ("completion", NAME),
    ("fleet", "--name", NAME, "--remove"),
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace("\n", "."))
def test_names_with_a_line_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) != 0
    out, err = capfd.readouterr()
    assert err, "it says why"
    assert not OBEYED.search(out + err), err


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (HostError("a\n::error::x"), "a\n  | ::error::x"),
        (CommandFailed(["p"], 1, "::error::x\ny"), "p: exit status 1\n  | ::error::x\n  | y"),
        (CommandFailed(["p"], 1, "  | quoted"), "p: exit status 1\n  | quoted"),
        (HostError("a\r::error::x\x85"), "a\\r::error::x\\x85"),
        (
            DocumentError("f\ng", [Problem(1, 2, "a\nb", "m"), Problem(2, 1, "", "n\n::error::x")]),
            "f\\ng:1:2: a\\nb: m\nf\\ng:2:1: n\\n::error::x",
        ),
    ],
    ids=["breaks", "a program's words", "marked already", "other breaks", "a document"],
)
def test_errors_of_several_lines(error: HostError | CommandFailed | DocumentError, shown: str) -> None:
    """Only our own text can begin a line."""
    assert error.shown() == shown


WRITERS = {
    "cli/__init__.py", "cli/console.py", "cli/init.py", "cli/program.py", "sandwright_kubernetes/start.py",
    "visible.py",
    "bridge/server.py",  # a byte for its parent
    "egress/mcp_filter.py",  # a word for its parent
    "session/mcp_streams.py",  # messages, in ASCII
    "verify/smoke/in_image_checks.py",  # in an image
}  # fmt: skip
"""The modules that write to a standard stream; each passes its text through a function of `visible`."""


def test_who_writes_to_a_standard_stream() -> None:
    """A new module that writes has to be reviewed and added to the list."""
    package = Path(sandwright.__file__).parent
    found = set()
    for path in (*package.rglob("*.py"), *package.parent.glob("sandwright_*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _writes(node):
                found.add(str(path.relative_to(package if path.is_relative_to(package) else package.parent)))
    assert found == WRITERS


def _writes(call: ast.Call) -> bool:
    said = ast.unparse(call.func)
    first = ast.unparse(call.args[0]) if call.args else ""
    return said in ("print", "input", "sys.stderr.write", "sys.stdout.write", "sys.stdout.buffer.write") or (
        said == "os.write" and first in ("1", "2")
    )


def test_a_message_of_one_line() -> None:
    assert message("a b") == "a b"
