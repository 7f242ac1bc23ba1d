"""The program that starts a rendered sandbox, watches over it and cleans up after it (docs/launcher.md)."""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

SMALLER = ("-Xclang", "-Oz", "-fomit-frame-pointer")
"""Zig takes -Oz for -Os: the compiler itself has to be told. 15 KB of 261."""

LAUNCH = PrebuiltProgram("launch", Path(__file__).parent, ("linux/amd64", "linux/arm64"), SMALLER)
