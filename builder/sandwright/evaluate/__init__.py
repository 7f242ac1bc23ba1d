"""Answers about artifacts, ours or anybody's: whether this is allowed, and which rule says so.

Pure: nothing here starts a program or looks at this machine.
"""
