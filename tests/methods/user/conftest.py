"""Tests with real accounts, which are removed again; all tests that make one share the machine's list."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright.methods.user.setup import plan_removal
from support.locks import accounts_change
from support.ownedprojects import Project, planted

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that create accounts one at a time, and as root."""
    for item in items:
        if item.path.is_relative_to(HERE) and {"made", "project"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.exclusive("accounts"))
            item.add_marker(pytest.mark.needs("useradd"))


@pytest.fixture(scope="module")
def made() -> Iterator[Callable[[], Project]]:
    """Make a project that all users can reach, outside pytest's directories; its account goes with it."""
    if os.geteuid() != 0:
        pytest.skip("only root makes accounts")
    projects: list[Project] = []
    bases: list[Path] = []

    def make() -> Project:
        bases.append(Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp")))
        bases[-1].chmod(0o755)
        projects.append(planted(bases[-1]))
        return projects[-1]

    yield make
    for project in projects:
        if project.account.name in {each.pw_name for each in pwd.getpwall()}:
            with accounts_change():
                plan_removal(project.account).execute()
    for base in bases:
        shutil.rmtree(base)


@pytest.fixture(scope="module")
def project(made: Callable[[], Project]) -> Project:
    """A project with an existing account."""
    found = made()
    found.set_up()
    return found
