"""Audits an image: its documents, its layers, the merged files, its configuration, secrets.

It audits any image that `rootfs.images` opens. It runs no program of the image except the commands of the
caller's structure tests. Every finding names its rule; `RULES` describes each.
"""
