"""The program that starts a rendered sandbox, watches over it and cleans up after it (docs/launcher.md)."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

LAUNCH = PrebuiltProgram("launch", Path(__file__).parent, ("linux/amd64", "linux/arm64"))
