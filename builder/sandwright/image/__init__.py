"""What an image is and how it is made: definition, lock, packages, layers, layout."""
