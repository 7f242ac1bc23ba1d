"""The program that copies a project into a Pod's volume, and reports the changes there."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

COPIER = PrebuiltProgram("projectcopy", Path(__file__).parent, ("linux/amd64", "linux/arm64"))
