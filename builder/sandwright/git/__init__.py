"""Git: the formats of its files, and commands that read objects and run no program of a repository."""
