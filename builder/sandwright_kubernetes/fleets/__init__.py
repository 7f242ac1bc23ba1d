"""Fleets in a cluster: one Indexed Job, whose controller starts a Pod for each run and keeps count."""
