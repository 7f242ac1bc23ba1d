"""Fixtures of runtimes: a small real image, this machine's facts, a listener."""

from __future__ import annotations

from support.small_image import host, listening, small_image

__all__ = ["host", "listening", "small_image"]
