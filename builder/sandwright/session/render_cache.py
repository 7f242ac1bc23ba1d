"""What was rendered before, and whether it still holds.

A slot for each request holds what was made for it, and every question to this machine that decided it, with
its answer: which files say the policy and what they hold, what was at each path that was looked at, which
programs there are, of which files this program itself consists. While all answers are the same, rendering
would give the same, and is left out.

An entry says what is started, with which environment, and the digests of the artifacts. Its first line is
the HMAC-SHA256 in hexadecimal of its file's name, a NUL, and the bytes after that line (`cache_key`). An
entry with any other first line is not used.
"""

from __future__ import annotations

import os
import sys

from sandwright import digests, inputs, places, smalljson
from sandwright.session import cache_key

SCHEMA = 8


class CachedSandbox:
    """A sandbox that is ready to be started.

    `directory` holds its artifacts. `wrap` and `wrap_terminal` are the words before the command, without
    and with a terminal of its own, `terminal` which it gets (`methods.contract.Terminal`). `environment`
    are variables for the launcher. `after` says what is looked at when a run has ended
    (`session.writable`). `proxy` is the plan of the proxy that the session starts
    (`egress.start.ProxyPlan`), None without; `shimmed`: it starts a bridge. `digests` are those of
    the artifacts, `policy` that of the texts that say the policy. `enforced` tells what is enforced, `notes`
    what a person should know. `loosened` are the fields of `session.trust.Loosened`.
    `instead` says what holds where no file says a policy. `starts` are the words that the command's first is
    replaced by, none where it stays. `decided` tells which lines decide what is refused (`session.deciding`).
    """

    __slots__ = (
        *(
            "after",
            "covers",
            "decided",
            "digests",
            "directory",
            "enforced",
            "environment",
            "fresh",
            "instead",
            "loosened",
            "method",
            "notes",
            "policy",
            "project",
            "starts",
        ),
        *("proxy", "shimmed", "terminal", "wrap", "wrap_terminal"),
    )

    after: dict[str, list[str]]
    decided: dict[str, object]
    covers: list[str]
    method: str
    project: str
    directory: str
    policy: str
    digests: dict[str, str]
    environment: dict[str, str]
    wrap: list[str]
    wrap_terminal: list[str]
    terminal: str
    proxy: dict[str, object] | None
    shimmed: bool
    enforced: dict[str, object]
    notes: list[str]
    fresh: bool
    loosened: tuple[str, str, list[str]]
    instead: str
    starts: list[str]

    def __init__(self, **values: object) -> None:
        """`values` are all of the fields."""
        for name in self.__slots__:
            setattr(self, name, values[name])

    def as_data(self) -> dict[str, object]:
        """The fields, as JSON has them."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "fresh"}


def slot(identity: list[str]) -> str:
    """The file that keeps what this copy of the program made for a request: others may render otherwise."""
    name = digests.sha256(smalljson.dumps([__file__, *identity]))
    return os.path.join(places.cache(), f"{name}.json")


def find(identity: list[str]) -> CachedSandbox | None:
    """What was made for a request, if it still holds and this user's key authenticates it."""
    path = slot(identity)
    try:
        with open(path, "rb") as file:
            mac, _, body = file.read().partition(b"\n")
        key = cache_key.read()
        if key is None or not cache_key.is_authentic(mac, key, path, body):
            return None
        data = smalljson.loads(body)
        if data["schema"] != SCHEMA or data["python"] != sys.version:
            return None
        if inputs.changed(data["asked"]) is not None:
            return None
        return CachedSandbox(**data["prepared"], fresh=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # nothing is there, or not what we wrote


def keep(identity: list[str], prepared: CachedSandbox, asked: inputs.Recording) -> None:
    """Keep what was made, if there is a key. Raise HostError when it can't be written."""
    key = cache_key.read() or cache_key.make()
    if key is None:
        return
    path = slot(identity)
    data = {"schema": SCHEMA, "python": sys.version, "asked": asked, "prepared": prepared.as_data()}
    body = smalljson.dumps(data)
    places.write(path, cache_key.mac(key, path, body) + b"\n" + body)


def digest(path: str) -> str:
    """The SHA-256 of a file, as `sha256:…`. Raise OSError."""
    with open(path, "rb") as file:
        return f"sha256:{digests.sha256(file.read())}"
