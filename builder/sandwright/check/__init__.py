"""Looks an image over: its documents, each layer, the files they make together, its configuration, secrets.

Any image that `rootfs.images` opens can be looked over, and nothing of it is run but the commands of a
structure test that the caller brings. Every finding names its rule, and `RULES` says what each is for.
"""
