"""Gets the sources of public projects by the clients of package registries, each into its own directory.

A source is `{client: name}`: of Debian's archive (`apt`), PyPI (`pypi`), crates.io (`crate`), Maven's
repository (`maven`), or what npm's `create-NAME` makes (`create`). None of it is kept in this repository.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TIMEOUT = 300
"""Seconds that one start of a client may take."""

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"


class SourceError(Exception):
    """The sources of a project can't be had here."""


def sources(name: str, origin: Mapping[str, str], folder: Path) -> Path:
    """The directory `folder/name` with a project's sources; what is there already is taken as it is.

    Raise SourceError when the client isn't there, or doesn't get them.
    """
    found = folder / name
    if found.is_dir():
        return found
    folder.mkdir(parents=True, exist_ok=True)
    [(client, package)] = origin.items()
    with tempfile.TemporaryDirectory(prefix=".getting-", dir=folder) as scratch:
        got = _CLIENTS[client](package, Path(scratch))
        got.rename(found)
    return found


def _run(argv: Sequence[str], folder: Path, **variables: str) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise SourceError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"{' '.join(argv)} took longer than {TIMEOUT} s") from None
    if done.returncode:
        raise SourceError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _unpacked(archive: Path, folder: Path) -> Path:
    """The one directory that an archive holds."""
    target = folder / "unpacked"
    target.mkdir()
    _run(("tar", "--extract", "--no-same-owner", "--file", str(archive)), target)
    [top] = target.iterdir()
    return top


def _apt(package: str, folder: Path) -> Path:
    """The archive of upstream's sources that Debian keeps, of the newest version that the mirror has."""
    words = ("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)")
    targets = sorted({line for line in _run(words, folder).splitlines() if line.endswith(" main")})
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    (folder / "sources.list").write_text("".join(f"deb-src {signed}{line}\n" for line in targets))
    (folder / "lists").mkdir()
    options = [
        *("-o", f"Dir::Etc::sourcelist={folder / 'sources.list'}", "-o", "Dir::Etc::sourceparts=/dev/null"),
        *("-o", f"Dir::State::lists={folder / 'lists'}", "-o", "APT::Sandbox::User="),
    ]
    _run(["apt-get", *options, "-q", "update"], folder)
    shown = _run(["apt-cache", *options, "showsrc", package], folder)
    versions = [line.split()[1] for line in shown.splitlines() if line.startswith("Version: ")]
    failed = SourceError(f"apt knows no sources of {package}")
    for version in sorted(versions, reverse=True):
        try:
            _run(["apt-get", *options, "-q", "source", "--download-only", f"{package}={version}"], folder)
        except SourceError as error:
            failed = error
            continue
        return _unpacked(next(folder.glob("*.orig.tar.*[!c]")), folder)
    raise failed


def _pypi(package: str, folder: Path) -> Path:
    words = ("-q", "--no-deps", "--no-binary", package, package)
    _run([sys.executable, "-m", "pip", "download", *words], folder)
    return _unpacked(next(folder.glob("*.tar.gz")), folder)


def _crate(package: str, folder: Path) -> Path:
    (folder / "src").mkdir()
    (folder / "src/lib.rs").touch()
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "get"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n{package} = "*"\n'
    )
    _run(["cargo", "vendor", "--quiet"], folder, CARGO_HOME=str(folder / "home"))
    got = folder / "vendor" / package
    (got / ".cargo-checksum.json").unlink()
    return got


def _maven(package: str, folder: Path) -> Path:
    """A project of its sources, its tests' sources and its description."""
    group, artifact, version = package.split(":")
    got = folder / "project"
    for classifier, target in (("sources", "main"), ("test-sources", "test")):
        words = (f"-Dartifact={package}:jar:{classifier}", f"-Dmaven.repo.local={folder / 'm2'}")
        _run(["mvn", "-B", "-q", _MAVEN_GET, *words], folder)
        archive = folder / "m2" / group.replace(".", "/") / artifact / version
        with zipfile.ZipFile(archive / f"{artifact}-{version}-{classifier}.jar") as jar:
            jar.extractall(got / f"src/{target}/java")
        shutil.rmtree(got / f"src/{target}/java/META-INF", ignore_errors=True)
        _part_resources(got / "src" / target)
    shutil.copyfile(archive / f"{artifact}-{version}.pom", got / "pom.xml")
    return got


def _part_resources(folder: Path) -> None:
    """Put what is no source into the directory that Maven expects it in, and tests name."""
    for found in [each for each in (folder / "java").rglob("*") if each.is_file() and each.suffix != ".java"]:
        target = folder / "resources" / found.relative_to(folder / "java")
        target.parent.mkdir(parents=True, exist_ok=True)
        found.rename(target)


def _create(package: str, folder: Path) -> Path:
    name, template = package.split()
    _run(["npm", "exec", "--yes", "--", name, "project", "--template", template], folder)
    with contextlib.suppress(FileNotFoundError):
        (folder / "project/_gitignore").rename(folder / "project/.gitignore")
    return folder / "project"


_CLIENTS: Mapping[str, Callable[[str, Path], Path]] = {
    "apt": _apt,
    "pypi": _pypi,
    "crate": _crate,
    "maven": _maven,
    "create": _create,
}
