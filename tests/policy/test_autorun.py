"""Each name that tools run by themselves has one row, with the decision about it and the reason.

Tests of nested.py.
Tests of policy/autorun.py.
Tests of policy/nested.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from sandwright import nested
from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.methods.registry import render
from sandwright.nested import DEPTH, find_names
from sandwright.policy import autorun, load
from sandwright.policy.autorun import NAMES, AutorunName, Decision, paths
from sandwright.policy.collect import collect_facts
from sandwright.policy.layers import merged

TRIED = """
.hg/hgrc mise.toml .mise.toml .config/mise.toml .direnv/flake-profile.rc .devenv/profile
.helix/languages.toml .helix/config.toml .zed/settings.json .zed/tasks.json .nvimrc .dir-locals.el
.gdbinit .lldbinit x.code-workspace .vs/tasks.vs.json .fleet/run.json .cargo/config.toml
rust-toolchain.toml .yarnrc.yml .yarnrc .npmrc .pnpmfile.cjs .mvn/extensions.xml .mvn/jvm.config
lefthook.yml .overcommit.yml .bash_aliases .pdbrc .Rprofile .Renviron .RData
.irbrc irb.rc _irbrc .pryrc .byebugrc .iex.exs .ghci .ocamlinit .octaverc .perldb
.config/fish/conf.d/x.fish .config/git/config
.config/nvim/init.lua .config/systemd/user/x.service .config/autostart/x.desktop .local/bin/git
.pam_environment .tmux.conf .xprofile .kiro/settings/mcp.json .kiro/hooks/x.kiro.hook .windsurf/mcp.json
.roo/mcp.json .continue/config.yaml .amazonq/mcp.json .qwen/settings.json .factory/settings.json
.junie/mcp/mcp.json .agents/skills/x/SKILL.md .crush.json crush.json .claude/plugins/x .claude/rules/x.md
.claude/output-styles/x.md .cursorrules .github/copilot/mcp.json .trae/mcp.json .clinerules/hooks/x
opencode.json .aider.conf.yml .gitmodules .vscode/tasks.json .envrc .mcp.json .husky/pre-commit
.sl/requires .sl/sharedpath .bzr/branch/location
.jj/repo/config.toml .sl/config .bzr/branch/branch.conf _darcs/prefs/defaults .pijul/config .fslckout
_FOSSIL_ .fossil-settings/th1-setup CVS/Root .p4config .svn/wc.db Makefile package.json
"""
"""Names from which host programs ran code, or that name programs: tried by hand, or similar ones."""


def _row(path: str) -> AutorunName | None:
    return next((each for each in NAMES if _fits(each.path, path)), None)


def _fits(pattern: str, path: str) -> bool:
    if pattern.startswith("*"):
        return path.endswith(pattern[1:])
    return path == pattern or path.startswith(f"{pattern}/")


@pytest.mark.parametrize("path", TRIED.split())
def test_each_name_that_was_tried_is_decided(path: str) -> None:
    assert _row(path)


def test_each_row_is_complete_and_stands_once() -> None:
    assert [path for path, count in Counter(each.path for each in NAMES).items() if count > 1] == []
    for each in NAMES:
        assert each.decision in get_args(Decision)
        assert each.tool
        assert each.runs
        assert each.reason
        assert not each.metadata or each.path.startswith(f"{each.metadata}/"), each
        assert not each.metadata or each.decision == "existing", each
        assert "*" not in each.path[1:], each
        assert each.path[0] != "*" or each.decision in ("report", "leave"), each  # no mount has a pattern


def test_the_preset_protects_what_the_table_says() -> None:
    listed = merged(load.preset("default")).items("filesystem.protect")
    names = [item.value for item in listed if item.source.layer != "built-in"]
    assert names == [each[0] for each in autorun.PROTECTED]
    assert tuple(names) == paths("protect")


def test_names_are_found_to_a_depth(tmp_path: Path) -> None:
    deep = "/".join("abcdefgh"[:DEPTH])
    (tmp_path / deep / "i").mkdir(parents=True)
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "to").symlink_to(tmp_path / "a")
    for name in (".envrc", f"{deep}/.envrc", f"{deep}/i/.envrc", "node_modules/x/.envrc"):
        (tmp_path / name).touch()
    (tmp_path / "a" / ".claude").mkdir()
    (tmp_path / "a" / ".claude" / "settings.json").touch()
    names = (".envrc", ".claude/settings.json", ".claude/hooks")
    wanted = [".envrc", "a/.claude/settings.json", "node_modules/x/.envrc", f"{deep}/.envrc"]
    assert find_names(str(tmp_path), names) == wanted
    assert find_names(str(tmp_path), [*names, "/a/b", "/node_modules"]) == wanted[:2]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MAX_DIRECTORIES", "p/b has too many directories to be searched (5 in all)"),
        ("MAX_ENTRIES", "p/b has too many names to be searched (5 in all)"),
        ("MAX_FOUND", "p has more than 5 names that programs use"),
    ],
)
def test_a_search_that_would_end_early_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    for number in range(3):
        (tmp_path / "p" / "b" / str(number) / ".envrc").mkdir(parents=True)
        (tmp_path / "p" / "b" / str(number) / ".vimrc").touch()
    (tmp_path / "p" / "a").mkdir()
    assert len(find_names(str(tmp_path / "p"), [".envrc", ".vimrc"])) == 6
    monkeypatch.setattr(nested, limit, 5)
    with pytest.raises(nested.IncompleteSearch) as refused:
        find_names(str(tmp_path / "p"), [".envrc", ".vimrc"])
    assert str(refused.value) == f"{tmp_path}/{reason}"


def test_a_project_in_the_project_keeps_its_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launchers and its policy start programs on the host; a file that only has the name may be data."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("a/.sandbox/bwrap", "a/b/.sandbox", "data", ".sandbox"):
        (tmp_path / "p" / name).mkdir(parents=True)
    for name in ("sandbox.yaml", "a/sandbox.yaml", "data/sandbox.yaml"):
        (tmp_path / "p" / name).write_text("schema: 1\nmethod: bwrap\n")
    policy = Policy.load(tmp_path / "p/sandbox.yaml").resolve()
    writable = policy.filesystem.tree.changes_host
    for name in ("a/sandbox.yaml", "a/.sandbox/bwrap/launch", "a/b/.sandbox/x", "sandbox.yaml", ".sandbox/x"):
        assert not writable(f"{tmp_path}/p/{name}"), name
    for name in ("a/b/sandbox.yaml", "data/sandbox.yaml", "a/x"):
        assert writable(f"{tmp_path}/p/{name}"), name


@pytest.mark.parametrize(
    ("link", "target", "name"),
    [
        ("sub/.claude", "real/claude", "settings.json"),
        ("sub/.claude", "a/b/c/d/claude", "hooks/start"),
        ("sub/.hg", "real/hg", "hgrc"),
        ("sub/.jj/repo", "real/repo", "config.toml"),
    ],
)
def test_a_name_behind_a_link_is_protected(tmp_path: Path, link: str, target: str, name: str) -> None:
    """A tool follows `sub/.claude`. A method that can't hold the link refuses the policy."""
    project = tmp_path / "p"
    for path in (project / target / name, project / link):
        path.parent.mkdir(parents=True, exist_ok=True)
    (project / target / name).touch()
    (project / link).symlink_to(project / target)
    facts = collect_facts(Policy.from_text("method: bwrap\n"), project=project, environ={"HOME": "/nowhere"})
    policy = Policy.from_text("method: bwrap\n").resolve(facts)
    assert not policy.is_path_writable(f"{project}/{target}/{name}")
    with pytest.raises(RenderError, match="leads through the link"):
        render(policy, "bwrap")
