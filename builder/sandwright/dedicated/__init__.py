"""Accounts of a project's own: how they are made, what is shared with them, and how they go.

`acl` reads and writes access control lists as the kernel keeps them, `sharing` gives and takes rights over a
tree, `setup` plans both together with the account itself: every step says what it will do before it does it.
"""
