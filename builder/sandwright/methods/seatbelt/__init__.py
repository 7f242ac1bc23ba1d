"""Seatbelt: macOS' own sandbox, through sandbox-exec."""
