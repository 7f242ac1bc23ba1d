"""The files by which programs look up names of hosts, for a sandbox whose network is its own.

What the host's say, nothing lists; and what an image's say, nobody knows.
"""

from __future__ import annotations


def name_files(hostname: str, *, proxied: bool) -> dict[str, bytes]:
    """hosts(5) and resolv.conf(5), by name below /etc."""
    names = f"127.0.0.1\tlocalhost {hostname}\n::1\tlocalhost\n"
    return {
        "hosts": names.encode(),
        "resolv.conf": b"# There are no names here.\n" if proxied else b"# There is no network.\n",
    }
