"""The list of commands is printed at once: without Invoke, and without a command's imports.

Tests of lazy.py.
"""

from __future__ import annotations

import sys

import pytest

import sandwright
from sandwright import process
from sandwright.cli.commands.table import grouped
from sandwright.cli.help import summary
from sandwright.cli.program import main

MAIN = "from sandwright.cli import main; main()"
PATIENCE = 60


def test_every_command_has_a_line_in_its_group() -> None:
    lines = summary().splitlines()
    width = max(len(each.name) for _, commands in grouped() for each in commands)
    for group, commands in grouped():
        first = lines.index(f"{group.capitalize()}:") + 1
        assert lines[first : first + len(commands)] == [
            f"  {each.name:<{width}}  {each.help}" for each in commands
        ]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",), ("--list",), ("-l",)], ids=" ".join)
def test_help_alone_is_the_summary(words: tuple[str, ...]) -> None:
    told = process.run(sys.executable, "-c", MAIN, *words, timeout=PATIENCE).stdout.decode()
    assert told.startswith("Usage: sandwright COMMAND [OPTIONS]\n")
    assert "\n  build-images " in told
    assert told == summary()


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version(word: str) -> None:
    told = process.run(sys.executable, "-c", MAIN, word, timeout=PATIENCE)
    assert told.stdout.decode() == f"sandwright {sandwright.__version__}\n"


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_nothing_heavy_is_imported(word: str) -> None:
    code = f"{MAIN}; import sys; print(sorted({{n.partition('.')[0] for n in sys.modules}}))"
    told = process.run(sys.executable, "-c", code, word, timeout=PATIENCE).stdout.decode().splitlines()[-1]
    heavy = ("invoke", "rich", "yaml", "jinja2", "docker", "requests")
    assert not [name for name in heavy if f"'{name}'" in told]


def test_help_for_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--help"]) == 0
    page = capsys.readouterr().out
    assert main(["help", "explain"]) == 0
    assert capsys.readouterr().out == page
