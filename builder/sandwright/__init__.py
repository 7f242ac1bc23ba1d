"""Builds sandboxes from one policy, and proves them."""

__version__ = "0.1.0"
