"""Real coding agents with `--preset key-…`: the key arrives at the service, and the agent never has it.

The services' names lead to a scripted model with TLS, in a separate network namespace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import agents
from support.canary import Canary, server_context
from support.httpsessions import http_session
from support.modelserver import Model, Run, Write, scripted
from support.netlab import WORLD, World, lab
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("bwrap", "haproxy", "squid", "npm", "openssl", "ip", "unshare"),
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to install agents"),
    pytest.mark.slow,
]

KEY = "sk-proj-REALrealREALrealREALreal0123456789abcdefghij"
TASK = "Do what the model says."
NAMES = ("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com")
SEARCH = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c '[R]EALreal'; echo searched"

AGENTS = {
    "aider": (
        "key-openai",
        ("aider", "--yes-always", "--no-show-model-warnings", "--model", "openai/gpt-4o", "--no-git",
         "--edit-format", "whole", "--message", TASK, "made.txt"),
    ),
    "claude": ("key-anthropic", ("claude", "-p", TASK, "--dangerously-skip-permissions")),
    "codex": ("key-openai", ("codex", "exec", "--skip-git-repo-check", TASK)),
    "gemini": ("key-gemini", ("gemini", "--yolo", "--skip-trust", "-p", TASK)),
    "opencode": ("key-openai", ("opencode", "run", "--auto", "-m", "openai/gpt-5", TASK)),
}  # fmt: skip
"""The preset with the key of each, and its command."""


@pytest.fixture(scope="module")
def world(network_lab: None) -> Iterator[World]:
    with lab(ports=()) as found:
        yield found


@pytest.fixture
def service(world: World, tmp_path: Path) -> Iterator[tuple[Model, str]]:
    """The services of models, and the PEM of the CA that signed their certificates."""
    context, authority = server_context(tmp_path, NAMES)
    with contextlib.ExitStack() as stack:
        with world.inside():
            found = stack.enter_context(scripted(address=(WORLD, 443), tls=context))
        yield found, authority


@pytest.mark.parametrize("name", list(AGENTS))
def test_the_key_is_outside(service: tuple[Model, str], tmp_path: Path, name: str) -> None:
    """The agent works with the service; no process of the sandbox has the key in its environment."""
    preset, words = AGENTS[name]
    model, authority = service
    session = http_session(tmp_path, Canary(443, authority), {WORLD: " ".join(NAMES)})
    made = session.project / "made.txt"
    model.script = [Write(str(made), "made by the model\n"), Run(SEARCH)]
    model.words = "made.txt\n```\nmade by the model\n```\n" if name == "aider" else "The script has ended."
    session.environment[f"{preset.removeprefix('key-').upper()}_API_KEY"] = KEY
    session.environment |= {"ANTHROPIC_API_KEY": KEY} if name == "claude" else {}
    session.environment["PATH"] = f"{agents.require(name)}:{session.environment['PATH']}"
    done = session.run(list(words), "--preset", f"agent-{name}", "--preset", preset)
    assert done.returncode == 0, (done.stderr, model.requests)
    assert made.read_text() == "made by the model\n"
    assert {each.removeprefix("Bearer ") for each in model.keys} == {KEY}
    if name != "aider":  # it has no tools
        assert "searched" in model.results[-1]
        assert model.results[-1].split("searched")[0].split()[-1:] == ["0"], model.results


def test_without_the_preset_it_is_inside(service: tuple[Model, str], tmp_path: Path) -> None:
    """The control: the same search finds a key that is passed."""
    session = http_session(tmp_path, Canary(443, service[1]), {WORLD: " ".join(NAMES)})
    session.environment["ANTHROPIC_API_KEY"] = KEY
    done = session.run(["sh", "-c", SEARCH], "--preset", "agent-claude")
    assert int(done.stdout.split()[0]) > 0, done.stderr
