"""Programs of Debian 13 for tests on Debian 12: fetched by apt, and kept in the cache."""

from __future__ import annotations

import fcntl
import os
import platform
import tempfile
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError, SandwrightError
from sandwright.image.apt import PrivateApt
from sandwright.image.aptsources import debian_sources
from sandwright.image.cache import default_cache
from sandwright.image.mirrors import machine_mirrors

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_FETCH = ("--download-only", "--yes", "-q", "--no-install-recommends", "-o", "APT::Sandbox::User=root")


def unpacked(package: str, program: str) -> Path:
    """A root that contains `program`, a path in it: the package with all its dependencies, unpacked.

    Raise HostError if it is unavailable.
    """
    if not KEYRING.exists() or not process.find("apt-get") or platform.machine() != "x86_64":
        raise HostError(f"{package} of Debian 13 is fetched by apt, for amd64")
    kept = default_cache(os.environ) / "tests/debian13"
    kept.mkdir(parents=True, exist_ok=True)
    root = kept / package
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / program).exists():
            try:
                _fetch(kept, package, root)
            except SandwrightError as error:
                said = str(error).splitlines()[0]
                raise HostError(f"{package} of Debian 13 can't be had: {said}") from error
    return root


def _fetch(kept: Path, package: str, root: Path) -> None:
    apt = PrivateApt(kept / "apt", "trixie", "amd64", machine_mirrors(), KEYRING, debian_sources("trixie"))
    settings = {**os.environ, "APT_CONFIG": str(kept / "apt/apt.conf"), "LC_ALL": "C.UTF-8"}
    with apt.opened():
        apt.update()
        process.run("apt-get", "install", *_FETCH, package, env=settings, timeout=200)
    with tempfile.TemporaryDirectory(dir=kept) as scratch:
        for archive in (kept / "apt/cache/archives").glob("*.deb"):
            process.run("dpkg-deb", "--extract", archive, f"{scratch}/root", timeout=60)
            archive.unlink()
        Path(scratch, "root").replace(root)
