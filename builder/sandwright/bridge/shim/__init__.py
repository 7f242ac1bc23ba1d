"""The shim: a small static program inside the sandbox that forwards calls to a program on the host."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

SHIM_PROGRAM = PrebuiltProgram(
    "shim", Path(__file__).parent, ("linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64")
)
