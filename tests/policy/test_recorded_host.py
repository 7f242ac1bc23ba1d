"""One record of the host: resolving and rendering read the recorded facts, and nothing else.

Tests of inputs.py.
Tests of policy/facts.py: a question that was not recorded is an error.
Tests of questions.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.errors import RenderError, UsageError
from sandwright.inputs import LiveHost
from sandwright.methods import METHODS, registry
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.policy.live_entries import observe
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import is_process

POLICIES = {
    "default": "schema: 1\nextends: [default]\n",
    "strict": "schema: 1\nextends: [strict]\n",
    "proxy": "schema: 1\nextends: [default]\nnetwork: {mode: proxy, allow: [example.org]}\n",
    "agents": "schema: 1\nextends: [agent-claude, agent-codex]\n",
    "grants": "schema: 1\nextends: [build]\ncredentials: {cloud: readonly}\nfilesystem: "
    "{tmp: shared, git: [config, worktree], write: [$CACHE]}\nnetwork: {unix_sockets: [/run/x.sock]}\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    for name in (".git/hooks", ".git/info", ".vscode", "sub/.git/objects"):
        (made / name).mkdir(parents=True)
    (made / ".git/config").write_text("[core]\n\thooksPath = hooks\n")
    (made / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (made / "link").symlink_to("sub")
    return made


def _policy(name: str) -> MergedPolicy:
    return MergedPolicy.from_text(POLICIES[name])


def _rendered(policy: ResolvedPolicy, method: str) -> object:
    try:
        return registry.artifacts(policy, method)
    except RenderError as error:
        return str(error)


@pytest.mark.parametrize("name", POLICIES)
def test_a_recording_answers_all_that_is_asked(name: str, project: Path) -> None:
    policy = _policy(name)
    live = collect_facts(policy, project=project, account=True)
    recorded = HostFacts.from_json(live.to_json())
    policy.check_facts(recorded)
    here, there = policy.resolve(live), policy.resolve(recorded)
    assert here.filesystem.rules == there.filesystem.rules
    for method in (*METHODS, *registry.variants()):
        assert _rendered(here, method) == _rendered(there, method), method


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_looked_at_decides_whether_a_rendering_is_stale(name: str, project: Path) -> None:
    inputs = LiveHost()
    facts = collect_facts(_policy(name), project=project, inputs=inputs)
    asked = {
        f"{question[1].rstrip('/')}/{each}" if each != "." else question[1]
        for question, _ in inputs.recording()
        if question[0] == "entries"
        for each in question[2:]
    }
    assert {path for path in (*facts.entries, *facts.absent) if not is_process(path)} <= asked
    assert facts.absent


def test_what_was_not_recorded_is_refused(project: Path) -> None:
    recorded = HostFacts.from_json(collect_facts(_policy("strict"), project=project).to_json())
    (project / "new").mkdir()
    with pytest.raises(UsageError, match=f"facts do not cover {project}/new: record them again with `sand"):
        recorded.kind(f"{project}/new")
    with pytest.raises(UsageError, match="do not cover"):
        recorded.link(f"{project}/new")
    assert observe(recorded, [f"{project}/new"]).kind(f"{project}/new") == "directory"
    assert recorded.closed().kind(f"{project}/new") is None


def test_below_what_is_absent_nothing_is_there(project: Path) -> None:
    recorded = HostFacts.from_json(collect_facts(_policy("default"), project=project).to_json())
    absent = next(path for path in recorded.absent if path.startswith(f"{project}/"))
    assert recorded.kind(f"{absent}/x/y") is None
    assert recorded.kind(f"{project}/.git/config/x") is None  # a file
