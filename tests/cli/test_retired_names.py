"""Names of commands and options of the last release work, with one line that gives the new name.

Tests of cli/commands/everyday.py: retired options.
Tests of cli/parsing.py: retired options.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.help import page
from sandwright.cli.parsing import find, parse
from sandwright.cli.program import main

BIN = Path(sys.executable).parent
OPTIONS = [(each, option, name) for each in COMMANDS for option in each.options for name in option.retired]
RETIRED = [(each, name) for each in COMMANDS for name in each.retired]


@pytest.mark.parametrize(("command", "option", "name"), OPTIONS, ids=lambda each: getattr(each, "name", each))
def test_an_option(command: Command, option: Option, name: str) -> None:
    words = [f"--{name}=value"] if option.metavar else [f"--{name}"]
    parsed = parse(command, words)
    assert parsed.values == {option.keyword: "value" if option.metavar else True}
    assert parsed.warnings == [f"`--{name}` is now `{option.flag}`; the old name works for one more release"]
    assert parse(command, [words[0].replace(name, option.name)]).warnings == []


@pytest.mark.parametrize(("command", "name"), RETIRED, ids=lambda each: getattr(each, "name", each))
def test_a_command(command: Command, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert find(name) is command
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.out == page(command)
    assert shown.err == (
        f"sandwright: `{name}` is now `{command.name}`; the old name works for one more release\n"
    )


def test_there_are_some() -> None:
    assert len(OPTIONS) > 10
    assert {name for _, name in RETIRED} >= {"check-image", "prove", "prove-mapping", "audit"}


def test_no_name_is_used_twice() -> None:
    names = [name for each in COMMANDS for name in (each.name, *each.retired)]
    assert len(names) == len(set(names))
    for command in COMMANDS:
        known = [name for each in command.arguments for name in (each.name, *each.retired)]
        assert len(known) == len(set(known)), command.name


def test_a_task_of_invoke(tmp_path: Path) -> None:
    """The task is called by its former name and with a former option, as in existing pipelines."""
    (tmp_path / "tasks.py").write_text("from sandwright.cli.tasks import namespace\n")
    ended = process.run(BIN / "invoke", "check-image", "nothing", cwd=tmp_path, check=False)
    assert "`check-image` is now `lint-image`" in ended.stderr
    ended = process.run(BIN / "invoke", "pull-image", "--logins", "none", "x", cwd=tmp_path, check=False)
    assert "`--logins` is now `--authfile`" in ended.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_each_command_shows_an_example(command: Command) -> None:
    """The example is a command line of that command, and the parser accepts it."""
    assert page(command).endswith(f"Example:\n  {command.example}\n")
    first = re.split(r" >|;", command.example)[0].split()
    assert first[:2] == ["sandwright", command.name]
    parse(command, first[2:])
