"""Proves that an image with `config.init` maps its user: who one is inside, and whose the new files are."""
