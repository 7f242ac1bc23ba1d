"""Starts, observes and ends sandboxes: bwrap, runc, crun, runsc, Docker, Podman.

`contract` defines the operations of a runtime, `registry` is the table of runtimes. To add one: a module here
and a row there. `preflight` finds out which runtimes start anything on this machine. No module here knows a
method of a policy.
"""
