"""Checks of the notes; `make test` runs them."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from . import Notes


class Checks(unittest.TestCase):
    """Notes are kept."""

    def test_notes_are_kept_in_order(self) -> None:
        """And from one object to the next."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "notes")
            Notes(path).add("first")
            Notes(path).add("second")
            self.assertEqual(Notes(path).all(), ["first", "second"])  # noqa: PT009 - it runs without pytest

    def test_a_note_is_one_line(self) -> None:
        """Two would be read as two notes."""
        with self.assertRaises(ValueError):  # noqa: PT027 - it runs without pytest
            Notes(Path("/nonexistent")).add("a\nb")
