"""A policy's file is exchanged while a command reads it: the policy that was approved is the one in use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from sandwright.api import Policy
from sandwright.cli import accounts, bridge, policies, policy_arguments, verify
from sandwright.errors import UsageError
from sandwright.methods.user.setup import AccountPlan, SharedTrees
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session import trust
from sandwright.session.request import RunRequest
from sandwright.session.trust import Loosened
from sandwright.verify import matrix

PLAIN = "schema: 1\nmethod: user\n"
LOOSE = (
    "filesystem: {write: [$PROJECT, ~/other], deny: ['/nowhere/${API_TOKEN}']}\n"
    "credentials: {shims: {env: {allow: ['*']}}}\n"
)


class UsedError(Exception):
    """Raised with the policy that a command uses."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plain policy that is replaced by a loose one as soon as a command has asked for approval."""
    (tmp_path / "other").mkdir()
    folder = tmp_path / "p"
    folder.mkdir()
    file = folder / "sandbox.yaml"
    file.write_text(PLAIN)
    for name, value in (("HOME", tmp_path), ("API_TOKEN", "hushed"), ("SANDWRIGHT_TRUST", "")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(folder)
    before = trust.require_approval

    def exchange(found: Loosened, *, word: bool = False) -> None:
        before(found, word=word)
        file.write_text(PLAIN + LOOSE)

    monkeypatch.setattr(trust, "require_approval", exchange)
    return folder


def _used(policy: ResolvedPolicy) -> NoReturn:
    raise UsedError(policy.credentials.shims)


def test_the_bridge_runs_what_was_approved(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "serve", _used)
    with pytest.raises(UsedError, match=r"^\{\}$"):
        bridge.bridge(words=["true"])
    assert "env" in (project / "sandbox.yaml").read_text()


def test_verify_proves_what_was_approved(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(resolve: Callable[[tuple[str, ...]], ResolvedPolicy], *_: object, **__: object) -> NoReturn:
        _used(resolve(()))

    monkeypatch.setattr(matrix, "verify", prove)
    with pytest.raises(UsedError, match=r"^\{\}$"):
        verify.verify(method="user")
    assert "env" in (project / "sandbox.yaml").read_text()


def test_an_account_shares_what_was_approved(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the loose policy is read, and a plain one would be approved."""
    (project / "sandbox.yaml").write_text(PLAIN + LOOSE.replace("/nowhere/${API_TOKEN}", "/nowhere"))
    loaded = Policy.load

    def load(file: str) -> Policy:
        policy = loaded(file)
        Path(file).write_text(PLAIN)
        return policy

    def plan(_: str, workspace: SharedTrees) -> AccountPlan:
        raise UsedError(workspace)

    monkeypatch.setattr(Policy, "load", load)
    monkeypatch.setattr(accounts, "plan_account", plan)
    with pytest.raises(UsageError, match="writes ~/other"):
        accounts.account_setup(yes=True)


@pytest.mark.parametrize(
    "command",
    [policies.render, policies.facts, lambda: policies.explain(question="read", subject="/etc")],
    ids=["render", "facts", "explain"],
)
def test_no_value_is_shown_of_a_policy_that_was_not_approved(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[], object]
) -> None:
    (project / "sandbox.yaml").write_text(PLAIN + LOOSE)
    load = policy_arguments.load_policy

    def exchanged(request: RunRequest) -> Policy:
        policy = load(request)
        (project / "sandbox.yaml").write_text(PLAIN)
        return policy

    monkeypatch.setattr(policies, "load_policy", exchanged)
    with pytest.raises(UsageError, match="in the name of a path API_TOKEN"):
        command()


def test_the_bridge_finds_its_command_on_path(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="sw-") as cache:  # short, because a socket's path has to be
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        assert bridge.bridge(words=["echo", "found"]) == 0
    assert capfd.readouterr().out == "found\n"
    (project / "sandbox.yaml").write_text(PLAIN)
    with pytest.raises(UsageError, match="no-such-program is no program"):
        bridge.bridge(words=["no-such-program"])
