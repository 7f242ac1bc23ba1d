"""An account of the project's own, on macOS, through alcless."""
