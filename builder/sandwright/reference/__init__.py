"""Tables for the documentation, generated from the code, so that no page can go stale."""
