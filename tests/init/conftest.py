"""The commands, forked from a process that has imported the package."""

from __future__ import annotations

from documentation.conftest import programs

__all__ = ["programs"]
