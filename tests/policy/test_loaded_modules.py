"""No sandbox can change a module that this program has loaded. The check of hundreds takes little time.

Tests of policy/installation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import UsageError
from sandwright.policy import installation
from sandwright.policy.collect import collect_facts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory outside the project from which all modules seem to be loaded."""
    found = tmp_path / "packages"
    found.mkdir()
    (tmp_path / "project").mkdir()

    def loaded() -> Iterator[tuple[str, str]]:
        yield from ((each.stem, str(each)) for each in sorted(found.iterdir()))

    monkeypatch.setattr(installation, "_loaded_modules", loaded)
    return found


def _policy(packages: Path, *writable: Path) -> ResolvedPolicy:
    project = packages.parent / "project"
    paths = ", ".join(map(str, (project, *writable)))
    policy = MergedPolicy.from_text(f"method: bwrap\nfilesystem: {{write: [{paths}]}}\n")
    return policy.resolve(collect_facts(policy, project=project))


def test_files_of_a_closed_directory_are_not_followed(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[str] = []
    real_path = process.real_path

    def counted(path: str, changes: Callable[[str], bool], *, above: str = "") -> str | None:
        followed.append(path)
        return real_path(path, changes, above=above)

    for number in range(300):
        (packages / f"own_part{number}.py").touch()
    monkeypatch.setattr(process, "real_path", counted)
    installation.refuse_changeable(_policy(packages))
    assert not [each for each in followed if "own_part" in each]


def test_a_link_to_what_can_be_written_is_refused(packages: Path) -> None:
    (packages / "other.py").touch()
    (packages / "linked.py").symlink_to(packages.parent / "project" / "linked.py")
    with pytest.raises(
        UsageError, match=r"lets .*/linked\.py be written, and this program has loaded linked"
    ):
        installation.refuse_changeable(_policy(packages))


def test_a_writable_file_in_a_closed_directory_is_refused(packages: Path) -> None:
    (packages / "own.py").touch()
    (packages / "open.py").touch()
    with pytest.raises(UsageError, match=r"lets .*/open\.py be written, and this program has loaded open"):
        installation.refuse_changeable(_policy(packages, packages / "open.py"))


def test_a_read_only_file_in_a_writable_directory_is_taken(packages: Path) -> None:
    (packages / "closed.py").touch()
    policy = MergedPolicy.from_text(
        f"method: bwrap\nfilesystem: {{write: [{packages}], readonly: [{packages}/closed.py]}}\n"
    )
    installation.refuse_changeable(policy.resolve(collect_facts(policy, project=packages.parent / "project")))
