"""Locks and downloads Python packages with pip, without running any code of a package.

Only wheels are taken, and each must have a hash in the requirements. pip's own settings name the index.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.errors import CommandFailed, FetchError, IntegrityError, LockError
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.lock import Lock, LockedPackage
from sandwright.image.lockedwheel import LockedWheel, normalised
from sandwright.reading import read_unlinked

_TIMEOUT = 1800.0
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_OLD_TAGS = {
    "linux/amd64": ("manylinux2014", "manylinux2010", "manylinux1"),
    "linux/arm64": ("manylinux2014",),
}
_REQUIREMENT = re.compile(
    r"([a-z0-9][\w.-]*\s*(\[[\w., -]*\])?\s*([=<>!~][\w.*+!,=<>~ ]*)?(;[\w.+'\"<>=!~(), -]*?)?)?"
    r"(\s*--hash=\w+:\w+)*",
    re.IGNORECASE | re.ASCII,
)
_FIRST_GLIBC = {"linux/amd64": 5, "linux/arm64": 17}


@dataclass(frozen=True)
class PythonTarget:
    """The target of wheels: the image's version of Python, like 3.11, and of glibc, like 36 for 2.36."""

    platform: str
    python: str
    glibc: int

    @property
    def options(self) -> list[str]:
        """The options by which pip chooses wheels for it instead of for this machine."""
        machine = _MACHINES[self.platform]
        tags = [f"manylinux_2_{minor}" for minor in range(self.glibc, _FIRST_GLIBC[self.platform] - 1, -1)]
        tags += [*_OLD_TAGS[self.platform], "linux"]
        return [
            "--implementation=cp",
            f"--python-version={self.python}",
            *(f"--abi={abi}" for abi in (f"cp{self.python.replace('.', '')}", "abi3", "none")),
            *(f"--platform={tag}_{machine}" for tag in tags),
        ]


def python_target(platform: str, packages: Iterable[LockedPackage]) -> PythonTarget:
    """The target of an image with these packages. Raise LockError if they have no Python."""
    versions = {each.name: each.version for each in packages}
    minimal = re.compile(r"libpython(3\.[0-9]+)-minimal")
    pythons = [match[1] for name in versions if (match := minimal.fullmatch(name))]
    glibc = re.match(r"2\.([0-9]+)", versions.get("libc6", ""))
    if len(pythons) != 1 or glibc is None:
        raise LockError("languages.pip: the image has no Python; add the package python3")
    return PythonTarget(platform, pythons[0], int(glibc[1]))


def with_wheels(definition: ImageDefinition, lock: Lock, cache: Cache) -> Lock:
    """The lock with the wheels that the requirements of an image resolve to, which are added to the cache.

    Raise LockError with pip's message, such as for a requirement with a missing or different hash.
    """
    assert definition.languages.pip is not None
    path = definition.folder / definition.languages.pip
    text = read_unlinked(definition.real / definition.languages.pip).decode()
    requirements = _checked_requirements(text, path)
    targets = {platform: python_target(platform, packages) for platform, packages in lock.platforms.items()}
    wheels = {each: _resolve(definition, target, requirements, cache) for each, target in targets.items()}
    return replace(lock, wheels=wheels)


def _checked_requirements(text: str, path: Path) -> str:
    """Requirements by name, without comments: one of them could state another encoding.

    For a path or a URL, or with `--no-binary`, pip would build the download, and so run its code.
    """
    found = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():  # pip ends lines where `splitlines` does
        requirement = re.sub(r"(^|\s+)#.*", "", line).strip()
        if re.match(r"-(?!-hash\b)", requirement):
            raise LockError(f"{path}: {requirement}: an option; name the index in pip's own settings")
        if not _REQUIREMENT.fullmatch(requirement):
            raise LockError(f"{path}: {requirement}: not the name of a package, with a version and hashes")
        found.append(f"{requirement}\n")
    return "".join(found)


def _resolve(
    definition: ImageDefinition, target: PythonTarget, requirements: str, cache: Cache
) -> tuple[LockedWheel, ...]:
    with tempfile.TemporaryDirectory(prefix="pip-", dir=user_dirs.scratch()) as directory:
        try:
            found = _pip_download(target, requirements, Path(directory))
        except CommandFailed as error:
            what = f"image '{definition.name}': languages.pip: {target.platform}"
            raise LockError(f"{what}: {error.stderr.strip()}") from error
        return tuple(sorted(_cache_wheel(path, cache) for path in found))


def fetch_wheels(wheels: Sequence[LockedWheel], target: PythonTarget, cache: Cache) -> None:
    """Download wheels into the cache. Raise FetchError, IntegrityError."""
    lines = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in wheels]
    with tempfile.TemporaryDirectory(prefix="pip-", dir=user_dirs.scratch()) as directory:
        try:
            found = _pip_download(target, "".join(lines), Path(directory), "--no-deps")
        except CommandFailed as error:
            raise FetchError(f"pip: {error.stderr.strip()}") from error
        there = {_cache_wheel(path, cache).sha256 for path in found}
    for each in wheels:
        if each.sha256 not in there:
            raise IntegrityError(f"{each}: pip downloaded another file than the lock names")


def _pip_download(target: PythonTarget, requirements: str, directory: Path, *options: str) -> Iterator[Path]:
    """Let pip download wheels into a directory."""
    listed, wheels = directory / "requirements.txt", directory / "wheels"
    listed.write_text(requirements, encoding="utf-8")
    wheels.mkdir()
    program = process.find("pip3") or process.find("pip") or "pip3"
    process.run(
        program,
        *_own_interpreter(program),
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--require-hashes",
        "--only-binary=:all:",
        f"--dest={wheels}",
        f"--requirement={listed}",
        *target.options,
        *options,
        timeout=_TIMEOUT,
        cwd=directory,  # an archive of a requirement's name in the working directory would be built
    )
    return iter(sorted(wheels.iterdir()))


def _own_interpreter(program: str) -> tuple[str, ...]:
    """The option that overrules `python` in pip's settings, which a sandbox may write: pip would run it.

    Before 22.3, pip has neither.
    """
    option = "--python="
    return (option,) if process.run(program, option, "--version", check=False) else ()


def _cache_wheel(path: Path, cache: Cache) -> LockedWheel:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        name, version, *_ = path.name.split("-")
        wheel = LockedWheel(normalised(name), version, path.stat().st_size, digest, path.name)
        cache.keep(file, digest, wheel.size)
    return wheel
