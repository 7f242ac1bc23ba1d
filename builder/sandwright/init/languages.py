"""What languages and tools leave in a project, and what they need of a sandbox. Data, in one table.

The variables set each tool's cache (see the tools' manuals); the hosts are each tool's
default registries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Language:
    """A language by the files that tell of it.

    `caches` are variables that lead its tools to the run's own directory, as the home is not writable.
    `registries` are what it downloads from. `fragments` are those of the Seatbelt profile that it needs
    beyond the preset `default`. `try_out` are commands that test a project, each with the names, as patterns
    of paths, of which one must be there; the first that fits is taken.
    """

    name: str
    markers: tuple[str, ...]
    caches: Mapping[str, str] = field(default_factory=dict)
    registries: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    try_out: tuple[tuple[str, tuple[str, ...]], ...] = ()


MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""The names of which make takes the first."""

LANGUAGES = (
    Language(
        "Python",
        (
            *("pyproject.toml", "requirements*.txt", "setup.py", "setup.cfg", "Pipfile", "tox.ini"),
            *("poetry.lock", "uv.lock"),
        ),
        {"PIP_CACHE_DIR": "$TMP/cache/pip", "UV_CACHE_DIR": "$TMP/cache/uv"},
        ("pypi.org", "files.pythonhosted.org"),
        try_out=(
            ("python3 -m pytest", ("conftest.py", "*/conftest.py", "pytest.ini", "*/test_*.py")),
            ("python3 -m unittest", ("*",)),
        ),
    ),
    Language(
        "Node",
        ("package.json",),
        {"npm_config_cache": "$TMP/cache/npm", "YARN_CACHE_FOLDER": "$TMP/cache/yarn"},
        ("registry.npmjs.org", "registry.yarnpkg.com"),
        try_out=(
            ("pnpm test", ("pnpm-lock.yaml",)),
            ("yarn test", ("yarn.lock",)),
            ("npm test", ("package.json",)),
        ),
    ),
    Language(
        "Go",
        ("go.mod", "go.work"),
        {"GOCACHE": "$TMP/cache/go-build"},
        ("proxy.golang.org", "sum.golang.org"),
        try_out=(("go test ./...", ("*",)),),
    ),
    Language(
        "Rust",
        ("Cargo.toml",),
        {},
        ("index.crates.io", "static.crates.io", "crates.io"),
        try_out=(("cargo test", ("*",)),),
    ),
    Language(
        "Java",
        ("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        {"GRADLE_USER_HOME": "$TMP/cache/gradle"},
        ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org"),
        ("java",),
        try_out=(
            ("./gradlew test", ("gradlew",)),
            ("gradle test", ("build.gradle", "build.gradle.kts")),
            ("mvn test", ("pom.xml",)),
        ),
    ),
    Language(
        "Ruby",
        ("Gemfile",),
        {},
        ("rubygems.org", "index.rubygems.org"),
        try_out=(("bundle exec rake", ("Rakefile",)),),
    ),
    Language(
        ".NET",
        ("*.csproj", "*.fsproj", "*.sln"),
        {"DOTNET_CLI_HOME": "$TMP/cache/dotnet"},
        ("api.nuget.org",),
        try_out=(("dotnet test", ("*",)),),
    ),
    Language(
        "PHP", ("composer.json",), {"COMPOSER_CACHE_DIR": "$TMP/cache/composer"}, ("repo.packagist.org",)
    ),
    Language(
        "Swift",
        ("Package.swift", "*.xcodeproj"),
        {},
        (),
        ("xcode",),
        try_out=(("swift test", ("Package.swift",)),),
    ),
    Language("C and C++", ("CMakeLists.txt", "meson.build", "configure.ac"), {}, ()),
    Language("Make", MAKEFILES, {}, ()),
)
"""In the order in which they are named to a person."""

SECRETS = (
    *(".env", ".env.*", "*.env"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa", "id_ecdsa", "id_ed25519"),
    *(".npmrc", ".pypirc", ".netrc", ".htpasswd", ".vault-token", "kubeconfig"),
    *("credentials.json", "service-account*.json", "client_secret*.json", "secrets.y*ml", "secrets.json"),
    *("terraform.tfstate", "terraform.tfstate.backup", "*.tfvars"),
)
"""Names, as patterns, of files that usually hold keys, tokens or passwords."""

NO_SECRETS = (
    *("*.example", "*.sample", "*.template", "*.dist", "*.pub", "*.pub.*"),
    *("example.*", "*.example.*", "*.sample.*", "*.template.*"),
)
"""Names of their neighbours that hold none, although they look alike: templates and public keys."""

PIPELINES = (
    (".github/workflows", "GitHub Actions"),
    (".gitlab-ci.yml", "GitLab CI"),
    (".circleci", "CircleCI"),
    ("azure-pipelines.yml", "Azure Pipelines"),
    ("bitbucket-pipelines.yml", "Bitbucket"),
    ("Jenkinsfile", "Jenkins"),
    (".buildkite", "Buildkite"),
    (".drone.yml", "Drone"),
    (".travis.yml", "Travis CI"),
)
"""What a CI system runs, with that system's secrets, and its name."""

CONTAINERS = (
    *("Dockerfile", "Containerfile", "Dockerfile.*"),
    *("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
)
"""Files from which a container engine builds or starts something."""

PASSED_OVER = frozenset((
    *(".git", ".hg", ".svn", ".sandbox", "node_modules", "vendor", "target", "build", "dist", "__pycache__"),
    *(".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".idea"),
))  # fmt: skip
"""Directories that are not looked into: they hold what tools put there."""


def languages(name: str) -> tuple[Language, ...]:
    """The languages that a file of this name tells of."""
    return tuple(each for each in LANGUAGES if any(fnmatchcase(name, marker) for marker in each.markers))


def try_out(names: Collection[str], makes_test: bool) -> Iterator[str]:
    """The commands that test a project with some files, one for each of its languages, in their order.

    `makes_test`: its Makefile has a target `test`, which then comes first.
    """
    if makes_test:
        yield "make test"
    for each in LANGUAGES:
        if any(fnmatchcase(name, marker) for marker in each.markers for name in names):
            fitting = (command for command, needed in each.try_out if _any_like(names, needed))
            yield from list(fitting)[:1]


def _any_like(names: Collection[str], patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def is_secret(name: str) -> bool:
    """Whether a file of this name usually holds a secret."""
    return _like(name, SECRETS) and not _like(name, NO_SECRETS)


def is_container_file(name: str) -> bool:
    """Whether an engine builds or starts something from a file of this name."""
    return _like(name, CONTAINERS)


def _like(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
