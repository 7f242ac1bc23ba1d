"""Audits an image: its documents, its layers, the merged files, its configuration, secrets.

It audits any image that `rootfs.images` opens. Nothing of the image is run but the commands of the caller's
structure tests. Every finding names its rule; `RULES` describes each.
"""
