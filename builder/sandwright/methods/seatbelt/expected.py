"""Expected results of the probes in seatbelt, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import reasons

_REFUSED = Answers("EPERM", "Seatbelt answers every refusal with this error")

EXPECTED: Mapping[str, Answers] = {
    "readonly.write": _REFUSED,
    "readonly.move": _REFUSED,
    "git.symlink": _REFUSED,
    "git.move": Answers("", reasons.GIT_LINKS_MOVED),
    "covered.write": _REFUSED,
    "covered.make": _REFUSED,
    "covered.replace": _REFUSED,
    "covered.inside": _REFUSED,
    "hidden.entry": _REFUSED,
    "reserved.read": _REFUSED,
    "reserved.write": _REFUSED,
    "hidden.list": _REFUSED,
    "hidden.create": _REFUSED,
    "hidden.file": _REFUSED,
    "hidden.file.write": _REFUSED,
    "hidden.kind": _REFUSED,
    "absent": _REFUSED,
    "absent.create": _REFUSED,
    "tmp.hidden": _REFUSED,
    "device.make": _REFUSED,
    "link.across": _REFUSED,
    "net.loopback": _REFUSED,
    "net.datagram": _REFUSED,
    "net.outside": _REFUSED,
    "unix.unlisted": _REFUSED,
    "unix.later": _REFUSED,
    "unix.written": _REFUSED,
    "cloud.write": _REFUSED,
    "cloud.hidden": _REFUSED,
    "cloud.hidden.file": _REFUSED,
}
"""By claim of `sandwright.verify.expected`."""
