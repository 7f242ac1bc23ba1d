"""The review workspace: a copy of a project in which a run works, and the way of its changes back.

Untrusted programs wrote the copy. Each of its paths is looked up from an open directory,
one name at a time, and no link is followed. Paths are bytes, relative to the project.
"""
