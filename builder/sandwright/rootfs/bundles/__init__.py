"""From an image to a runtime's bundle: its configuration, its user, and its mounts."""
