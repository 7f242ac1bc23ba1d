"""Files that programs of the host execute or obey: images and the engines' settings.

A sandbox that writes there controls later sandboxes, or the programs that Docker and Podman start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandwright.environment import BUILD as BUILD_VARIABLE
from sandwright.environment import ROOTFS as ROOTFS_VARIABLE
from sandwright.resources import data_path, in_checkout

BUILD = BUILD_VARIABLE.name
"""The variable that names the directory of `build-images`, if it is not the default one."""

ROOTFS = ROOTFS_VARIABLE.name
"""Names an unpacked root itself, for the launcher, and from the caller."""

_FILES = (
    *("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF"),
    "REGISTRY_AUTH_FILE",
)
VARIABLES = (BUILD, ROOTFS, "DOCKER_CONFIG", "KUBECONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", *_FILES)
"""The variables that name some of it."""


def default_build() -> Path:
    """The directory of images without a variable: `build` of the checkout, for a wheel the data directory."""
    if in_checkout():
        return data_path("images").parent / "build"
    base = os.environ.get("XDG_DATA_HOME", "")
    return Path(base if base.startswith("/") else os.path.expanduser("~/.local/share"), "sandwright")  # noqa: PTH111 - HOME may be unset


def trusted_directories(environ: Mapping[str, str]) -> Iterator[str]:
    """The directories outside the usual ones: images, settings of Docker, settings and images of Podman."""
    yield str(default_build())
    for name in (BUILD, ROOTFS, "DOCKER_CONFIG"):
        if environ.get(name):
            yield _from_current_directory(environ[name])
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        if environ.get(name):  # Podman takes relative ones, too
            yield _from_current_directory(f"{environ[name]}/containers")
    if environ.get("XDG_DATA_HOME", "").startswith("/"):
        yield f"{environ['XDG_DATA_HOME']}/sandwright"


def settings_directories(environ: Mapping[str, str]) -> Iterator[str]:
    """The directories with settings of Docker and Podman that variables name."""
    if environ.get("DOCKER_CONFIG"):
        yield _from_current_directory(environ["DOCKER_CONFIG"])
    if environ.get("XDG_CONFIG_HOME"):
        yield _from_current_directory(f"{environ['XDG_CONFIG_HOME']}/containers")


def trusted_files(environ: Mapping[str, str]) -> Iterator[str]:
    """Files that name programs of the host: Podman's settings (containers.conf(5)) and kubeconfigs.

    Relative paths start from the current directory. Files in `~/.kube` are left out, as a policy may make
    that writable (docs/threats.md).
    """
    yield from (_from_current_directory(environ[name]) for name in _FILES if environ.get(name))
    usual = os.path.join(environ.get("HOME") or "/", ".kube", "")  # noqa: PTH118
    for each in environ.get("KUBECONFIG", "").split(os.pathsep):
        if each and not os.path.normpath(_from_current_directory(each)).startswith(usual):
            yield _from_current_directory(each)


def _from_current_directory(path: str) -> str:
    """From the current directory, which need not be there for another path. Links and `..` stay."""
    return path if path.startswith("/") else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
