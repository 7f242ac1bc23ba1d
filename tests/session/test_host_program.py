"""The host program of an agent's name, and its paths that a sandbox sees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.inputs import LiveHost, changed
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.hostprogram import HostProgram, find_host_program

NODE = "#!/usr/bin/env node\n"
SHELL = "#!/bin/sh\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project `p`; PATH has only the home's `bin`."""
    made = tmp_path.resolve() / "home"
    (made / "bin").mkdir(parents=True)
    (made / "p").mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("PATH", f"{made}/p/bin:relative:{made}/bin")
    return made


def _found(home: Path, text: str = "", name: str = "claude") -> HostProgram | None:
    return find_host_program(name, _resolved(home, text), LiveHost())


def _resolved(home: Path, text: str) -> ResolvedPolicy:
    policy = MergedPolicy.from_layers([layer(f"schema: 1\nmethod: oci\n{text}")])
    return policy.resolve(collect_facts(policy, project=home / "p"))


def _program(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755)
    return path


def _linked(home: Path, place: str, content: str | bytes, name: str = "claude") -> str:
    """A program somewhere in the home, with a link to it on PATH."""
    program = _program(home / place, content)
    (home / "bin" / name).symlink_to(program)
    return str(program)


@pytest.mark.parametrize("package", ["lib/node_modules/agent", "lib/node_modules/@of/agent"])
def test_a_package_of_npm(home: Path, package: str) -> None:
    program = _linked(home, f"{package}/bin/run.sh", SHELL)
    assert _found(home) == HostProgram((program,), (f"{home}/{package}",))


def test_a_package_of_npm_that_is_part_of_another(home: Path) -> None:
    """The outer package is the installed one."""
    program = _linked(home, "node_modules/agent/node_modules/@of/native/run.sh", SHELL)
    assert _found(home) == HostProgram((program,), (f"{home}/node_modules/agent",))


def test_a_script_for_node_comes_with_a_node_that_needs_nothing_else(home: Path) -> None:
    program = _linked(home, "node_modules/agent/run.js", NODE)
    node = _program(home / "bin" / "node", Path("/bin/sh").read_bytes())
    assert _found(home) == HostProgram((str(node), program), (f"{home}/node_modules/agent", str(node)))


@pytest.mark.parametrize("node", [b"", b"#!/bin/sh\n", b"\x7fELF broken"], ids=["none", "script", "broken"])
def test_else_the_images_node_runs_it(home: Path, node: bytes) -> None:
    program = _linked(home, "node_modules/agent/run.js", NODE)
    if node:
        _program(home / "bin" / "node", node)
    assert _found(home) == HostProgram(("node", program), (f"{home}/node_modules/agent",))


def test_a_virtual_environment_of_python(home: Path) -> None:
    program = _linked(home, "venvs/agent/bin/agent", SHELL)
    configuration = home / "venvs" / "agent" / "pyvenv.cfg"
    configuration.write_text("home = /usr/bin\n")
    asked = LiveHost()
    assert find_host_program("claude", _resolved(home, ""), asked) == HostProgram(
        (program,), (f"{home}/venvs/agent",)
    )
    assert changed(asked.recording()) is None
    base = home / "python"
    (base / "lib" / "python3.11").mkdir(parents=True)
    configuration.write_text(f"home = {base}/bin\nversion = 3.11\n")
    assert changed(asked.recording()) == ("content", str(configuration))
    assert _found(home) == HostProgram((program,), (f"{home}/venvs/agent",))
    (base / "lib" / "python3.11" / "os.py").touch()
    assert _found(home) == HostProgram((program,), (f"{home}/venvs/agent", str(base)))


def test_one_file(home: Path) -> None:
    program = _linked(home, "share/versions/2.1", Path("/bin/sh").read_bytes())
    assert _found(home) == HostProgram((program,), (program,))


def test_the_users_configuration_of_git_comes_with_it_where_it_is_shown(home: Path) -> None:
    program = _linked(home, "node_modules/agent/run.sh", SHELL)
    package = f"{home}/node_modules/agent"
    (home / ".gitconfig").write_text("[user]\n")
    assert _found(home) == HostProgram((program,), (package, f"{home}/.gitconfig"))
    assert _found(home, "filesystem: {deny: [~/.gitconfig]}") == HostProgram((program,), (package,))


@pytest.mark.parametrize(
    "secret", ["ssh/id_rsa", "bin-of-mine/agent"], ids=["a file that is no program", "a script of the home"]
)
def test_a_file_that_belongs_to_no_package_is_not_shown(home: Path, secret: str) -> None:
    _linked(home, secret, SHELL)
    assert _found(home) is None


def test_nothing_is_taken_from_where_the_sandbox_writes(home: Path) -> None:
    """Otherwise the sandbox could choose the program that the next run sees."""
    _program(home / "keys" / "node_modules" / "agent" / "run.sh", SHELL)
    for place in ("p/bin", "p/../relative"):
        (home / place).mkdir(parents=True, exist_ok=True)
        (home / place / "claude").symlink_to(home / "keys" / "node_modules" / "agent" / "run.sh")
    assert _found(home) is None
    _linked(home, "p/node_modules/agent/run.sh", SHELL)
    assert _found(home) is None


def test_a_program_of_the_system_is_the_images(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert _found(home, name="sh") is None
    assert _found(home, name="no-such-agent") is None


def test_a_directory_that_holds_more_is_refused(home: Path) -> None:
    _linked(home, "bin-of-mine/agent", SHELL)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with pytest.raises(UsageError, match="which holds"):
        _found(home)


def test_what_the_policy_hides_stays_hidden(home: Path) -> None:
    _linked(home, "tools/node_modules/agent/run.sh", SHELL)
    with pytest.raises(UsageError, match=r"is hidden by deny .*/tools \(project sandbox\.yaml"):
        _found(home, "filesystem: {deny: [~/tools]}")


def test_every_question_is_kept(home: Path) -> None:
    """Another PATH, another target of the link or another node changes the rendering."""
    program = _linked(home, "node_modules/agent/run.js", NODE)
    asked = LiveHost()
    find_host_program("claude", _resolved(home, ""), asked)
    questions = {question for question, _ in asked.recording()}
    wanted = {("variable", "PATH"), ("stamp", f"{home}/bin/claude"), ("stamp", program)}
    assert wanted | {("stamp", f"{home}/bin/node")} <= questions
    assert any(each[:2] == ("entries", str(home)) and ".gitconfig" in each for each in questions)


def test_this_python_is_found_by_its_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is a real one."""
    if sys.prefix == sys.base_prefix:
        pytest.skip("Python here is in no virtual environment")
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin")
    found = _found(home, name="pytest")
    assert found is not None
    assert found.paths[0] == str(Path(sys.prefix).resolve())
