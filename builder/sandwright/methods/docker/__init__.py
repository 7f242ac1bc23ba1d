"""Docker: containers of its engine."""
