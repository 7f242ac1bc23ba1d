"""Probes of usefulness: real programs use the grants of a policy, each beside the nearest denial.

A probe is data, in `probes/FAMILY.yaml`; `probe` reads it. `prove` gives each a new project, and starts a
sandbox of the method on it as a run would; `judge` gives the verdict.
"""
