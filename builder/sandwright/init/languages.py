"""Languages and package managers that `init` recognises, and the needs of each in a sandbox: tables of data.

The registries are the defaults of each package manager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class PackageManager:
    """A program that downloads the dependencies of a project.

    `markers` are patterns of file names, such as its lock file. `caches` are names that the policy's key
    `cache` knows. `install` is a shell command that downloads the dependencies in the directory of a marker.
    `registries` are hosts. A directory with the markers of a `member` manager can be a member of a workspace
    above it, and is left out if one of the same language is there.
    """

    name: str
    markers: tuple[str, ...]
    caches: tuple[str, ...]
    install: str
    registries: tuple[str, ...]
    member: bool = False


@dataclass(frozen=True)
class Language:
    """A language, recognised by patterns of file names.

    `managers` are its package managers, the preferred one first. `fragments` are those of the Seatbelt
    profile beyond the preset `default`. `try_out` are commands that test a project, each with patterns of
    paths of which one must exist; the first command that fits is used.
    """

    name: str
    markers: tuple[str, ...]
    managers: tuple[PackageManager, ...] = ()
    fragments: tuple[str, ...] = ()
    try_out: tuple[tuple[str, tuple[str, ...]], ...] = ()


MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""The names that make looks for, in this order."""

_PYPI = ("pypi.org", "files.pythonhosted.org")
_NPM = ("registry.npmjs.org",)
_MAVEN = ("repo.maven.apache.org", "repo1.maven.org")
_GRADLE = (*_MAVEN, "plugins.gradle.org", "services.gradle.org", "downloads.gradle.org")
_PACKAGIST = ("repo.packagist.org", "packagist.org", "api.github.com", "codeload.github.com")
_VENV = "python3 -m venv .venv && .venv/bin/pip install"

LANGUAGES = (
    Language(
        "Python",
        (
            *("pyproject.toml", "requirements*.txt", "setup.py", "setup.cfg", "Pipfile", "tox.ini"),
            *("poetry.lock", "uv.lock"),
        ),
        (
            PackageManager("uv", ("uv.lock",), ("uv",), "uv sync", _PYPI),
            PackageManager("poetry", ("poetry.lock",), ("poetry",), "poetry install", _PYPI),
            PackageManager("pip", ("requirements.txt",), ("pip",), f"{_VENV} -r requirements.txt", _PYPI),
            PackageManager(
                "pip", ("pyproject.toml", "setup.py"), ("pip",), f"{_VENV} -e .", _PYPI, member=True
            ),
        ),
        try_out=(
            ("python3 -m pytest", ("conftest.py", "*/conftest.py", "pytest.ini", "*/test_*.py")),
            ("python3 -m unittest", ("test*.py", "*/test*.py")),
        ),
    ),
    Language(
        "Node",
        ("package.json",),
        (
            PackageManager("pnpm", ("pnpm-lock.yaml",), ("pnpm",), "pnpm install", _NPM),
            PackageManager(
                "yarn", ("yarn.lock",), ("yarn",), "yarn install", ("registry.yarnpkg.com", *_NPM)
            ),
            PackageManager("bun", ("bun.lock", "bun.lockb"), ("bun",), "bun install", _NPM),
            PackageManager("npm", ("package-lock.json", "npm-shrinkwrap.json"), ("npm",), "npm ci", _NPM),
            PackageManager("npm", ("package.json",), ("npm",), "npm install", _NPM, member=True),
        ),
        try_out=(
            ("pnpm test", ("pnpm-lock.yaml",)),
            ("yarn test", ("yarn.lock",)),
            ("bun run test", ("bun.lock", "bun.lockb")),
            ("npm test", ("package.json",)),
        ),
    ),
    Language(
        "Go",
        ("go.mod", "go.work"),
        (
            PackageManager(
                *("go", ("go.mod", "go.work"), ("go",), "go mod download"),
                ("proxy.golang.org", "sum.golang.org"),
            ),
        ),
        try_out=(("go test ./...", ("*",)),),
    ),
    Language(
        "Rust",
        ("Cargo.toml",),
        (
            PackageManager(
                *("cargo", ("Cargo.toml",), ("cargo",), "cargo fetch"),
                ("index.crates.io", "static.crates.io", "crates.io"),
                member=True,
            ),
        ),
        try_out=(("cargo test", ("*",)),),
    ),
    Language(
        "Java",
        ("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        (
            PackageManager("gradle", ("gradlew",), ("gradle",), "./gradlew dependencies", _GRADLE),
            PackageManager(
                "gradle",
                ("build.gradle", "build.gradle.kts"),
                ("gradle",),
                "gradle dependencies",
                _GRADLE,
                member=True,
            ),
            PackageManager("maven", ("mvnw",), ("maven",), "./mvnw dependency:go-offline", _MAVEN),
            PackageManager(
                "maven", ("pom.xml",), ("maven",), "mvn dependency:go-offline", _MAVEN, member=True
            ),
        ),
        ("java",),
        try_out=(
            ("./gradlew test", ("gradlew",)),
            ("gradle test", ("build.gradle", "build.gradle.kts")),
            ("./mvnw test", ("mvnw",)),
            ("mvn test", ("pom.xml",)),
        ),
    ),
    Language(
        "Ruby",
        ("Gemfile",),
        (
            PackageManager(
                *("bundler", ("Gemfile",), ("bundler",), "bundle install"),
                ("rubygems.org", "index.rubygems.org"),
            ),
        ),
        try_out=(("bundle exec rake", ("Rakefile",)),),
    ),
    Language(
        ".NET",
        ("*.csproj", "*.fsproj", "*.sln"),
        (
            PackageManager(
                *("nuget", ("*.csproj", "*.fsproj", "*.sln"), ("nuget",), "dotnet restore"),
                ("api.nuget.org",),
            ),
        ),
        try_out=(("dotnet test", ("*",)),),
    ),
    Language(
        "PHP",
        ("composer.json",),
        (PackageManager("composer", ("composer.json",), ("composer",), "composer install", _PACKAGIST),),
    ),
    Language(
        "Swift",
        ("Package.swift", "*.xcodeproj"),
        fragments=("xcode",),
        try_out=(("swift test", ("Package.swift",)),),
    ),
    Language("C and C++", ("CMakeLists.txt", "meson.build", "configure.ac")),
    Language("Make", MAKEFILES),
)
"""In the order in which `init` lists them."""

TOOL_CACHES = (
    (".pre-commit-config.yaml", "pre-commit"),
    ("playwright.config.*", "playwright"),
    ("CMakeLists.txt", "ccache"),
    ("meson.build", "ccache"),
    ("configure.ac", "ccache"),
)
"""Patterns of file names, each with the cache of a tool that projects with such a file use."""

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
"""Similar names that hold no secret: templates and public keys."""

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
"""Paths that a CI system runs with its secrets, each with the system's name."""

CONTAINERS = (
    *("Dockerfile", "Containerfile", "Dockerfile.*"),
    *("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
)
"""Patterns of files from which a container engine builds or starts something."""

PASSED_OVER = frozenset((
    *(".git", ".hg", ".svn", ".sandbox", "node_modules", "vendor", "target", "build", "dist", "__pycache__"),
    *(".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".idea"),
))  # fmt: skip
"""Directories that `init` skips: tools fill them."""


def languages(name: str) -> tuple[Language, ...]:
    """The languages that a file of this name belongs to."""
    return tuple(each for each in LANGUAGES if _like(name, each.markers))


@dataclass(frozen=True)
class Installation:
    """A package manager, and the directory below the project in which it installs ("" for the project)."""

    directory: str
    manager: PackageManager


def installations(paths: Collection[str]) -> tuple[Installation, ...]:
    """The package managers of a project with these paths, sorted by language, then by directory.

    In each directory, the first manager of a language that has a marker there is used.
    """
    directories: dict[str, list[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        directories.setdefault(directory, []).append(name)
    return tuple(each for language in LANGUAGES for each in _installations_of(language, directories))


def _installations_of(language: Language, directories: Mapping[str, list[str]]) -> Iterator[Installation]:
    found: list[str] = []
    for directory, names in sorted(directories.items()):
        manager = next((each for each in language.managers if _any_like(names, each.markers)), None)
        if manager is None or (manager.member and any(_is_below(directory, above) for above in found)):
            continue
        found.append(directory)
        yield Installation(directory, manager)


def _is_below(directory: str, above: str) -> bool:
    return not above or directory.startswith(f"{above}/")


def tool_caches(paths: Collection[str]) -> tuple[str, ...]:
    """The caches of tools whose configuration is among these paths, in the order of the table."""
    names = [path.rpartition("/")[2] for path in paths]
    return tuple(dict.fromkeys(cache for pattern, cache in TOOL_CACHES if _any_like(names, (pattern,))))


def try_out(names: Collection[str], makes_test: bool) -> Iterator[str]:
    """The commands that test a project with these files, one for each language, in the order of the table.

    `makes_test`: the Makefile has a target `test`; `make test` then comes first.
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
    """Whether a container engine builds or starts something from a file of this name."""
    return _like(name, CONTAINERS)


def _like(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
