"""What programs of the host execute or obey, beside sandwright's own state: images and the engines' settings.

A sandbox that writes there decides what a later sandbox is, or what Docker and Podman start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandwright.environment import BUILD as BUILD_VARIABLE
from sandwright.environment import ROOTFS as ROOTFS_VARIABLE
from sandwright.resources import data_path

BUILD = BUILD_VARIABLE.name
"""Names the directory that `build-images` wrote, where it is not the checkout's."""

ROOTFS = ROOTFS_VARIABLE.name
"""Names an unpacked root itself, for the launcher, and from the caller."""

VARIABLES = (
    *(BUILD, ROOTFS, "DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
)
"""The variables that name some of it."""


def checkout_build() -> Path:
    """What was built in the checkout that this program is of."""
    return data_path("images").parent / "build"


def trusted_directories(environ: Mapping[str, str]) -> Iterator[str]:
    """The directories outside the usual ones: images, settings of Docker, settings and images of Podman."""
    yield str(checkout_build())
    for name in (BUILD, ROOTFS, "DOCKER_CONFIG"):
        if environ.get(name):
            yield os.path.abspath(environ[name])  # noqa: PTH100 - links stay
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        if environ.get(name, "").startswith("/"):
            yield os.path.normpath(f"{environ[name]}/containers")


def trusted_files(environ: Mapping[str, str]) -> Iterator[str]:
    """Single files that Podman takes in place of its usual settings (containers.conf(5))."""
    for name in ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"):
        if environ.get(name, "").startswith("/"):
            yield os.path.normpath(environ[name])
