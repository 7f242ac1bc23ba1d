"""Proves that an image with `config.init` maps its user: the user inside, and the owner of new files."""
