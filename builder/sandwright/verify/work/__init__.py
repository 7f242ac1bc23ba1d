"""Probes of usefulness: what a policy allows is done with real programs, each beside its nearest denial.

A probe is data, in `probes/FAMILY.yaml`; `probe` reads it. `prove` gives each a new project, starts a
sandbox of the method on it as a run would, and `judge` makes the verdict of the shared kind.
"""
