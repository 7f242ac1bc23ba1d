"""What is sandwright's own on the host: no policy can grant it, as it decides what a sandbox is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import followed, is_inside
from sandwright.policy.rules import PathRule
from sandwright.policy.source import BUILT_IN, Faults


@dataclass(frozen=True)
class Reserved:
    """Directories that no grant can name. Of a grant of what is above, `hidden` ones are left out."""

    hidden: Sequence[str] = ()
    readonly: Sequence[str] = ()

    def rules(self, facts: HostFacts) -> Iterator[PathRule]:
        """A rule for each of them."""
        for directory in self.hidden:
            path, through = followed(directory, facts)
            yield PathRule(path, "deny", "policy", BUILT_IN, directory, "sandwright's own", through)
        for directory in self.readonly:
            path, through = followed(directory, facts)
            yield PathRule(path, "readonly", "policy", BUILT_IN, directory, "sandwright's own", through)


NOTHING = Reserved()


def reserved_faults(grants: Iterable[PathRule], own: Sequence[PathRule], faults: Faults) -> None:
    """A fault for each grant of such a directory, or of something in it."""
    for grant in grants:
        for rule in own:
            if is_inside(grant.path, rule.path):
                message = f"is in {rule.path}, where sandwright keeps what decides over sandboxes"
                faults.add(grant.source, f"{grant.written} {message}: no policy can grant it")
                break
