"""Review workspaces: copies of a project in which runs work, and the steps that apply their changes.

Untrusted programs wrote the copy. Each of its paths is looked up from an open directory,
one name at a time, and no link is followed. Paths are bytes, relative to the project.
"""
