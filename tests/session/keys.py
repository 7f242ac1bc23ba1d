"""The actions of a user at a shell with a command in a sandbox: keys, jobs, windows, pipes.

The shell is a real one with job control, on a separate terminal. Each action is one of `ACTIONS`: it types
and reads, and its failure shows the unexpected output.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from session.terminals import Terminal, terminal

PROMPT = b"<next>"
CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH, UP = b"\x03", b"\x04", b"\x1a", b"\x1c", b"\x1b[A"
SETTING = "PS1='<ne''xt>'; PS2=; unset PROMPT_COMMAND HISTFILE; set +o histexpand; L={launch}\n"


class Shell:
    """An interactive bash; `$L` is the launcher there."""

    def __init__(self, shown: Terminal) -> None:
        self.shown = shown
        self.inner = "sh"
        self.count = 0
        self.ended = ""

    def type(self, keys: bytes | str) -> None:
        self.shown.type(keys.encode() if isinstance(keys, str) else keys)

    def until(self, text: str | bytes) -> str:
        """The output up to a text."""
        wanted = text.encode() if isinstance(text, str) else text
        return self.shown.read_until(wanted).decode(errors="replace")

    def prompt(self) -> str:
        return self.until(PROMPT)

    def status(self) -> str:
        """The status of the last command."""
        self.line("(exit $?)")
        return self.ended

    def line(self, text: str) -> str:
        """Type a line, and return its output up to the next prompt; earlier prompts may be unread."""
        self.count += 1
        self.type(f"{text}; echo li''ne{self.count}=$?=\n")
        self.until(f"ne{self.count}=$?=\r\n")
        said = self.until(f"line{self.count}=").removesuffix(f"line{self.count}=")
        self.ended = self.until("=\r\n").removesuffix("=\r\n")
        self.prompt()
        return said

    def start(self, script: str, *, behind: str = "") -> None:
        """Start a script in the sandbox, and wait until it prints `up`."""
        self.type(f"$L sh -c '{script}' {behind}\n")
        self.until("up\r\n")

    def stopped(self) -> None:
        """Press the suspend key, and read up to the prompt."""
        self.type(CTRL_Z)
        self.until("Stopped")
        self.prompt()


@contextmanager
def shell(
    launcher: Sequence[str | Path], cwd: Path, environ: Mapping[str, str], before: Sequence[str] = ()
) -> Iterator[Shell]:
    """A bash in a directory; `before` has the words in front of it."""
    words = [*before, "/bin/bash", "--norc", "--noprofile", "-i"]
    own = {**environ, "TERM": "dumb", "INPUTRC": "/dev/null", "PS1": "$ "}
    with terminal(words, cwd, own) as shown:
        made = Shell(shown)
        made.type(SETTING.format(launch="'" + " ".join(map(str, launcher)) + "'"))
        made.prompt()
        yield made


def ctrl_c(at: Shell) -> None:
    """It ends a command without a handler; the terminal is unchanged afterwards."""
    at.start('echo u""p; exec sleep 1000')
    at.type(CTRL_C)
    at.prompt()
    assert at.status() == "130"


def ctrl_backslash(at: Shell) -> None:
    """It reaches a command that handles it."""
    at.start('trap "echo g\\"\\"ot; exit 7" QUIT; echo u""p; while :; do sleep 0.1; done')
    at.type(CTRL_BACKSLASH)
    at.until("got")
    at.prompt()
    assert at.status() == "7"


def ctrl_z_and_fg(at: Shell) -> None:
    """It stops the command, twice; the shell goes on; `fg` returns the keys to the command."""
    at.start('echo u""p; read x; echo r""ead:$x; read x; echo r""ead:$x; exit 9')
    at.stopped()
    assert "-icanon" not in at.line("stty -a | grep -o '[-]*icanon'")
    assert "Stopped" in at.line("jobs")
    for text in ("one line", "another"):
        at.type("fg\n")
        at.until("sh -c")
        at.type(f"{text}\n")
        at.until(f"read:{text}\r\n")
        if text == "one line":
            at.stopped()
    at.prompt()
    assert at.status() == "9"


def ctrl_z_and_bg(at: Shell) -> None:
    """In the background it goes on, and its output is shown.

    It starts no process while the key arrives: dash waits in vfork(2) for a stopped child, in a sandbox or
    not.
    """
    at.start('echo u""p; until test -e go; do :; done; echo e""nd')
    at.stopped()
    at.line("bg")
    at.type("touch go\n")
    at.until("end\r\n")
    at.line("wait; rm go")


def in_background(at: Shell) -> None:
    """With `&` it is not stopped, because it uses no terminal; in the foreground it gets the keys."""
    at.start('echo u""p; read x; echo r""ead:$x; exit 9', behind="&")
    assert "Stopped" not in at.line("jobs")
    at.type("fg\n")
    at.until("sh -c")
    at.type("a line\n")
    at.until("read:a line\r\n")
    at.prompt()
    assert at.status() == "9"


def window_size(at: Shell) -> None:
    """It is the size of the window, and follows its changes."""
    at.start('trap "stty size" WINCH; stty size; echo u""p; while :; do sleep 0.1; done')
    at.shown.resize(40, 90)
    at.until("40 90")
    at.shown.resize(31, 117)
    at.until("31 117")
    at.type(CTRL_C)
    at.prompt()


def interactive_shell(at: Shell) -> None:
    """It has job control, line editing, and a history."""
    at.type(f"$L {at.inner}\n")
    at.until(f"$L {at.inner}\r\n")
    at.type("PS1='<in''side>'; unset HISTFILE\n")
    assert "job control" not in at.until("<inside>")
    at.type("echo fo''und\n")
    at.until("found\r\n")
    at.type(UP + b"\n")
    at.until("found\r\n")
    at.until("<inside>")
    at.type('sh -c \'echo r""un; read x; echo g""ot\'\n')
    at.until("run\r\n")
    at.type(CTRL_Z)
    at.until("Stopped")
    at.type("fg\n")
    at.until("sh -c")
    at.type("a line\n")
    at.until("got\r\n")
    at.type("sh -c 'echo r\"\"un; exec sleep 1000'\n")
    at.until("run\r\n")
    at.type(CTRL_C)
    at.type("echo st''atus $?; exit 8\n")
    at.until("status 130")
    at.prompt()
    assert at.status() == "8"


def ends_by_a_signal(at: Shell) -> None:
    """No command ignores signals as process 1 does; none stays a zombie."""
    zombies = 'cat /proc/[0-9]*/stat | grep -c ") Z"'
    at.start(f'echo u""p; (sleep 0 &); sleep 1; {zombies}; exec sleep 1000', behind="&")
    at.until("0\r\n")
    at.line("kill %1; wait %1")
    assert at.ended == "143"


def pipes(at: Shell) -> None:
    """A reader that ends early ends the command; the suspend key stops it together with the others."""
    assert "141 0" in at.line('$L yes | head -n 1; echo "${PIPESTATUS[@]}"')
    at.start('echo u""p; exec sleep 1000', behind="| cat")
    at.stopped()
    at.line("kill %1; fg")


def killed(at: Shell) -> None:
    """However the launcher ends, the shell gets its terminal back."""
    at.start('echo u""p; exec sleep 1000')
    os.killpg(os.tcgetpgrp(at.shown.master), signal.SIGKILL)
    at.until("Killed")
    at.prompt()
    assert "-icanon" not in at.line("stty -a | grep -o '[-]*icanon'")


def in_parallel(at: Shell) -> None:
    """Eight commands on one terminal."""
    at.type("for i in 1 2 3 4 5 6 7 8; do $L sh -c 'echo mo\"\"re' & done; wait; echo al''l\n")
    assert at.until("all\r\n").count("more\r\n") == 8
    at.prompt()


Action = Callable[[Shell], None]
ACTIONS: tuple[Action, ...] = (
    ctrl_c, ctrl_backslash, ctrl_z_and_fg, ctrl_z_and_bg, in_background, window_size, interactive_shell,
    ends_by_a_signal, pipes, killed, in_parallel,
)  # fmt: skip
FEW: tuple[Action, ...] = (ctrl_c, ctrl_z_and_fg, ends_by_a_signal)
"""The actions that find most faults of a method."""
