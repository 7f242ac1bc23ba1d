"""A small image for tests: the machine's own Python with only the imports of the attempts, as bundle and as
archive.

It is made of the distribution's Python, so its programs are real; only its assembly by copying differs from
that of other images.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sandwright import process
from sandwright.engines.archive import write_docker_archive
from sandwright.host import MachineFacts, collect_host
from sandwright.runtime.contract import StartableImage
from sandwright.verify.canary import CanaryListener, canary_listener
from sandwright.verify.smoke.expected import GuestExpectation, ImageProgram
from sandwright.verify.smoke.target import describe_host

PYTHON = "/usr/bin/python3"
UID, GID = 65532, 65532
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "GREETING": "hello"}
CONFIG = {
    "User": "tester",
    "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
    "Cmd": [PYTHON],
}
_OCI = "application/vnd.oci.image"

_MODULES = "__future__, ast, errno, os, subprocess, sys, tempfile, pwd, socket, ssl, typing, encodings.idna"
_LIST = f"""
import {_MODULES}, json, sysconfig
files = [module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)]
print(json.dumps({{"files": files, "executable": os.path.realpath(sys.executable)}}))
"""


@dataclass(frozen=True)
class SmallImage:
    """The root file system, and the platform it runs on."""

    rootfs: Path
    platform: str

    def subject(self, directory: Path, **changes: Any) -> StartableImage:
        """A subject over this root; `changes` to the runtime configuration have dotted paths as keys."""
        config = runtime_config(self.rootfs)
        for path, value in changes.items():
            at = config
            *parents, last = path.split("__")
            for parent in parents:
                at = at[parent]
            at[last] = value
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(config))
        return StartableImage("small", self.platform, directory, self._write_archive)

    def expected(self, **changes: Any) -> GuestExpectation:
        """The expected view of a started container."""
        plain: dict[str, Any] = {
            "platform": self.platform,
            "uid": UID,
            "gid": GID,
            "outside": describe_host(),
            "user": "tester",
            "environment": ENVIRONMENT,
            "programs": (ImageProgram("python3 --version", (PYTHON, "--version"), prints="Python 3"),),
        }
        return GuestExpectation(**{**plain, **changes})

    def write_layout(self, directory: Path) -> str:
        """Write it as an OCI image layout, by hand; return the digest of its manifest."""
        blobs = directory / "blobs" / "sha256"
        blobs.mkdir(parents=True)

        def blob(content: bytes, media_type: str) -> dict[str, Any]:
            name = hashlib.sha256(content).hexdigest()
            (blobs / name).write_bytes(content)
            return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(content)}

        operating_system, architecture = self.platform.split("/")
        layer = self._layer()
        config = {
            "os": operating_system,
            "architecture": architecture,
            "config": CONFIG,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": blob(json.dumps(config).encode(), f"{_OCI}.config.v1+json"),
            "layers": [blob(layer, f"{_OCI}.layer.v1.tar")],
        }
        described = blob(json.dumps(manifest).encode(), f"{_OCI}.manifest.v1+json")
        described["platform"] = {"os": operating_system, "architecture": architecture}
        index = {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [described]}
        (directory / "index.json").write_text(json.dumps(index))
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        digest: str = described["digest"]
        return digest

    def _write_archive(self, sink: BinaryIO, reference: str) -> None:
        write_docker_archive(sink, reference, self.platform, self._layer(), CONFIG)

    def _layer(self) -> bytes:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.add(self.rootfs, arcname=".", filter=_of_root)
        return layer.getvalue()


def make_small_image(directory: Path) -> SmallImage:
    """Assemble it in `directory`."""
    rootfs = directory / "rootfs"
    for name in ("proc", "dev", "sys", "etc", "var/tmp", "run"):
        (rootfs / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (rootfs / name).mkdir(exist_ok=True)
        (rootfs / name).chmod(0o1777)
    found = json.loads(process.run(PYTHON, "-c", _LIST, env={}).text)
    files = {*map(Path, found["files"]), Path(found["executable"])}
    for file in files | _libraries(files):
        _copy(file, rootfs)
    process.run(
        PYTHON, "-m", "compileall", "-q", rootfs / "usr/lib", env={}
    )  # otherwise every start compiles all of it
    (rootfs / "usr/bin/python3").unlink(missing_ok=True)
    (rootfs / "usr/bin/python3").symlink_to(Path(found["executable"]).name)
    (rootfs / "etc/passwd").write_text(f"root:x:0:0::/:/\ntester:x:{UID}:{GID}::/:/\n")
    (rootfs / "etc/group").write_text(f"root:x:0:\ntester:x:{GID}:\n")
    return SmallImage(rootfs, collect_host().platform)


def runtime_config(rootfs: Path) -> dict[str, Any]:
    """A configuration written by hand, not taken from the code under test."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": UID, "gid": GID},
            "args": [PYTHON],
            "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": str(rootfs), "readonly": True},
        "hostname": "small",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "mode=755", "size=65536k"],
            },
            {
                "destination": "/tmp",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "nodev", "mode=1777", "size=64m"],
            },
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("mount", "pid", "network", "ipc", "uts")]},
    }


def _libraries(files: set[Path]) -> set[Path]:
    """The files that the dynamic linker maps for them: absolute paths in the output of ldd."""
    binaries = [file for file in files if file.suffix != ".py"]
    printed = process.run("ldd", *binaries, env={}, check=False).text
    return {Path(word) for word in printed.split() if word.startswith("/") and not word.endswith(":")}


def _copy(file: Path, rootfs: Path) -> None:
    target = rootfs / str(file).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    return member


@pytest.fixture(scope="session")
def host() -> MachineFacts:
    return collect_host()


@pytest.fixture(scope="session")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> SmallImage:
    if process.find(PYTHON) is None:
        pytest.skip(f"{PYTHON} is not installed")
    return make_small_image(tmp_path_factory.mktemp("small-image"))


@pytest.fixture
def listening() -> Iterator[CanaryListener]:
    with canary_listener() as hearing:
        yield hearing
