"""Completion scripts: the shells themselves load them, and show their completions."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.completion import SCRIPTS
from sandwright.cli.tasks import namespace
from support.standby import COMMAND as SANDWRIGHT

WAIT = 60.0

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo "files"; }
_sandwright
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _script(folder: Path, shell: str) -> Path:
    path = folder / f"sandwright.{shell}"
    path.write_text(SCRIPTS[shell](COMMANDS))
    return path


def _bash(folder: Path, *words: str) -> list[str]:
    argv = ("bash", "--norc", "-c", BASH, "bash", str(_script(folder, "bash")), "sandwright", *words)
    return process.run(*argv, timeout=WAIT).text.split()


def _fish(folder: Path, line: str) -> list[str]:
    command = f"source {_script(folder, 'fish')}; complete -C '{line}'"
    found = process.run("fish", "--no-config", "-c", command, timeout=WAIT, cwd=folder).text
    return [each.partition("\t")[0] for each in found.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ren"], ["render"]),
        (["lock"], ["lock-diff", "lock-images"]),
        (["render", "--ch"], ["--check"]),
        (["cleanup", "--dry"], ["--dry-run"]),
        (["render", "--method", "bw"], ["bwrap"]),
        (["render", "--method", "=", "do"], ["docker"]),
        (["verify", "--require", "pod"], ["podman"]),
        (["explain", "wr"], ["write"]),
        (["completion", "z"], ["zsh"]),
        (["completion", "z", "-"], ["--help"]),
        (["render", "--policy", "x"], ["files"]),
        (["lint", "x"], ["files"]),
        (["run", "--", "--ch"], ["files"]),
        (["no-such-task", "--x"], []),
    ],
    ids=lambda value: " ".join(value) if value else "nothing",
)
def test_bash_offers(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert sorted(_bash(tmp_path, *words)) == offered


@pytest.mark.needs("fish")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sandwright lock", ["lock-diff", "lock-images"]),
        ("sandwright render --che", ["--check"]),
        ("sandwright render --method bw", ["bwrap"]),
        ("sandwright schema p", ["policy"]),
        ("sandwright cleanup --dry", ["--dry-run"]),
        ("sandwright lint sandwright.f", ["sandwright.fish"]),
    ],
)
def test_fish_offers(tmp_path: Path, line: str, offered: list[str]) -> None:
    assert _fish(tmp_path, line) == offered


@pytest.mark.needs("zsh")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("sandwright rend", "sandwright render "),
        ("sandwright render --che", "sandwright render --check"),
        ("sandwright render --method=bw", "sandwright render --method=bwrap"),
        ("sandwright completion z", "sandwright completion zsh"),
    ],
)
def test_zsh_completes(tmp_path: Path, line: str, completed: str) -> None:
    _zsh(
        tmp_path, f"autoload -Uz compinit; compinit -u -D; source {_script(tmp_path, 'zsh')}", line, completed
    )


@pytest.mark.needs("zsh")
def test_zsh_completes_from_its_function_path(tmp_path: Path) -> None:
    folder = tmp_path / "functions"
    folder.mkdir()
    _script(tmp_path, "zsh").rename(folder / "_sandwright")
    setup = f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D"
    _zsh(tmp_path, setup, "sandwright rend", "sandwright render ")
    _zsh(tmp_path, setup, "sandwright render --che", "sandwright render --check")


def _zsh(folder: Path, setup: str, line: str, completed: str) -> None:
    """Press the tab key after a line, and return the completed line."""
    controller, terminal = pty.openpty()
    environ = {"TERM": "dumb", "HOME": str(folder), "PATH": os.environ["PATH"]}
    show = 'show() { BUFFER="got:$BUFFER:"; zle accept-line }; zle -N show; bindkey "^X" show'
    with subprocess.Popen(
        ["zsh", "-f", "-i"], env=environ, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal
    ) as shell:
        os.close(terminal)
        said = _Said(controller)
        os.write(controller, f"PS1=; {setup}; {show}; echo rea''dy\n".encode())
        try:
            said.until("ready\r\n")
            os.write(controller, f"{line}\t\x18".encode())
            said.until(f"got:{completed}")
        finally:
            shell.kill()
    os.close(controller)


class _Said:
    """The output of a terminal so far."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.text = ""

    def until(self, wanted: str) -> None:
        until = time.monotonic() + WAIT
        while wanted not in self.text:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, until - time.monotonic()))
            assert ready, self.text
            self.text += os.read(self.descriptor, 4096).decode(errors="replace")


def test_every_command_and_option_is_in_every_script() -> None:
    for shell, make in SCRIPTS.items():
        text = make(COMMANDS)
        for command in COMMANDS:
            assert command.name in text, shell
            assert all(option.flag.lstrip("-") in text for option in command.options), shell
    assert "--no-smoke" in SCRIPTS["bash"](COMMANDS)


def test_a_text_cannot_break_out_of_a_script(tmp_path: Path) -> None:
    """Help texts hold quotes, brackets and colons."""
    about = 'it\'s `id` $(id) "x" [a]: \\ b'
    commands = [Command("odd", "every day", about, options=(Option("flag", "", about),), example="")]
    for shell, make in SCRIPTS.items():
        path = tmp_path / shell
        path.write_text(make(commands))
        if process.find(shell):
            process.run(shell, "--no-execute" if shell == "fish" else "-n", path, timeout=WAIT)


def test_printing_it_imports_little(tmp_path: Path) -> None:
    """A shell reads the script at each start."""
    code = "import sys; from sandwright.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    ended = process.run(sys.executable, "-P", "-c", code, "completion", "zsh", timeout=WAIT, cwd=tmp_path)
    assert {"invoke", "rich", "yaml"}.isdisjoint(ended.stderr.split())


def test_the_command_prints_it_and_refuses_other_shells(tmp_path: Path) -> None:
    printed = process.run(*SANDWRIGHT, "completion", "bash", timeout=WAIT, cwd=tmp_path)
    assert printed.text.strip() == SCRIPTS["bash"](COMMANDS).strip()
    refused = process.run(*SANDWRIGHT, "completion", "ksh", timeout=WAIT, cwd=tmp_path, check=False)
    assert (refused.status, refused.stderr.strip()) == (
        64,
        "sandwright: completion: no shell 'ksh'; did you mean 'zsh'?",
    )


def test_no_option_takes_the_short_name_of_help() -> None:
    """No option gets a short name by chance: after a later change, another option would have it."""
    short = {
        name
        for task in namespace.tasks.values()
        for argument in task.get_arguments()
        for name in argument.names
        if len(name) == 1
    }
    assert short == {"D"}
