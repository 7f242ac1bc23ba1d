"""The program that watches over a sandbox's mounts."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

MOUNT_WATCH = PrebuiltProgram("mount-watch", Path(__file__).parent, ("linux/amd64", "linux/arm64"))
