"""Fixtures for proofs and for the proxy."""

from egress.conftest import names, running, world
from support.small_image import host, listening, small_image
from verify.conftest import prove_with

__all__ = ["host", "listening", "names", "prove_with", "running", "small_image", "world"]
