"""Answers questions about artifacts from any source: whether an access is allowed, and which rule decides.

Pure: nothing here starts a program or looks at this machine.
"""
