"""Fixtures for runs."""

from session.conftest import forked, project

__all__ = ["forked", "project"]
