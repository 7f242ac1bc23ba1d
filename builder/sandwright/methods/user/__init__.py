"""An account of the project's own, on Linux."""
