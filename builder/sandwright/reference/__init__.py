"""What the code says of itself, as tables for the documentation, so that no page can go stale."""
