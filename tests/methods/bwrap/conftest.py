"""Fixtures of runs."""

from session.conftest import project

__all__ = ["project"]
