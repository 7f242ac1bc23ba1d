"""Proves the sandbox command of somebody else, with our probes, controls and reports, by its promises."""
