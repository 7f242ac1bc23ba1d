"""Podman: containers of its engine."""
