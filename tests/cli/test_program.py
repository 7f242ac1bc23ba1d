"""The command line is read as people write it, and errors become exits with their own codes.

Tests of cli/functions.py.
Tests of cli/parsing.py.
Tests of cli/program.py: exit codes.
Tests of cli/running.py: options of `run`.
"""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import re
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.commands.command import Command
from sandwright.cli.commands.table import COMMANDS, GROUPS
from sandwright.cli.console import size
from sandwright.cli.functions import function_of
from sandwright.cli.parsing import Values, find, parse
from sandwright.cli.program import main
from sandwright.cli.running import request_of
from sandwright.cli.tasks import namespace, task
from support.standby import COMMAND as SANDWRIGHT
from support.waiting import until


@pytest.mark.parametrize("words", [("--help", "lint"), ("lint", "--help"), ("build-images", "-h")])
def test_help_explains_every_option(words: tuple[str, ...]) -> None:
    told = process.run(*SANDWRIGHT, *words, timeout=60).text
    options = [line for line in told.splitlines() if line.startswith("  -")]
    assert options, told
    assert not [line for line in options if not re.search(r"[a-zA-Z]  +[a-zA-Z0-9]", line)], told


PARSED: dict[str, tuple[list[str], Values, list[str]]] = {
    "options": (["lint", "p.sb", "--facts=f", "--"], {"file": ["p.sb"], "facts": "f"}, []),
    "several values": (
        [
            *["sbpl-eval", "p.sb", "file-read-data", "--resource", "path=/a", "vnode-type=DIRECTORY"],
            *["-D", "A=1", "B=2", "-DC=3"],
        ],
        {
            "profile": "p.sb",
            "operation": "file-read-data",
            "resource": ["path=/a", "vnode-type=DIRECTORY"],
            "D": ["A=1", "B=2", "C=3"],
        },
        [],
    ),
    "positional arguments behind options": (
        ["sbpl-eval", "-D", "A=1", "p.sb", "signal"],
        {"D": ["A=1"], "profile": "p.sb", "operation": "signal"},
        [],
    ),
    "negative numbers are no options": (
        ["seccomp-eval", "p.json", "openat", "-100", "0x0", "--arch", "arm64"],
        {"profile": "p.json", "syscall": "openat", "argument": ["-100", "0x0"], "arch": "arm64"},
        [],
    ),
    "programs of a minimal bundle": (
        ["bundle", "debian", "--minimal", "/bin/a", "/bin/b", "--platform", "linux/amd64"],
        {"image": "debian", "minimal": ["/bin/a", "/bin/b"], "platform": "linux/amd64"},
        [],
    ),
    "an image behind programs": (
        ["bundle", "--minimal", "/bin/a", "debian"],
        {"minimal": ["/bin/a"], "image": "debian"},
        [],
    ),
    "a command": (["bundle", "debian", "--", "a", "--help"], {"image": "debian"}, ["a", "--help"]),
    "a command without dashes": (["run", "-p", "x.yaml", "ls", "-l"], {"policy": "x.yaml"}, ["ls", "-l"]),
    "files that look like options": (["lint", "--", "-p.sb"], {"file": ["-p.sb"]}, []),
    "images as words": (["build-images", "a", "b", "--dry-run"], {"name": ["a", "b"], "dry_run": True}, []),
    "images as options": (["build-images", "--name", "a", "--name=b"], {"name": ["a", "b"]}, []),
    "off": (["build-images", "--no-smoke"], {"smoke": False}, []),
    "a positional argument as an option": (["bundle", "--image", "x"], {"image": "x"}, []),
}


@pytest.mark.parametrize(("words", "values", "command"), PARSED.values(), ids=PARSED)
def test_words_are_parsed(words: list[str], values: Values, command: list[str]) -> None:
    parsed = parse(find(words[0]), words[1:])
    assert (parsed.values, parsed.words, parsed.help) == (values, command, False)


@pytest.mark.parametrize(
    "words",
    [["bundle", "x", "-h"], ["lint", "--help"], ["run", "-p", "x", "--help", "--", "ls"]],
    ids=" ".join,
)
def test_help_is_wanted(words: list[str]) -> None:
    assert parse(find(words[0]), words[1:]).help


MISTAKES = {
    "rnu": (64, "there is no command 'rnu'; did you mean 'run'?"),
    "--nope": (64, "there is no command '--nope'; see `sandwright --help`"),
    "verify --metod x": (64, "verify: no option '--metod'; did you mean '--method'?"),
    "verify --method bwarp": (64, "verify: no method 'bwarp'; did you mean 'bwrap'?"),
    "verify --method bwrap,dokcer": (64, "verify: no method 'dokcer'; did you mean 'docker'?"),
    "verify --method": (64, "verify: --method needs a value: --method METHODS"),
    "verify --method --json x": (64, "verify: --method needs a value: --method METHODS"),
    "verify --method --json=x": (64, "verify: --method needs a value: --method METHODS"),
    "render --policy --outer docker": (64, "render: --policy needs a value: --policy FILE"),
    "lint-image --runtime , x": (64, "--runtime ',' names nothing"),
    "verify-mapping --runtime , x": (64, "--runtime ',' names nothing"),
    "render --policy a --policy b": (64, "render: --policy is given twice"),
    "status --xyz": (64, "status: no option '--xyz'; see `sandwright status --help`"),
    "status --json=yes": (64, "status: --json takes no value"),
    "status all": (64, "status: 'all' is an extra argument; usage: sandwright status [OPTIONS]"),
    "schema": (64, "schema: DOCUMENT is missing; usage: sandwright schema DOCUMENT"),
    "schema polisy": (64, "schema: no document 'polisy'; did you mean 'policy'?"),
    "explain raed /x": (64, "explain: no question 'raed'; did you mean 'read'?"),
    "build-images --engine x": (64, "build-images: no engine 'x'; there is docker, podman, buildah"),
    "run -C x -- true": (125, "-C comes before the command: sandwright -C DIR run"),
    "run --polcy x": (125, "run: no option '--polcy'; did you mean '--policy'?"),
    "run -m bwarp ls": (125, "run: no method 'bwarp'; did you mean 'bwrap'?"),
}


@pytest.mark.parametrize(("words", "ended"), MISTAKES.items(), ids=MISTAKES)
def test_mistakes_get_one_line(
    words: str, ended: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, message = ended
    assert main(words.split()) == status
    assert capsys.readouterr() == ("", f"sandwright: {message}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_a_function_takes_what_the_table_says(command: Command) -> None:
    """A function has a parameter for each argument, with a default unless the argument is required."""
    function = request_of if command.name == "run" else function_of(command.name)
    parameters = inspect.signature(function).parameters
    given = {each.keyword for each in command.arguments} | ({"words"} if command.takes_command else set())
    assert set(parameters) == given
    needed = {name for name, each in parameters.items() if each.default is inspect.Parameter.empty}
    assert needed == {each.keyword for each in command.arguments if each.required} | needed & {"words"}
    for each in command.arguments:
        kind = "bool" if not each.metavar else "Sequence" if each.repeatable else "str|Format"
        assert re.match(kind, str(parameters[each.keyword].annotation)), each.name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_a_task_takes_what_the_table_says(command: Command) -> None:
    found = task(command).get_arguments()  # a new one: Invoke removes the help of a task that it reads
    retired = {name for each in command.options for name in each.retired}
    assert {each.names[0] for each in found} == {each.name for each in command.arguments} | retired
    assert [each.names[0] for each in found if each.positional] == [
        each.name for each in command.positional if each.required
    ]
    assert all(each.help for each in found)


def test_the_table_has_each_name_once() -> None:
    names = [each.name for each in COMMANDS]
    retired = [name for each in COMMANDS for name in each.retired]
    assert len(names) == len(set(names)) == len(namespace.tasks) - len(retired)
    for command in COMMANDS:
        flags = [flag for each in command.arguments for flag in (each.flag, each.short) if flag]
        assert len(flags) == len(set(flags)), command.name
        assert command.group in GROUPS


def _sandwright(*words: str, cwd: Path) -> process.Result:
    return process.run(*SANDWRIGHT, *words, cwd=cwd, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(
            ["sbpl-eval", "bad.sb", "signal"],
            2,
            "sandwright: bad.sb:1:13: this list is never closed",
            id="document",
        ),
        pytest.param(
            ["bundle", "nothing"],
            64,
            "sandwright: there is no image 'nothing': "
            "neither build/images/nothing nor a file or directory of that name",
            id="usage",
        ),
        pytest.param(
            ["build-images", "--name", "debain"],
            64,
            "sandwright: there is no image 'debain'; did you mean 'debian'?",
            id="no such image",
        ),
        pytest.param(
            ["setup", "--group", "bild"],
            64,
            "sandwright: no group bild; there are build, smoke, test",
            id="no such group",
        ),
    ],
)
def test_errors_become_exits(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.sb").write_text("(version 1) (allow")
    result = _sandwright(*words, cwd=tmp_path)
    assert (result.status, result.stderr.strip(), result.stdout) == (code, message, b"")


def test_evaluators_answer(tmp_path: Path) -> None:
    (tmp_path / "p.sb").write_text(
        '(version 1)\n(deny default)\n(allow file-read* (subpath (param "TOP")))\n'
    )
    words = ["sbpl-eval", "p.sb", "file-read-data", "--resource", "path=/top/a", "-D", "TOP=/top", "--json"]
    answer = json.loads(_sandwright(*words, cwd=tmp_path).stdout)
    assert (answer["decision"], answer["stage"], answer["line"]) == ("allow", "filtered rule", 3)

    profile, resource = "(version 1)(deny default)", {"path": "/a"}
    question = {"id": "q", "profile": profile, "op": "file-read-data", "resource": resource}
    (tmp_path / "b.jsonl").write_text(json.dumps(question) + "\n")
    batch = _sandwright("sbpl-eval", "--batch", "b.jsonl", cwd=tmp_path)
    assert json.loads(batch.stdout)["decision"] == "deny"

    (tmp_path / "s.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}')
    assert (
        _sandwright("seccomp-eval", "s.json", "ptrace", cwd=tmp_path).text.splitlines()[0] == "SCMP_ACT_ALLOW"
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signals_end_with_their_codes(number: int, code: int, tmp_path: Path) -> None:
    """The command waits for a further question when the signal arrives."""
    real = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
    questions, asking = os.pipe()
    question = {
        "id": "q",
        "profile": "(version 1)(deny default)",
        "op": "file-read-data",
        "resource": {"path": "/a"},
    }
    os.write(asking, json.dumps(question).encode() + b"\n")
    with process.start(*real, "sbpl-eval", "--batch", "-", cwd=tmp_path, stdin=questions) as running:
        until(lambda: fcntl.ioctl(questions, termios.FIONREAD, bytes(4)) == bytes(4), "it reads no question")
        time.sleep(0.2)
        running.send_signal(number)
        assert running.wait(timeout=20) == code
    os.close(questions)
    os.close(asking)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_816_543, "17.8 MB"), (5_000_000_000_000, "5000.0 GB")],
)
def test_sizes_are_read_by_people(count: int, text: str) -> None:
    assert size(count) == text
