"""The choice of a new policy's method: the first that can start a sandbox on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.errors import UsageError
from sandwright.host import collect_host
from sandwright.methods import METHODS, registry
from sandwright.methods.contract import Preflight
from sandwright.session import preflights


@dataclass(frozen=True)
class Chosen:
    """A method, and the results of starting sandboxes: those tried before it, and its own last.

    `attempts` is empty for a method that was named and is not run from here.
    """

    method: str
    attempts: tuple[Preflight, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether a sandbox of the method was started here and hid the denied file."""
        return bool(self.attempts) and self.attempts[-1].ready

    def without_last(self) -> Chosen:
        """The first method that was tried, if the one that starts is not enough."""
        first, *others = self.attempts[:-1]
        return Chosen(first.method, (*others, first))


def choose(requested: str = "") -> Chosen:
    """The requested method, or the first that works here; if none does, the first of this system.

    It starts a sandbox with each until one works. An earlier result is reused while its inputs are unchanged.
    Raise UsageError for an unknown method, and for one that enforces nothing.
    """
    host = collect_host()
    if requested:
        return _named_method(requested)
    attempts = []
    for name in registry.default_methods(host.os, last_resort=True):
        found = preflights.cached_preflight(registry.backend(name), host)
        attempts.append(found)
        if found.ready:
            return Chosen(name, tuple(attempts))
    if not attempts:
        raise UsageError(f"no method is known for {host.os}; name one with --method")
    return Chosen(attempts[0].method, (*attempts[1:], attempts[0]))


def _named_method(name: str) -> Chosen:
    if name in METHODS and not registry.declaration(name).enforces:
        raise UsageError(f"{name} enforces nothing; a policy with it is written by hand, with the reason")
    backend = registry.backend(name)
    return Chosen(name, (preflights.cached_preflight(backend, collect_host()),))
