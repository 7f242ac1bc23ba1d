"""Fixtures for runs."""

from session.conftest import forked, host, project

__all__ = ["forked", "host", "project"]
