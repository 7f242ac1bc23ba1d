"""Turns a checked policy into artifacts: pure functions from values to text and bytes."""
