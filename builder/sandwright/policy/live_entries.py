"""The entries of this host's file system, each read at its first look-up, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from sandwright.inputs import LiveHost
from sandwright.policy import spelling
from sandwright.policy.facts import AskedEntries, Followed, HostEntry, HostFacts
from sandwright.policy.paths import canonical_with_links, is_inside, same_name
from sandwright.policy.resolved import ResolvedPolicy


def with_path_facts(policy: ResolvedPolicy, path: str) -> ResolvedPolicy:
    """The same policy, with this host's entries at a path in a question. Raise like `canonical`."""
    policy.canonical(path)
    variables = policy.facts.variables
    spelled = spelling.expand_path(path, variables) if path.startswith(("~", "$")) else path
    absolute = spelled if spelled.startswith("/") else f"{variables['CWD']}/{spelled}"
    return replace(policy, facts=observe(policy.facts, [absolute]))


def observe(facts: HostFacts, paths: Iterable[str]) -> HostFacts:
    """The same facts, with the current entries at some absolute paths, and on the way to them."""
    entries = LiveEntries(LiveHost(), facts)
    looking = replace(facts, entries=entries)
    for path in paths:
        look_up(path, looking)
    return entries.recorded(facts)


def look_up(path: str, facts: HostFacts) -> None:
    """Look up the entries at a path, and on the way to it."""
    facts.kind(canonical_with_links(path, facts)[0])


class LiveEntries(AskedEntries):
    """The entries of this host: each is read at its first look-up, and recorded.

    A link whose directory stores its name otherwise (`stored_name`) leads to the stored name.
    """

    def __init__(self, inputs: LiveHost, facts: HostFacts) -> None:
        """`facts` name the system, and hold the known entries."""
        self.inputs = inputs
        self._facts = facts
        self._found: dict[str, HostEntry | None] = dict(facts.entries)
        self._found.update(dict.fromkeys(facts.absent))
        self._names: dict[str, frozenset[str]] = {}
        self.followed: dict[str, Followed] = {}

    def __getitem__(self, path: str) -> HostEntry:
        """The entry at a path. Raise KeyError for nothing."""
        found = self.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def get(self, path: str, default: object = None) -> HostEntry | None:  # type: ignore[override]  # noqa: ARG002
        """The entry at a path, None for nothing. Below another kind than a directory there is no question."""
        if path not in self._found:
            above = path.rpartition("/")[0] or "/"
            holds = path == "/" or ((found := self.get(above)) is not None and found.kind == "directory")
            if not holds or spelling.has_undecodable_bytes(path):  # which no policy can name
                return None
            self._found[path] = self._look_up_entry(path)
        return self._found[path]

    def __iter__(self) -> Iterator[str]:
        return (path for path, found in self._found.items() if found is not None)

    def __len__(self) -> int:
        return sum(found is not None for found in self._found.values())

    def forget(self, path: str) -> None:
        """Look again at a path, its parents and its entries, after we created it."""
        self.inputs.forget(path)
        for each in [each for each in self._found if is_inside(each, path) or is_inside(path, each)]:
            del self._found[each]
        self.followed.clear()

    def recorded(self, facts: HostFacts) -> HostFacts:
        """The facts with all entries that were looked up."""
        found = {path: entry for path, entry in self._found.items() if entry is not None}
        absent = sorted(path for path, entry in self._found.items() if entry is None)
        return replace(facts, entries=found, absent=tuple(absent))

    def _look_up_entry(self, path: str) -> HostEntry | None:
        kind = self.inputs.kind(path)
        entry = kind and HostEntry(kind, self.inputs.link(path) or "")
        if entry is not None and path != "/" and self._facts.os == "darwin":
            stored = self._stored(path)
            entry = entry if stored is None else HostEntry("symlink", stored)
        return entry

    def _stored(self, path: str) -> str | None:
        """The name that a path's directory stores for it, None when it is the same."""
        parent, _, name = path.rpartition("/")
        if parent not in self._names:
            listed = self.inputs.ask("listing", parent or "/")
            self._names[parent] = frozenset(each.removesuffix("/") for each in listed)
        stored = stored_name(name, self._names[parent], same_name(self._facts))
        return stored if stored != name else None


def stored_name(name: str, names: Collection[str], key: Callable[[str], str]) -> str:
    """The spelling under which a directory stores a name that leads to one of its entries.

    APFS finds a file by other spellings than the stored one: another case, another of Unicode's normal forms.
    The kernel reports the stored spelling, and rules are compared with that, so another spelling is
    recorded like a link to it. `key` gives equal text for spellings of one name.
    """
    if name in names:
        return name
    return next((each for each in names if key(each) == key(name)), name)
