#!/usr/bin/env python3
"""Record the README's first commands in a terminal and write `terminal.svg` beside this file.

Usage: python docs/pictures/record_terminal.py

The commands run in a new project below a temporary home, by the `sandwright` on PATH. Each line of output
appears in the SVG at the time at which it was printed; a viewer without CSS animation shows all of them.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
WIDTH, LINE, MARGIN, COLUMNS = 760, 19, 16, 92
TYPING = 0.9
"""Seconds that the typing of a command takes."""
PAUSE = 0.8
"""Seconds after a command."""
TIMEOUT = 60

STYLE = """
text { font: 12.6px ui-monospace, Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre }
.prompt { fill: #3fb950 } .denied { fill: #ff7b72 }
@media (prefers-reduced-motion: no-preference) { .line { animation: hidden 0s } }
@keyframes hidden { from, to { opacity: 0 } }
"""


def commands() -> list[str]:
    """The commands of the README's first block of a console."""
    block = re.search(r"^```\n(\$ sandwright run .*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None, "the README shows no run"
    return re.findall(r"^\$ (.*)$", block[1], re.MULTILINE)


def record(command: str, home: Path) -> list[tuple[float, str]]:
    """Run a command in a pseudo-terminal. Return its lines, each with the second at which it was printed."""
    control, terminal = pty.openpty()
    environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "TERM": "dumb"}
    started = time.monotonic()
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=home / "project",
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as child:
        os.close(terminal)
        printed, lines = "", []
        while time.monotonic() - started < TIMEOUT:
            try:
                printed += os.read(control, 4096).decode()
            except OSError:  # EIO: the command has closed the terminal
                break
            *whole, printed = printed.replace("\r\n", "\n").split("\n")
            lines += [(time.monotonic() - started, line) for line in whole]
        child.wait(TIMEOUT)
    os.close(control)
    return [(at, line.replace(str(home), "/home/ada")) for at, line in lines if not is_noise(line)]


def is_noise(line: str) -> bool:
    """Lines that the README leaves out: the notice of the preset, and Python's traceback."""
    return line.startswith(("sandwright: no sandbox.yaml", "Traceback", "  "))


def drawn(rows: list[tuple[float, str]]) -> str:
    """The SVG of rows, each with the second at which it appears."""
    height = MARGIN * 2 + LINE * len(rows) + 22
    lines = []
    for number, (at, text) in enumerate(rows):
        kind = (
            "denied" if re.search(r"denied|Errno|Read-only", text) and not text.startswith("$ ") else "plain"
        )
        visible = escape(text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "…")
        if text.startswith("$ "):
            visible = f'<tspan class="prompt">$</tspan>{visible[1:]}'
        y = MARGIN + 22 + LINE * (number + 1) - 6
        shown_after = f"animation-duration:{at:.2f}s"
        lines.append(f'<text class="line {kind}" x="{MARGIN}" y="{y}" style="{shown_after}">{visible}</text>')
    dots = "".join(
        f'<circle cx="{MARGIN + 5 + 16 * number}" cy="16" r="5" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>Three commands in a sandbox</title>\n<style>{STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#161b22"/>\n{dots}\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def main() -> None:
    """Record the commands and write the picture."""
    rows: list[tuple[float, str]] = []
    now = 0.5
    with tempfile.TemporaryDirectory(prefix="ada-", dir="/var/tmp") as name:
        home = Path(name)
        (home / "run").mkdir(mode=0o700)
        (home / ".git-credentials").write_text("https://ada:token@git.example\n")
        subprocess.run(["git", "init", "-q", home / "project"], check=True, timeout=TIMEOUT)
        for command in commands():
            rows.append((now, f"$ {command}"))
            now += TYPING
            printed = record(command, home)
            rows += [(now + at, line) for at, line in printed]
            now += (printed[-1][0] if printed else 0) + PAUSE
    (HERE / "terminal.svg").write_text(drawn(rows))


if __name__ == "__main__":
    main()
