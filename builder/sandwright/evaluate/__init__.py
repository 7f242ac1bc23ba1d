"""Answers about artifacts, ours or anybody's: would this be allowed, and which rule says so?

Pure: nothing here starts a program or looks at this machine.
"""
