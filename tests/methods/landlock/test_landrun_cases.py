"""The cases of landrun's own tests under our landlock, and their table in docs/comparison.md.

The cases are those of test.sh of landrun 0.1.18 (811cfff, MIT), without those of its own options. `THEIRS` is
the script's expectation, ours is the result of a run here. SANDWRIGHT_UPDATE_GOLDEN=1 writes the table.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright.methods import registry
from sandwright.reference.markdown import table
from sandwright.verify.sandbox import materialize, probe_environment
from support import interpreters
from support.proving import resolver
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'"),
    pytest.mark.skipif(not THOROUGH, reason="forty starts: `invoke test --thorough` has time for them"),
]

PAGE = Path(__file__).parents[3] / "docs/comparison.md"
BEGIN, END = (
    "<!-- landrun's cases: tests/methods/landlock/test_landrun_cases.py -->\n",
    "<!-- end of landrun's cases -->",
)
LACKING = ("protect", "protect-elsewhere", "attributes", "readonly", "links", "absent", "absent-elsewhere")
ACCEPTED = ", ".join(
    f"{{feature: {name}, method: landlock, reason: a test}}"
    for name in (*(f"filesystem.{each}" for each in LACKING), "process.kernel", "network.expose")
)
EXECUTED = "readable and writable files are executable"
PORT = "ports are those of the host's loopback"


@dataclass(frozen=True)
class Case:
    """`script` runs in `seen`, of which `read` and `write` name parts. `works` is landrun's expectation."""

    name: str
    script: str
    works: bool
    read: str = "ro"
    write: str = ""
    more: str = ""
    why: str = ""


_PYTHON = f'{interpreters.INSIDE} -c "import socket; socket.'
NEAR = _PYTHON + "create_connection(('127.0.0.1', {}), 20)\""
FAR = _PYTHON + "create_connection(('192.0.2.1', {}), 20)\""
BIND = _PYTHON + "socket().bind(('127.0.0.1', {}))\""
CASES = (
    Case("read in a readable directory", "cat ro/file", works=True),
    Case("read in a directory below it", "cat ro/below/file", works=True),
    Case("write below it where that is granted", "touch ro/writable/new", works=True, write="ro/writable"),
    Case("write a file below it that is granted", "touch ro/file", works=True, write="ro/file"),
    Case("write in a writable directory", "touch rw/new", works=True, write="rw"),
    Case("make a file in a readable directory", "touch ro/new", works=False, write="rw"),
    Case("overwrite a readable file", "echo x >ro/file", works=False),
    Case("truncate a readable file", ": >ro/file", works=False),
    Case("remove a file of a writable directory", "rm rw/file", works=True, write="rw"),
    Case("remove a file of a readable directory", "rm ro/file", works=False),
    Case("execute in an executable directory", "exec/one", works=True, read="exec"),
    Case("execute a file that is granted alone", "exec/one", works=True, read="exec/one"),
    Case("execute another file in its directory", "exec/two", works=False, read="exec/one"),
    Case("execute a file that is only readable", "exec/one", works=False, read="exec", why=EXECUTED),
    Case("execute a readable, writable, executable file", "rw/program", works=True, write="rw"),
    Case("execute a readable and writable file", "rw/program", works=False, write="rw", why=EXECUTED),
    Case("execute a command that no rule names", "exec/one", works=True,
         why="rules must name the command, too"),
    Case("list a directory of the system", "ls /usr", works=True, read="/"),
    Case("list a deep directory", "ls deep/er/most", works=True, read="/, SEEN"),
    Case("read with several grants", "cat deep/er/most/file", works=True, read="ro, SEEN/deep/er/most"),
    Case("list / without a grant", "ls /", works=False, read="exec"),
    Case("start with a rule for a missing file", "cat ro/file", works=False, read="ro, SEEN/none",
         why="it grants nothing, and `run` reports it"),
    Case("start a program that does not exist", "./none", works=False),
    Case("pipe between two programs", "ls /usr | grep -q bin", works=True, read="/"),
    Case("redirect into a writable directory", "ls /usr >rw/out && cat rw/out", works=True, write="rw"),
    Case("see a variable that isn't passed", 'test -n "$GIVEN"', works=False),
    Case("see a variable that is passed", 'test "$GIVEN" = word', works=True,
         more="environment: {pass: [PATH, GIVEN]}"),
    Case("see a variable that is set", 'test "$SET" = word', works=True,
         more="environment: {pass: [PATH], set: {SET: word}}"),
    Case("connect to another machine", FAR.format(443),
         works=False, read="/"),
    Case("connect to another machine at a granted port", FAR.format("PORT"),
         works=True, read="/", more="network: {localhost: [PORT]}", why=f"{PORT}; the proxy reaches others"),
    Case("connect to the loopback at a granted port", NEAR.format("PORT"),
         works=True, read="/", more="network: {localhost: [PORT]}"),
    Case("connect to the loopback at another port", NEAR.format("PORT"),
         works=False, read="/", more="network: {localhost: [9]}"),
    Case("bind a granted port", BIND.format("FREE"),
         works=True, read="/", more="network: {expose: [FREE]}"),
    Case("bind another port", BIND.format("FREE"),
         works=False, read="/", more="network: {expose: [9]}"),
)  # fmt: skip


def _planted(seen: Path) -> None:
    for name in ("ro/below", "ro/writable", "rw", "exec", "deep/er/most"):
        (seen / name).mkdir(parents=True)
    for name in ("ro/file", "ro/below/file", "rw/file", "deep/er/most/file"):
        (seen / name).write_text("content\n")
    for name in ("exec/one", "exec/two", "rw/program"):
        (seen / name).write_text("#!/bin/sh\necho content\n")
        (seen / name).chmod(0o755)


def _works(case: Case, folder: Path, ports: dict[str, str]) -> bool:
    """Whether the script exits with 0."""
    seen, project = folder / "seen", folder / "project"
    shutil.rmtree(seen, ignore_errors=True)
    _planted(seen)

    def named(text: str) -> str:
        return text.replace("SEEN", str(seen)).replace("PORT", ports["PORT"]).replace("FREE", ports["FREE"])

    read = case.read if case.read.startswith("/") else f"SEEN/{case.read}"
    write = f"SEEN/{case.write}" if case.write else ""
    variables = "" if "environment:" in case.more else "environment: {pass: [PATH]}\n"
    text = named(
        f"schema: 1\nmethod: landlock\nextends: []\nfilesystem: {{read: [{read}], write: [{write}]}}\n"
        f"accept_gaps: [{ACCEPTED}]\n{variables}{case.more}\n"
    )
    policy = resolver(text, project)(())
    launcher = materialize(registry.render(policy, "landlock").artifacts, folder / uuid.uuid4().hex)
    ended = subprocess.run(
        [launcher, "/bin/sh", "-c", f"cd {seen} || exit 9; {named(case.script)}"],
        env={**probe_environment(folder / "state"), "GIVEN": "word"},
        capture_output=True,
        timeout=90,
        check=False,
        cwd=project,
    )
    assert ended.returncode != 125, ended.stderr.decode()
    return ended.returncode == 0


def _said(works: bool) -> str:
    return "works" if works else "refused"


@pytest.mark.timeout(900)
def test_the_table_is_what_runs_show(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"PORT": str(listener.getsockname()[1]), "FREE": str(other.getsockname()[1])}
        other.close()
        found = {case.name: _works(case, tmp_path, ports) for case in CASES}
    differing = {case.name for case in CASES if found[case.name] is not case.works}
    assert differing == {case.name for case in CASES if case.why}
    rows = [[each.name, _said(each.works), _said(found[each.name]), each.why] for each in CASES]
    text = table(["what is tried", "landrun's tests expect", "landlock here", "why"], rows)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    if os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1":
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    else:
        assert old.strip() == text.strip()
