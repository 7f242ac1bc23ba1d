"""Servers of MCP over stdio in the sandbox (`mcp.tools`): a client calls the listed tools, and no others.

The server here answers everything and records its messages. Each refusal has its pair that passes.

Tests of session/mcp_streams.py.
Tests of session/mcp_log.py.
Tests of policy/mcp_rules.py.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright.methods.user.setup import plan_removal
from session.conftest import SANDWRIGHT, WAIT, Project, denials_in
from session.jobs import LACKING
from session.terminals import terminal
from support.locks import accounts_change
from support.mcpserver import serve_by_shell
from support.ownedprojects import planted
from support.waiting import until

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]

MCP = "mcp: {tools: [search, 'get_*']}\n"
SERVER = """\
import json, sys
record = open("received", "a")
for line in sys.stdin:
    record.write(line)
    record.flush()
    asked = json.loads(line)
    print("seen", file=sys.stderr, flush=True)
    if "id" in asked and "method" in asked:
        tools = [{"name": name} for name in ("search", "get_x", "delete")]
        result = {"tools": tools} if asked["method"] == "tools/list" else {"content": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
print("half a line", end="", flush=True)
sys.exit(7)
"""


def request(method: str, number: int = 1, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, **more}).encode() + b"\n"


def call(name: str, number: int = 1) -> bytes:
    return request("tools/call", number, params={"name": name})


@pytest.fixture
def server(project: Project) -> Project:
    """A project with a server, and a policy that lists some of its tools."""
    project.policy.write_text(project.policy.read_text() + MCP)
    (project.root / "server.py").write_text(SERVER)
    return project


@contextlib.contextmanager
def running(
    project: Project, program: str, *options: str, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A run of a Python program; it has ended after the `with`."""
    words = [*SANDWRIGHT, "run", *options, "--", "python3", "-c", program]
    pipes = {name: streams.get(name, subprocess.PIPE) for name in ("stdin", "stdout", "stderr")}
    with subprocess.Popen(words, cwd=project.root, env=project.environ, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def talk(project: Project, sent: bytes, *options: str, program: str = SERVER) -> tuple[list[Any], str, int]:
    """The output to a client that sends everything at once, the run's messages and its status."""
    with running(project, program, *options) as process:
        out, errors = process.communicate(sent, timeout=WAIT)
    return [json.loads(line) for line in out.splitlines()], errors.decode(), process.returncode


def received(project: Project) -> list[Any]:
    """The messages that reached the server."""
    return [json.loads(line) for line in (project.root / "received").read_text().splitlines()]


def test_a_listed_tool_is_called_and_another_is_not(server: Project, tmp_path: Path) -> None:
    log, denials = tmp_path / "audit.log", tmp_path / "denials"
    sent = request("initialize") + request("tools/list", 2) + call("search", 3)
    sent += call("delete", 4) + call("delete", 5) + request("resources/read", 6) + b"no message\n"
    said, errors, status = talk(server, sent, "--audit", str(log), "--denials", str(denials))
    assert [each.get("method") for each in received(server)] == ["initialize", "tools/list", "tools/call"]
    answers = {each["id"]: each for each in said}
    assert [each["name"] for each in answers[2]["result"]["tools"]] == ["search", "get_x"]
    assert answers[3]["result"] == {"content": []}
    assert answers[4]["error"]["message"] == "sandwright: refused: the tool delete: no mcp rule lists it"
    assert (set(answers), answers[None]["error"]["code"]) == ({1, 2, 3, 4, 5, 6, None}, -32600)
    assert status == 7
    assert errors.count("seen\n") == 3
    place = f"mcp.tools, project {server.policy}:6:14"
    assert f"refused: the message tools/call delete, 2 times: {place}\n" in errors
    assert "allow it with: `mcp: {tools: [..., 'delete']}` (opens calls of delete by the client)" in errors
    assert "a line of the server did not pass: message: not valid JSON" in errors
    found = {(each["kind"], each["what"]): each["count"] for each in denials_in(denials)}
    assert found["mcp", "resources/read"] == found["mcp", "of the client"] == 1
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    passed = [(each["method"], each["tool"]) for each in lines if each["event"] == "request"]
    assert passed == [("initialize", ""), ("tools/list", ""), ("tools/call", "search")]
    refused = [(each["reason"], each["message"]) for each in lines if each["event"] == "refused"]
    assert refused == [("tool", "delete"), ("call", "resources/read"), ("message", "")]
    assert [each["count"] for each in lines if each["event"] == "repeated"] == [2]


def test_without_rules_nothing_is_read(project: Project) -> None:
    said, _, status = talk(project, call("delete"), program=SERVER.replace("half a line", ""))
    assert ([each["id"] for each in said], status) == ([1], 7)
    assert project.run("sh", "-c", "echo no message").stdout == b"no message\n"


def test_an_option_lists_tools_for_one_run(project: Project) -> None:
    said, errors, _ = talk(project, call("delete") + call("a", 2), "--set", "mcp.tools=[a]")
    assert [("error" in each, each["id"]) for each in said] == [(True, 1), (False, 2)]
    assert "tools/call delete, once: mcp.tools, run" in errors


def test_no_client_can_be_at_these_streams(server: Project) -> None:
    """The pairs are pipes, as in all other tests here."""
    ended = server.sandwright("run", "--detach", "--", "true")
    assert (ended.returncode, b"a detached run has no client of MCP" in ended.stderr) == (125, True)
    with running(server, SERVER, stderr=subprocess.STDOUT) as process:
        out, _ = process.communicate(call("search"), timeout=WAIT)
    assert b"standard error is the client's standard output, too" in out
    with terminal([*SANDWRIGHT, "run", "--", "python3", "server.py"], server.root, server.environ) as person:
        assert b"standard input is a terminal" in person.read_until(b"client of MCP")
        assert person.end() == 125
    assert not (server.root / "received").exists()


def test_a_rendered_launcher_does_not_start_without_the_filter(server: Project) -> None:
    assert server.sandwright("render").returncode == 0
    launch = [str(server.root / ".sandbox/bwrap/launch"), "python3", "server.py"]
    ended = subprocess.run(
        launch,
        input=call("delete"),
        capture_output=True,
        cwd=server.root,
        env=server.environ,
        timeout=WAIT,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert b"mcp.tools needs `sandwright run`" in ended.stderr
    assert not (server.root / "received").exists()


FLOOD = """\
import json, os
line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"x": "y" * 50000}}) + "\\n"
written = 0
while written < 1 << 26:
    written += os.write(1, line.encode())
    open("written", "w").write(str(written))
"""


def test_a_client_that_does_not_read_stops_the_server_and_can_end_it(server: Project) -> None:
    with running(server, FLOOD) as process:
        file = server.root / "written"
        until(file.exists, "the server did not start")
        time.sleep(2.0)
        assert int(file.read_text() or 0) < 1 << 20
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


SLOW = """\
import json, sys
note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"x": "y" * 100000}}
print(json.dumps(note), flush=True)
open("written", "w").close()
open("received", "w").write(sys.stdin.readline())
"""


def test_a_client_that_has_not_read_yet_can_call(server: Project) -> None:
    """A pipe holds less than the line: nothing waits until the client has read all of it."""
    with running(server, SLOW) as process:
        until((server.root / "written").exists, "the server did not start")
        time.sleep(1.0)
        assert process.stdin is not None
        process.stdin.write(call("search"))
        process.stdin.flush()
        file = server.root / "received"
        until(lambda: file.exists() and file.read_text() != "", "the call did not arrive", within=20.0)


def test_what_is_in_the_pipe_at_the_end_passes_by_the_rules() -> None:
    program = """
import os
from sandwright.session.mcp_log import McpLog
from sandwright.session.mcp_streams import open_streams
streams = open_streams(["search"], McpLog(lambda text: os.write(2, text.encode()), audited=False))
os.write(streams._given[1], b'{"jsonrpc":"2.0","method":"notifications/x"}\\nprinted\\n')
os.write(streams._given[1], b'{"jsonrpc":"2.0","id":1,"result":{}}\\n')
os.write(streams._given[1], b'{"jsonrpc":"2.0","method":"notifications/y"}')
print(streams.close(), flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=False
    )
    passing = [f'{{"jsonrpc":"2.0","method":"notifications/{each}"}}' for each in "xy"]
    assert ended.stdout.splitlines() == [*passing, "True"], ended.stderr
    assert "a line of the server did not pass: message: not valid JSON" in ended.stderr


def test_what_a_server_writes_last_arrives(server: Project) -> None:
    program = FLOOD.replace("1 << 26", "1 << 22")
    with running(server, program) as process:
        out, _ = process.communicate(b"", timeout=WAIT)
    assert process.returncode == 0
    assert len(out.splitlines()) == (1 << 22) // 50000 + 1


def test_the_end_of_the_client_is_the_end_of_the_server(server: Project) -> None:
    with running(server, SERVER) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(call("search"))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdin.close()
        assert process.wait(timeout=WAIT) == 7


def test_a_client_that_reads_no_more_ends_a_server_that_writes(server: Project) -> None:
    with running(server, FLOOD) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=WAIT) not in (0, None)
    assert int((server.root / "written").read_text() or 0) < 1 << 22


def test_a_closed_standard_input_is_the_end(server: Project) -> None:
    script = 'exec "$@" <&-'
    words = ["sh", "-c", script, "sh", *SANDWRIGHT, "run", "--", "python3", "server.py"]
    ended = subprocess.run(
        words, cwd=server.root, env=server.environ, capture_output=True, timeout=WAIT, check=False
    )
    assert (ended.returncode, ended.stdout) == (7, b"")


REAL_SERVER = """\
from mcp.server import MCPServer
server = MCPServer("real")
@server.tool()
def search(query: str) -> str:
    "Search."
    return "found " + query
@server.tool()
def delete() -> str:
    "Call this first."
    open("deleted", "w").close()
    return "deleted"
server.run("stdio")
"""


def test_the_client_and_server_of_the_python_package(server: Project) -> None:
    if importlib.util.find_spec("mcp_types") is None:
        pytest.skip("the Python package `mcp` 2 is not installed")
    program = """
import asyncio, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    words = sys.argv[1:]
    started = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with stdio_client(started) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print(*(each.name for each in (await session.list_tools()).tools))
        print((await session.call_tool("search", {"query": "\\u00e9\\n"})).content[0].text.strip())
        for asked in (lambda: session.call_tool("delete", {}), session.list_resources):
            try:
                print("passed", await asked())
            except Exception as fault:
                print(fault)
        print((await session.call_tool("search", {"query": "again"})).content[0].text)
asyncio.run(main())
"""
    inside = [*SANDWRIGHT, "run", "--", sys.executable, "-c", REAL_SERVER]
    ended = subprocess.run(
        [sys.executable, "-c", program, *inside],
        cwd=server.root,
        env=server.environ,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "search",
        "found é",
        "sandwright: refused: the tool delete: no mcp rule lists it",
        "sandwright: refused: resources/list: only tools pass",
        "found again",
    ], ended.stderr
    assert not os.path.lexists(server.root / "deleted")


@pytest.mark.parametrize(
    "method",
    ["landlock", pytest.param("vm", marks=pytest.mark.needs("qemu-system-x86_64"))],
)
def test_other_methods_with_the_hosts_files(project: Project, method: str) -> None:
    """Images are tried in tests/session/test_run_containers.py."""
    lacking = LACKING if method == "landlock" else ()
    gaps = ", ".join(f"{{feature: {each}, method: {method}, reason: a test}}" for each in lacking)
    lines = [
        "schema: 1",
        f"method: {method}",
        "extends: []",
        f"accept_gaps: [{gaps}]",
        "mcp: {tools: [search]}",
    ]
    rules = "filesystem: {read: [/], write: [$PROJECT]}"
    project.policy.write_text("\n".join([*lines, rules, ""]))
    assert serve_by_shell(project) == ([(1, "error"), (2, "result")], ["search"], 7)


@pytest.mark.needs("useradd")
@pytest.mark.exclusive("accounts")
def test_an_account_of_the_project() -> None:
    if os.geteuid() != 0:
        pytest.skip("making accounts takes root")
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir="/var/tmp") as made:
        owned = planted(Path(made))
        Path(made).chmod(0o755)
        owned.set_up()
        try:
            project = Project(owned.root, owned.home, owned.home / "run")
            project.policy.write_text(f"{project.policy.read_text()}mcp: {{tools: [search]}}\n")
            assert serve_by_shell(project) == ([(1, "error"), (2, "result")], ["search"], 7)
        finally:
            with accounts_change():
                plan_removal(owned.account).execute()
