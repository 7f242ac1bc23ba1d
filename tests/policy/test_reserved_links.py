"""Links in reserved directories lead to files that the host obeys, such as those of a repository of dotfiles.

Tests of policy/own_directories.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.policy.collect import collect_facts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolve import resolve
from sandwright.policy.rules import PathRules

POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {read: [/usr], write: [$PROJECT]}\n"


def _tree(project: Path) -> PathRules:
    policy = MergedPolicy.from_text(POLICY)
    return resolve(policy.settings, collect_facts(policy, project=project)).filesystem.tree


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home/dotfiles"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return folder


LINKS = (
    ".docker/config.json",
    ".docker/cli-plugins/docker-compose",
    ".config/docker/cli-plugins/docker-compose",
    ".config/containers/registries.conf.d/mirror.conf",
    ".config/containers/oci/hooks.d/hook.json",
)


@pytest.mark.parametrize("target", ["there", "absent"])
@pytest.mark.parametrize("link", LINKS)
def test_the_target_of_a_link_in_a_subdirectory_is_readonly(project: Path, link: str, target: str) -> None:
    (project / "there").touch()
    (project.parent / link).parent.mkdir(parents=True)
    (project.parent / link).symlink_to(project / target)
    tree = _tree(project)
    assert not tree.changes_host(str(project / target))
    assert tree.changes_host(str(project / "other"))


def test_a_link_behind_a_link_to_a_directory(project: Path) -> None:
    """The files of a repository may be links themselves."""
    (project / "plugins").mkdir()
    (project / "plugins/docker-compose").symlink_to("../compose")
    (project.parent / ".docker").mkdir()
    (project.parent / ".docker/cli-plugins").symlink_to(project / "plugins")
    tree = _tree(project)
    assert not tree.changes_host(str(project / "compose"))
    assert not tree.changes_host(str(project / "plugins/x"))


@pytest.mark.parametrize("variable", ["DOCKER_CONFIG", "XDG_CONFIG_HOME"])
def test_directories_that_a_variable_names(
    project: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = project.parent / "named"
    monkeypatch.setenv(variable, str(named))
    settings = named / "containers" if variable == "XDG_CONFIG_HOME" else named
    (settings / "sub").mkdir(parents=True)
    (settings / "sub/link").symlink_to(project / "target")
    assert not _tree(project).changes_host(str(project / "target"))


def test_links_that_lead_to_each_other_end(project: Path) -> None:
    (project.parent / ".docker/a").mkdir(parents=True)
    (project.parent / ".docker/a/b").symlink_to("..")
    assert _tree(project).changes_host(str(project / "other"))


def test_images_are_not_searched_below_the_top(project: Path) -> None:
    """They contain many directories."""
    storage = project.parent / ".local/share/containers/storage"
    storage.mkdir(parents=True)
    (storage / "link").symlink_to(project / "target")
    assert _tree(project).changes_host(str(project / "target"))
