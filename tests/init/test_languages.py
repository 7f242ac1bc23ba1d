"""Package managers that `init` recognises by file names."""

from __future__ import annotations

import pytest

from sandwright.init.languages import LANGUAGES, Installation, installations, tool_caches
from sandwright.init.project import ProjectFacts
from sandwright.init.proposal import MOST_INSTALLATIONS, install_commands
from sandwright.policy.names import CACHES


@pytest.mark.parametrize(
    ("names", "commands"),
    [
        (["package.json"], ["npm install"]),
        (["package.json", "package-lock.json"], ["npm ci"]),
        (["package.json", "pnpm-lock.yaml", "package-lock.json"], ["pnpm install"]),
        (["package.json", "yarn.lock"], ["yarn install"]),
        (["package.json", "bun.lock"], ["bun install"]),
        (["pyproject.toml", "uv.lock"], ["uv sync"]),
        (["pyproject.toml", "poetry.lock"], ["poetry install"]),
        (["requirements.txt"], ["python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"]),
        (["pyproject.toml"], ["python3 -m venv .venv && .venv/bin/pip install -e ."]),
        (["go.mod"], ["go mod download"]),
        (["Cargo.toml"], ["cargo fetch"]),
        (["pom.xml"], ["mvn dependency:go-offline"]),
        (["pom.xml", "mvnw"], ["./mvnw dependency:go-offline"]),
        (["build.gradle.kts"], ["gradle dependencies"]),
        (["build.gradle", "gradlew"], ["./gradlew dependencies"]),
        (["Gemfile"], ["bundle install"]),
        (["App.csproj"], ["dotnet restore"]),
        (["composer.json"], ["composer install"]),
        (["CMakeLists.txt", "main.c"], []),
        ([], []),
    ],
)
def test_the_lock_file_decides(names: list[str], commands: list[str]) -> None:
    assert [each.manager.install for each in installations(names)] == commands


@pytest.mark.parametrize(
    ("paths", "directories"),
    [
        (["package.json", "packages/a/package.json"], [""]),
        (["package.json", "packages/a/package.json", "packages/a/yarn.lock"], ["", "packages/a"]),
        (["web/package.json", "web2/package.json"], ["web", "web2"]),
        (["go.mod", "tools/go.mod"], ["", "tools"]),
        (["Cargo.toml", "crates/a/Cargo.toml"], [""]),
        (["package.json", "docs/requirements.txt"], ["docs", ""]),
    ],
    ids=["members", "with its own lock file", "similar names", "modules", "crates", "languages"],
)
def test_members_of_a_workspace_are_left_out(paths: list[str], directories: list[str]) -> None:
    assert [each.directory for each in installations(paths)] == directories


def test_tools_with_caches() -> None:
    assert tool_caches([".pre-commit-config.yaml", "web/playwright.config.ts"]) == (
        "pre-commit",
        "playwright",
    )
    assert tool_caches(["CMakeLists.txt", "lib/CMakeLists.txt", "lib/configure.ac"]) == ("ccache",)


def test_all_caches_exist() -> None:
    managers = [manager for language in LANGUAGES for manager in language.managers]
    assert managers
    for manager in managers:
        assert manager.registries
        assert set(manager.caches) <= CACHES.keys()


def test_caches_share_no_variable() -> None:
    """A policy can list all caches at once."""
    names = [name for variables in CACHES.values() for name in variables]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["-x", "a b", "a;b", "$(x)", "a\nb", "é"])
def test_no_shell_interprets_a_directory(name: str) -> None:
    """The commands are printed for users who paste them."""
    cargo = next(each for each in LANGUAGES if each.name == "Rust").managers[0]
    project = ProjectFacts(installations=(Installation(name, cargo), Installation("b", cargo)))
    assert [" -C b " in command for command in install_commands(project)] == [True]


def test_many_packages_are_counted() -> None:
    project = ProjectFacts(installations=installations([f"p{each}/go.mod" for each in range(30)]))
    commands = list(install_commands(project))
    assert len(commands) == MOST_INSTALLATIONS + 1
    assert commands[-1] == f"… and {30 - MOST_INSTALLATIONS} more"
