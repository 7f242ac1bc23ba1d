"""Fixtures of runs."""

from session.conftest import host, project

__all__ = ["host", "project"]
