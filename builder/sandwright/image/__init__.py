"""Image definitions and how images are built: locks, packages, layers, layouts."""
