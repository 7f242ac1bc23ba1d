"""Git: the formats of its files, and commands that read objects and run nothing that a repository names."""
