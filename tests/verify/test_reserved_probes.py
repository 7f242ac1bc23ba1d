"""`verify` tries sandwright's own state and installation, and fails for a method that does not protect them.

Tests of verify/catalogue/reserved.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import user_dirs
from sandwright.methods import registry
from sandwright.policy import installation
from sandwright.policy.rules import PathRule
from sandwright.render.artifact import Artifact
from sandwright.verify.prove import Weaken, prove
from sandwright.verify.reserved_state import plant_files
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict
from support.proving import red, resolver

pytestmark = pytest.mark.needs("bwrap")

POLICY = (
    "schema: 1\nmethod: bwrap\nextends: []\n"
    "filesystem: {read: [/usr, /etc], write: [$PROJECT, ~/.cache, ~/.local/state]}\n"
)
RESERVED = {"files/reserved-hidden", "files/reserved-written", "files/reserved-installation"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "home"


def _forgetful(why: str) -> Weaken:
    """A renderer without reserved rules."""

    def render(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        policy, files = subject.policy, subject.policy.filesystem

        def is_ours(rule: PathRule) -> bool:
            return rule.origin == "policy" and why in rule.why

        kept = tuple(rule for rule in files.rules if not is_ours(rule))
        assert kept != files.rules
        return registry.artifacts(replace(policy, filesystem=replace(files, rules=kept)), subject.method)

    return render


def test_what_run_makes_is_green(home: Path) -> None:
    found = prove(resolver(POLICY, home / "p"), "bwrap", runs=False)
    assert {each.probe: each.verdict for each in found.outcomes if each.probe in RESERVED} == dict.fromkeys(
        RESERVED, Verdict.PASS
    )
    assert [each for each in user_dirs.hidden_directories() if list(Path(each).glob(".sandwright-*"))] == []


def test_a_method_that_forgets_the_state_is_red(home: Path) -> None:
    found = red("bwrap", POLICY, home / "p", _forgetful("sandwright's own"), runs=False)
    assert RESERVED - {"files/reserved-installation"} <= found.keys(), found


def test_a_method_that_forgets_the_installation_is_red(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "p/.venv").mkdir(parents=True)
    there = (*installation.installed_directories(), str(home / "p/.venv"))
    for module in ("policy.installation", "verify.reserved_state"):
        monkeypatch.setattr(f"sandwright.{module}.installed_directories", lambda: there)
    assert "files/reserved-installation" not in red("bwrap", POLICY, home / "p", None, runs=False)
    found = red("bwrap", POLICY, home / "p", _forgetful("installation"), runs=False)
    assert "files/reserved-installation" in found, found


def test_nothing_planted_is_left(home: Path) -> None:
    with plant_files("word") as own:
        assert [each.read_text() for each in own.hidden] == ["word"] * 3
    assert not any(each.exists() for each in own.hidden)
