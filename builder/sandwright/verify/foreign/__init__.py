"""Proves anybody's sandbox command: our probes, controls and reports, by what it promises."""
