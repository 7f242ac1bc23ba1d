"""A Job in a cluster: rendered, and not run from here."""
