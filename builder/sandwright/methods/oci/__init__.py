"""runc and crun on an unpacked image."""
