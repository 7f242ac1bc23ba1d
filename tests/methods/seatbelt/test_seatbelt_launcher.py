"""The launcher for macOS, run by this machine's shell with a stand-in for sandbox-exec: simulated.

Tests of methods/seatbelt/launch.py.
Tests of seatbelt/launch.sh.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.methods.seatbelt.render import render_seatbelt
from sandwright.policy.facts import HostEntry, HostFacts

STAND_IN = """#!/bin/sh
[ "$1" = -f ] && [ -r "$2" ] || exit 64
printf '%s\\n' "$@" >"${0%/*}/arguments"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
pytestmark = pytest.mark.needs("shasum")


class Launch:
    """A rendered launcher in a directory, with a stand-in in place of sandbox-exec."""

    def __init__(self, folder: Path, *, stand_in: bool = True, **sections: Any) -> None:
        self.folder = folder
        link = folder / "link"
        facts = HostFacts(
            os="darwin", home="/Users/u", project="/Users/u/p", tmp=str(folder / "tmp"),
            entries={
                **{str(each): HostEntry("directory") for each in (folder, *folder.parents)},
                **({str(link): HostEntry("symlink", "target")} if link.is_symlink() else {}),
            },
        )  # fmt: skip
        data = {"schema": 1, "method": "seatbelt", "extends": [], **sections}
        for each in render_seatbelt(Policy.from_text(json.dumps(data)).resolve(facts)):
            text = each.content
            if stand_in:
                text = text.replace(b"/usr/bin/sandbox-exec", str(folder / "sandbox-exec").encode())
            (folder / each.name).write_bytes(text)
            (folder / each.name).chmod(each.mode)
        (folder / "sandbox-exec").write_text(STAND_IN, encoding="utf-8")
        (folder / "sandbox-exec").chmod(0o755)

    def run(self, *command: str, stdin: bytes = b"", **environment: str) -> process.Result:
        variables = {"PATH": os.environ["PATH"], **environment}
        launch = self.folder / "launch"
        return process.run(launch, *command, env=variables, timeout=30, check=False, stdin=stdin)


@pytest.mark.parametrize("status", [0, 3, 124])
def test_it_exits_as_the_command_does(tmp_path: Path, status: int) -> None:
    assert Launch(tmp_path).run("sh", "-c", f"exit {status}").status == status


def test_input_reaches_the_command(tmp_path: Path) -> None:
    assert Launch(tmp_path).run("cat", stdin=b"in\0put").stdout == b"in\0put"


def test_options_of_the_command_are_not_options_of_the_sandbox(tmp_path: Path) -> None:
    result = Launch(tmp_path).run("-p", "(version 1)(allow default)", "true")
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert arguments == ["-f", str(tmp_path / "profile.sb"), "--", "-p", "(version 1)(allow default)", "true"]
    assert result.status == 127


def test_it_refuses_without_sandbox_exec(tmp_path: Path) -> None:
    result = Launch(tmp_path, stand_in=False).run("touch", str(tmp_path / "ran"))
    assert (result.status, (tmp_path / "ran").exists()) == (125, False)
    assert "/usr/bin/sandbox-exec is missing" in result.stderr


def test_it_refuses_a_profile_that_was_changed(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    with (tmp_path / "profile.sb").open("a", encoding="utf-8") as file:
        file.write("(allow default)")
    result = launch.run("touch", str(tmp_path / "ran"))
    assert (result.status, (tmp_path / "ran").exists()) == (125, False)
    assert "was changed after it was rendered" in result.stderr


@pytest.mark.parametrize("change", ["sw_time=1\n", "touch {ran}\n"])
def test_variables_that_were_changed_are_not_read(tmp_path: Path, change: str) -> None:
    launch, ran = Launch(tmp_path), tmp_path / "ran"
    with (tmp_path / "variables.sh").open("a", encoding="utf-8") as file:
        file.write(change.format(ran=ran))
    result = launch.run("touch", str(ran))
    assert (result.status, ran.exists()) == (125, False)
    assert "variables.sh was changed after it was rendered" in result.stderr


@pytest.mark.parametrize("shell", ["bash --posix", "bash", "busybox sh", "dash"])
def test_any_shell_runs_it(tmp_path: Path, shell: str) -> None:
    if shell.startswith("busybox") and not process.find("busybox"):
        pytest.skip("busybox is not installed")
    section = {"pass": ["ODD*"], "set": {"SET": "it's\n $$x"}}
    launch = Launch(
        tmp_path, environment=section, network={"mode": "proxy"}, resources={"time": "20s", "files": 64}
    )
    variables = {"PATH": os.environ["PATH"], "ODDS": "'\n\n", "LOST": "x", "SANDWRIGHT_PROXY_PORT": "3128"}
    script = 'printf "%s|%s|%s|%s|%s" "$ODDS" "$SET" "${LOST-}" "$http_proxy" "$(ulimit -n)"; exit 7'
    command = [*shell.split(), str(launch.folder / "launch"), "sh", "-c", script]
    result = process.run(*command, env=variables, timeout=30, check=False)
    assert (result.status, result.stdout) == (7, b"'\n\n|it's\n $x||http://127.0.0.1:3128|64"), result.stderr


def test_no_program_is_taken_from_where_the_sandbox_writes(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    for name in ("shasum", "id", "awk", "sed", "mkdir", "env", "cat", "sleep", "mktemp", "readlink", "perl"):
        (planted / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/fell\n")
        (planted / name).chmod(0o755)
    launch = Launch(tmp_path, filesystem={"write": [str(planted)]}, resources={"time": "20s"})
    result = launch.run("true", PATH=f"{planted}:{os.environ['PATH']}")
    assert (result.status, (tmp_path / "fell").exists()) == (0, False)


def test_only_what_the_policy_names_is_in_the_environment(tmp_path: Path) -> None:
    odd = "it's \"$(id)`\n second line \\ \n"
    section = {"pass": ["ODD", "PATH"], "set": {"SET": odd.replace("$", "$$")}}
    result = Launch(tmp_path, environment=section).run(
        "env", "-0", ODD=odd, SECRET="x", LD_PRELOAD="", SET="other", TMPDIR="/"
    )
    found = dict(line.split("=", 1) for line in result.stdout.decode().split("\0") if line)
    found.pop("_", None)
    found.pop("PWD", None)
    assert found.pop("SANDWRIGHT_INSIDE") == "1"
    assert found == {"ODD": odd, "SET": odd, "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "tmp")}


def test_the_temporary_directory_is_private(tmp_path: Path) -> None:
    result = Launch(tmp_path).run("sh", "-c", 'printf %s "$TMPDIR"')
    assert result.stdout.decode() == str(tmp_path / "tmp")
    assert (tmp_path / "tmp").stat().st_mode & 0o777 == 0o700


def test_it_refuses_a_link_in_the_place_of_the_temporary_directory(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    (tmp_path / "tmp").symlink_to("/")
    result = launch.run("true")
    assert (result.status, "is a link" in result.stderr) == (125, True)


@pytest.mark.parametrize("port", ["", "0", "65536", "08", "1 2", "80;id", "999999999999"])
def test_it_refuses_a_proxy_without_a_port(tmp_path: Path, port: str) -> None:
    result = Launch(tmp_path, network={"mode": "proxy"}).run("true", SANDWRIGHT_PROXY_PORT=port)
    assert result.status == 125


def test_the_port_of_the_proxy_is_a_parameter(tmp_path: Path) -> None:
    launch = Launch(tmp_path, network={"mode": "proxy"})
    result = launch.run("sh", "-c", 'printf %s "$https_proxy"', SANDWRIGHT_PROXY_PORT="3128")
    assert result.stdout == b"http://127.0.0.1:3128"
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert arguments[2:5] == ["-D", "PROXY_PORT=3128", "--"]


def test_a_link_that_leads_elsewhere_now_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    launch = Launch(tmp_path, filesystem={"write": [str(tmp_path / "link")]})
    assert launch.run("true").status == 0
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    result = launch.run("true")
    assert (result.status, "leads elsewhere" in result.stderr) == (125, True)


def test_the_time_limit(tmp_path: Path) -> None:
    launch = Launch(tmp_path, resources={"time": "1s"})
    result = launch.run("sh", "-c", "sleep 20; touch ran")
    assert (result.status, "the time limit (resources.time) was reached" in result.stderr) == (124, True)


def test_within_the_time_limit(tmp_path: Path) -> None:
    launch = Launch(tmp_path, resources={"time": "20s", "files": 64})
    result = launch.run("sh", "-c", "cat; ulimit -n; exit 7", stdin=b"in ")
    assert (result.status, result.stdout) == (7, b"in 64\n")
