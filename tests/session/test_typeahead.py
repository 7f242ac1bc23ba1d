"""Text typed during a run on a terminal that the command does not read: its reader afterwards.

Tests of launcher/source/typeahead.c.
"""

from __future__ import annotations

import shlex

import pytest

from session.conftest import Project
from session.terminals import Terminal, terminal

pytestmark = pytest.mark.needs("bwrap")

NEXT = 'while read -r -t 0.5 line; do echo "next<$line>"; done; echo over'
"""The command after the run: it shows each line that it gets from the terminal."""


def _typed(project: Project, script: str, keys: bytes, *, then: bytes = b"") -> tuple[bytes, bytes]:
    """Type when a script prints `up`, and `then` after `again`: the output until its end, and later."""
    run = shlex.join((*project.command, "run", "--", "sh", "-c", script))
    with terminal(
        ["/bin/bash", "-c", f"stty iutf8; {run}; echo ended; {NEXT}; stty -iutf8"],
        project.root,
        project.environ,
    ) as shown:
        shown.read_until(b"up\r\n")
        shown.type(keys)
        if then:
            shown.read_until(b"again\r\n")
            shown.type(then)
        return _both(shown)


def _both(shown: Terminal) -> tuple[bytes, bytes]:
    during, after = shown.read_until(b"ended\r\n"), shown.read_until(b"over\r\n")
    assert shown.end() == 0
    assert shown.settings == shown.before
    return during, after


@pytest.mark.parametrize("mode", ["none", "proxy"])
def test_lines_that_were_not_read_come_back(project: Project, mode: str) -> None:
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nnetwork: {{mode: {mode}}}\n")
    during, after = _typed(project, "echo up; sleep 1", b"one\rtwo words\r")
    assert b"one\r\ntwo words\r\n" in during  # the keys are shown when they are typed, and not again
    assert after == b"next<one>\r\nnext<two words>\r\nover\r\n"


def test_a_line_is_edited_with_the_person_s_keys(project: Project) -> None:
    _, after = _typed(project, "echo up; sleep 1", "\x7fma\x7föx\x7f\x7fke\r\x7fend\r".encode())
    assert after == b"next<mke>\r\nnext<end>\r\nover\r\n"


FOR_THE_COMMAND = {
    "read": ("echo up; read x; sleep 1", b"read\rnot read\r"),
    "escape": ("echo up; sleep 1", b"text\x1b[A\r"),
    "ctrl-c": ("trap : INT; echo up; sleep 1; sleep 1", b"text\x03more\r"),
    "no echo": ("stty -echo; echo up; sleep 1; stty echo", b"password\r"),
    "single keys": ("stty -icanon; echo up; sleep 1; stty icanon", b"keys\r"),
    "another erase": ("stty erase x; echo up; sleep 1; stty erase ^?", b"rm -r x./y\r"),
    "part of a line": ("echo up; head -c 3 >/dev/null; sleep 1", b"abc def\r"),
    "too long": ("echo up; sleep 1", b"x" * 4000 + b"\r" + b"x" * 100 + b"\r"),
}


def test_text_for_the_command_does_not_come_back(project: Project) -> None:
    """A shell of the host would execute it; the first test is the control."""
    for name, (script, keys) in FOR_THE_COMMAND.items():
        assert _typed(project, script, keys)[1] == b"over\r\n", name


def test_text_after_a_prompt_without_echo_does_not_come_back(project: Project) -> None:
    script = "stty -echo; echo up; head -n 1 >/dev/null; stty echo; echo again; sleep 1"
    assert _typed(project, script, b"password\r", then=b"command\r")[1] == b"over\r\n"
