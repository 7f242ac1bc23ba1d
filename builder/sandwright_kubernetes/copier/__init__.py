"""The program that carries a project into a Pod's volume, and tells what was changed there."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

COPIER = PrebuiltProgram("projectcopy", Path(__file__).parent, ("linux/amd64", "linux/arm64"))
