"""Real coding agents in their sandboxes, by the documented commands, with a scripted model.

Each writes a file of the project, and then runs commands that read a denied file, write a protected name, and
reach another host. The output of the commands goes back to the model.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from session.conftest import Project
from support import agents
from support.localhttp import QuietHandler, listening
from support.modelserver import Model, Run, Write, scripted
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("bwrap", "squid", "npm", "curl", "git"),
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to install agents"),
    pytest.mark.slow,
]

TASK = "Do what the model says."
SECRET = "KEY-5c1f"
PROVIDER = (
    '{name="scripted",base_url="http://127.0.0.1:PORT/v1",env_key="OPENAI_API_KEY",wire_api="responses"}'
)
OPENCODE = {"provider": {"openai": {"options": {"baseURL": "http://127.0.0.1:PORT/v1"}}}}
OWN_HOME = ("--preset", "own-home", "-s", "network.mode=proxy", "-s", "network.allow=[api.example.com]")
FILE = "made.txt\n```\nmade by the model\n```\n"
"""The answer with which a model without tools writes a file for Aider."""


@dataclass(frozen=True)
class Agent:
    """A command of docs/agents.md, and the agent's settings for the address of its model.

    `settings` are files below the agent's state with a choice that a user makes at the first start, `project`
    files of the project. `preset` is false for an agent without one: the options are those of the section
    about unlisted agents.
    """

    words: Sequence[str]
    variables: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    project: Mapping[str, str] = field(default_factory=dict)
    preset: bool = True


AGENTS = {
    "aider": Agent(
        (
            *("aider", "--yes-always", "--no-show-model-warnings", "--model", "openai/gpt-4o"),
            *("--edit-format", "whole", "--auto-test", "--test-cmd", "sh commands.sh", "--message", TASK),
            "made.txt",
        ),
        {"OPENAI_API_BASE": "http://127.0.0.1:PORT/v1", "OPENAI_API_KEY": "x"},
    ),
    "claude": Agent(
        ("claude", "-p", TASK, "--dangerously-skip-permissions"),
        {"ANTHROPIC_BASE_URL": "http://127.0.0.1:PORT", "ANTHROPIC_API_KEY": "x"},
        project={".claude/settings.json": '{"sandbox": {"enabled": true}}'},  # it goes on without
    ),
    "codex": Agent(
        (
            *("codex", "exec", "--skip-git-repo-check"),
            *("-c", "model_provider=scripted", "-c", f"model_providers.scripted={PROVIDER}", TASK),
        ),
        {"OPENAI_API_KEY": "x"},
    ),
    "copilot": Agent(
        ("copilot", "--allow-all", "-p", TASK),
        {
            "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:PORT/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "gpt-4",
        },
        preset=False,
    ),
    "gemini": Agent(
        ("gemini", "--yolo", "--skip-trust", "-p", TASK),
        {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:PORT", "GEMINI_API_KEY": "x"},
        {"gemini/.gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
    ),
    "opencode": Agent(
        ("opencode", "run", "--auto", "-m", "openai/gpt-5", TASK),
        {"OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE), "OPENAI_API_KEY": "x"},
    ),
    "qwen": Agent(
        ("qwen", "--yolo", "-p", TASK),
        {"OPENAI_BASE_URL": "http://127.0.0.1:PORT/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "qwen3-coder"},
        preset=False,
    ),
}


class _Witness(QuietHandler):
    """Records its clients; a program of the sandbox must never be one."""

    visits: list[str]

    def do_GET(self) -> None:
        self.visits.append(self.path)
        self.send_error(404)


@pytest.fixture
def witness() -> Iterator[tuple[int, list[str]]]:
    """A server on this machine, which no policy lists: its port, and the requested paths."""
    visits: list[str] = []
    with listening(type("Witness", (_Witness,), {"visits": visits})) as port:
        yield port, visits


@pytest.mark.parametrize("name", list(AGENTS))
def test_tool_calls(person: Project, witness: tuple[int, list[str]], name: str) -> None:
    """Allowed ones work in the same run in which denied ones fail."""
    port, visits = witness
    _prepare(person, name)
    with scripted() as model:
        commands = _commands(model.port, port)
        model.script = [Write(f"{person.root}/made.txt", "made by the model\n"), *map(Run, commands)]
        if name == "aider":
            model.words = FILE
            (person.root / "commands.sh").write_text("\n".join([*commands, "exit 1"]))
        ended = _start(person, name, model)
        printed = _printed(model, name)
    assert ended.returncode == 0, ended.stderr
    assert (person.root / "made.txt").read_text() == "made by the model\n", (ended, printed)
    assert "public note" in printed
    assert "not read" in printed
    assert SECRET not in json.dumps(model.requests)
    assert "not written" in printed
    assert (person.root / "written.txt").read_text() == "x\n"
    assert not (person.root / ".mcp.json").exists()
    assert '"object": "list"' in printed.replace("\\", "")
    assert "proxied 403" in printed
    assert visits == []


def _prepare(person: Project, name: str) -> None:
    """A repository with a note, a secret in the home, and the policy that `init` proposes."""
    subprocess.run(["git", "init", "-q", person.root], check=True, timeout=60)
    (person.root / "note.txt").write_text("public note\n")
    (person.home / ".ssh").mkdir()
    (person.home / ".ssh/id_ed25519").write_text(f"{SECRET}\n")
    (person.home / ".gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n")
    person.environment["PATH"] = f"{agents.require(name)}:{person.environ['PATH']}"
    if AGENTS[name].preset:
        made = person.sandwright("init", "--yes", "--method", "bwrap", "--agent", name)
        assert made.returncode == 0, made.stderr
    state = person.home / ".local/state/sandwright/state"
    for folder, files in ((state, AGENTS[name].settings), (person.root, AGENTS[name].project)):
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_text(text)


def _commands(model: int, witness: int) -> list[str]:
    """Each prints its result, after a control of the same kind that has to work."""
    host = socket.gethostname()
    return [
        'cat note.txt; cat "$HOME/.ssh/id_ed25519" || echo "not read"',
        "echo x > written.txt && cat written.txt; echo x > .mcp.json || echo 'not written'",
        f"curl -s -m 20 http://127.0.0.1:{model}/v1/models; "
        f"curl -s -m 5 --noproxy '*' http://127.0.0.1:{witness}/direct; "
        f"curl -s -m 20 -o /dev/null -w 'proxied %{{http_code}}' http://{host}:{witness}/proxied",
    ]


def _start(person: Project, name: str, model: Model) -> subprocess.CompletedProcess[bytes]:
    agent = AGENTS[name]
    port = str(model.port)
    person.environment |= {key: value.replace("PORT", port) for key, value in agent.variables.items()}
    passed = ", ".join(agent.variables)
    options = ("-s", f"network.localhost=[{port}]", "-s", f'environment.pass=["...", {passed}]')
    words = [word.replace("PORT", port) for word in agent.words]
    return person.run(*words, options=options if agent.preset else (*OWN_HOME, *options))


def _printed(model: Model, name: str) -> str:
    """The output of the commands, as the agent sent it to the model."""
    return json.dumps(model.requests) if name == "aider" else "\n".join(model.results)
