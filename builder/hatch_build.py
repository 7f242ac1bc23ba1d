"""Gives wheels for Linux the native command and their tag; any other wheel has the script.

A wheel is for the machine that it is built on, as sdists and editable installs need it. `SANDWRIGHT_WHEEL`
names another platform of TAGS, or `any`.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
}
"""A static program runs on any of them."""
MACHINES = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


class NativeCommandHook(BuildHookInterface):  # type: ignore[type-arg]
    """Chooses the command of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Set the files, the tag and the script of a wheel in `build_data`."""
        here = MACHINES.get(platform.machine(), "any") if sys.platform == "linux" else "any"
        wanted = os.environ.get("SANDWRIGHT_WHEEL") or here
        if wanted == "any":
            build_data["shared_scripts"]["builder/bin/sandwright"] = "sandwright"
            return
        if wanted not in TAGS:
            raise ValueError(f"SANDWRIGHT_WHEEL is {wanted!r}, and must be {', '.join(TAGS)} or any")
        program = f"builder/sandwright/front/programs/{wanted.replace('/', '-')}/sandwright"
        build_data["shared_scripts"][program] = "sandwright"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{TAGS[wanted]}"
