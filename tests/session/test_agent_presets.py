"""The presets for coding agents: their state persists, and no program inside changes files that run by
themselves.

Tests of policy/agents.py.
"""

from __future__ import annotations

import pytest

from sandwright.policy.agents import AGENTS
from sandwright.policy.load import preset
from sandwright.session.persistent import CONTENTS
from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")

KEPT = ".local/state/sandwright/state"
HELD = {
    agent: [
        text.removeprefix("$STATE/")
        for layer in preset(f"agent-{agent}")
        for text in (layer.policy.filesystem and layer.policy.filesystem.readonly) or ()
    ]
    for agent in AGENTS
}
EACH = [(agent, name) for agent, names in HELD.items() for name in names]

CHANGE = """
for path; do
    for change in 'echo changed >> "$1"' 'echo changed > "$1"/new' 'mv "$1" "$1.old"' 'rm -rf "$1"' \\
        'ln -sf /etc/passwd "$1"' 'mv "${1%/*}" "${1%/*}.old"' 'chmod 777 "$1"' \\
        'mount -t tmpfs none "${1%/*}"'
    do sh -c "$change" sh "$path" 2>/dev/null && echo "done with $path: $change"
    done
    test -e "$path" && echo "there: $path"
done
true
"""
READ = 'for path; do cat "$path" 2>/dev/null && echo "read: $path"; done; true'


def _agent(person: Project, agent: str, script: str, *words: str) -> str:
    done = person.run(
        "sh", "-c", script, "sh", *words, options=("--preset", f"agent-{agent}", "--method", "bwrap")
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_no_policy_has_to_be_there_and_the_method_is_told(person: Project) -> None:
    done = person.run("sh", "-c", "pwd; echo x > made", options=("--preset", "agent-claude"))
    assert done.stdout.decode() == f"{person.root}\n"
    told = "no sandbox.yaml here or above: taking preset agent-claude, method bwrap; "
    assert f"sandwright: {told}`sandwright init --agent claude` writes a policy" in done.stderr.decode()
    assert (person.root / "made").exists()
    assert not person.policy.exists()


def test_a_policy_that_is_named_has_to_be_there(person: Project) -> None:
    done = person.run("true", options=("--policy", "sandbox.yaml"))
    assert done.returncode == 125
    assert b"/sandbox.yaml: No such file or directory; `sandwright init`" in done.stderr


def test_a_second_agent_starts_beside_the_first_in_a_project_without_a_policy(person: Project) -> None:
    """During a run an empty directory prevents programs inside from making a policy: it is none itself."""
    below = person.root / "below"
    below.mkdir()
    options = ("--preset", "agent-claude", "--method", "bwrap")
    script = "echo up; while test ! -e end; do sleep 0.1; done"
    with person.start("sh", "-c", script, options=options) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == b"up\n"
            assert person.policy.is_dir()
            beside = [person.run("pwd", options=options, cwd=place) for place in (person.root, below)]
            beside.append(person.run("pwd", cwd=below))
            refused = person.run("true", options=("--policy", "sandbox.yaml"))
        finally:
            (person.root / "end").touch()
    assert [done.stdout.decode() for done in beside] == [f"{at}\n" for at in (person.root, below, below)], (
        beside
    )
    assert (refused.returncode, b"No such file" in refused.stderr) == (125, True), refused.stderr


def test_no_preset_of_that_name(person: Project) -> None:
    done = person.run("true", options=("--preset", "agent-claud"))
    assert done.returncode == 125
    assert b"there is no preset 'agent-claud'" in done.stderr


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent != "aider"])
def test_what_an_agent_keeps_is_there_in_the_next_run(person: Project, agent: str) -> None:
    place = f"{person.home}/{KEPT}/{agent}"
    _agent(person, agent, 'echo 1 > "$1/state.tmp" && mv "$1/state.tmp" "$1/state.json"', place)
    assert _agent(person, agent, 'cat "$1/state.json"', place) == "1\n"


@pytest.mark.parametrize("agent", list(dict(EACH)))
def test_nothing_that_starts_by_itself_can_be_changed(person: Project, agent: str) -> None:
    """This holds from the first run on, when none of these files exists."""
    paths = [person.home / KEPT / name for name in HELD[agent]]
    said = _agent(person, agent, CHANGE, *map(str, paths))
    made = ("", "{}\n", *CONTENTS.values())
    assert said.splitlines() == [f"there: {path}" for path in paths]
    for path in paths:
        assert not path.is_symlink()
        assert not list(path.iterdir()) if path.is_dir() else path.read_text() in made, path


def test_codex_starts_without_its_own_sandbox_unless_its_settings_are_there(person: Project) -> None:
    """Its sandbox can't start in ours. A user's own setting stays."""
    settings = person.home / KEPT / "codex/config.toml"
    assert 'sandbox_mode = "danger-full-access"' in _agent(person, "codex", 'cat "$CODEX_HOME/config.toml"')
    settings.write_text('model = "x"\n')
    assert _agent(person, "codex", 'cat "$CODEX_HOME/config.toml"') == 'model = "x"\n'


def test_claude_is_told_that_it_is_in_a_sandbox(person: Project) -> None:
    """As root, outside of a sandbox, it refuses to work without questions."""
    assert _agent(person, "claude", "echo $IS_SANDBOX") == "1\n"


def test_the_homes_own_settings_and_logins_are_closed(person: Project) -> None:
    """Host programs would execute the settings, and use the logins."""
    names = (
        ".claude/settings.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".config/opencode/x.json",
    )
    settings = [person.home / name for name in names]
    for path in settings:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    said = _agent(person, "claude", CHANGE, *map(str, settings))
    assert "done with" not in said
    assert [path.read_text() for path in settings] == ["{}\n"] * len(settings)
    names = (".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json")
    logins = [person.home / name for name in names]
    for path in logins:
        path.write_text("secret\n")
    assert _agent(person, "claude", READ, *map(str, logins)) == ""


def test_agents_see_no_logins_of_others(person: Project) -> None:
    place = f"{person.home}/{KEPT}"
    _agent(person, "codex", 'echo secret > "$1/codex/auth.json"', place)
    assert _agent(person, "claude", 'cat "$1/codex/auth.json" 2>/dev/null; ls "$1"', place) == "claude\n"
    done = person.run("cat", f"{place}/codex/auth.json", options=("--preset", "default", "--method", "bwrap"))
    assert done.returncode != 0
    assert b"secret" not in done.stdout


def test_a_projects_policy_takes_nothing_from_the_preset_and_opens_nothing_of_it(person: Project) -> None:
    person.policy.write_text(
        "schema: 1\nmethod: bwrap\nnetwork: {mode: none}\nenvironment: {set: {CLAUDE_CONFIG_DIR: $PROJECT}}\n"
        "filesystem:\n  write: [$PROJECT]\n  deny: [$PROJECT/secret]\n"
        "  unprotect: [{path: $STATE/claude/hooks, reason: x}]\n".replace("\\\n", "\n")
    )
    place = f"{person.home}/{KEPT}/claude"
    (person.root / "secret").write_text("secret\n")
    script = """echo $CLAUDE_CONFIG_DIR; touch "$1/x"
        touch "$1/hooks/x" 2>/dev/null || echo held; cat secret 2>/dev/null || echo denied"""
    assert _agent(person, "claude", script, place) == f"{place}\nheld\ndenied\n"


def test_links_that_a_sandbox_made_lead_nowhere(person: Project) -> None:
    """A name that a later version protects may be a link that a sandbox made."""
    state = person.home / KEPT / "claude"
    state.mkdir(parents=True)
    target = person.home / "target"
    target.mkdir()
    (state / "hooks").symlink_to(target / "made")
    (state / "settings.json").symlink_to(target / "file")
    done = person.run("true", options=("--preset", "agent-claude", "--method", "bwrap"))
    assert done.returncode == 125, done.stderr
    assert b"cannot create " in done.stderr
    assert b"/hooks: " in done.stderr
    assert list(target.iterdir()) == []
