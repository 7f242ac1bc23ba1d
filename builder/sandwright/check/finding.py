"""Rules, findings, and waivers with reasons."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sandwright.errors import UsageError

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class CheckRule:
    """A requirement or recommendation for images. `title` states it as a sentence without a full stop."""

    name: str
    severity: Severity
    title: str


_TABLE: tuple[tuple[str, Severity, str], ...] = (
    ("layout/refused", "error", "every document and layer can be read, and is what its digest says"),
    ("layout/blob", "error", "every blob that a document names is there, with its size and digest"),
    ("layout/unreferenced", "warning", "no blob lies in the layout that nothing leads to"),
    ("layout/media-type", "warning", "documents name their own media type"),
    ("layout/history", "warning", "the history has as many steps with a layer as there are layers"),
    ("layout/elsewhere", "error", "no layer has to be fetched from another place"),
    ("layer/duplicate", "error", "no path is in one layer twice"),
    ("layer/whiteout", "warning", "what a layer takes away is in a layer below"),
    ("layer/link-outside", "warning", "no symbolic link climbs above the root"),
    ("layer/device", "error", "there are no device nodes"),
    ("layer/set-id", "error", "no program is set-user-ID or set-group-ID, except those known to need it"),
    ("layer/capability", "error", "no program has file capabilities"),
    ("layer/world-writable", "error", "no path is writable by all users, except sticky directories"),
    ("layer/time", "warning", "no file is newer than the image"),
    ("layer/name", "error", "names have no control characters"),
    ("layer/encoding", "warning", "names are UTF-8"),
    ("layer/case", "warning", "no two names in a directory differ in case alone"),
    ("files/merged-usr", "warning", "either all of /bin, /sbin and /lib are links into /usr, or none"),
    ("files/accounts", "error", "passwd and group can be read, and no name or id has two meanings"),
    ("files/no-password", "error", "no account can be entered without a password"),
    ("files/password", "error", "no account has a password, which who has the image can find out"),
    ("files/shadow", "error", "only root can read the passwords"),
    ("files/owner", "warning", "every file belongs to an account of the image"),
    ("files/temporary", "error", "directories for temporary files have mode 1777"),
    ("files/os-release", "warning", "os-release says what system it is"),
    ("files/of-the-host", "warning", "resolv.conf, hosts and hostname, which a runtime writes, are empty"),
    ("files/cache", "warning", "no package manager's downloads or lists are left"),
    ("files/architecture", "error", "programs are for the image's own architecture"),
    ("files/interpreter", "error", "the loader that a program names is there"),
    ("files/library", "error", "the libraries that programs need are there"),
    ("config/type", "error", "the fields of the configuration are of the types that the specification says"),
    ("config/user", "warning", "it runs as another user than root"),
    ("config/unknown-user", "error", "its user is one of its accounts, or a number"),
    ("config/directory", "error", "its working directory is an absolute path"),
    ("config/program", "error", "what it starts is there, and can be executed"),
    ("config/shell", "warning", "what it starts is no line for a shell, which would swallow signals"),
    ("config/label", "warning", "annotations or labels say where it comes from and when it was made"),
    ("config/volume", "error", "no volume covers a directory of the system"),
    ("config/signal", "error", "its stop signal is one"),
    ("config/path", "error", "PATH has absolute directories only, none of which others can write"),
    ("secret/configuration", "error", "no secret is in its environment, arguments, labels or history"),
    ("secret/file", "error", "no file is one in which programs keep secrets"),
    ("secret/content", "error", "no file has a private key or a token in it, in any layer"),
    ("size/budget", "error", "its packed layers are within the budget"),
    ("structure/test", "error", "the structure tests that were given pass"),
)

RULES: Mapping[str, CheckRule] = {name: CheckRule(name, severity, title) for name, severity, title in _TABLE}
"""Every rule by name."""


@dataclass(frozen=True, order=True)
class ImageFinding:
    """A violation of a rule.

    `where` is a path in the image, or a part of a document; empty for all of it. `waived` is why it is
    accepted, empty when it isn't.
    """

    rule: str
    where: str
    message: str
    waived: str = ""

    @property
    def severity(self) -> Severity:
        """The severity of the finding's rule."""
        return RULES[self.rule].severity

    def __str__(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        return f"{self.severity}: {self.rule}: {prefix}{self.message}"


@dataclass(frozen=True)
class Waiver:
    """Accepts findings of a rule where `where` matches a pattern, for a reason."""

    rule: str
    pattern: str
    reason: str

    @classmethod
    def parse(cls, text: str) -> Waiver:
        """Read `RULE=REASON` or `RULE:PATTERN=REASON`. Raise UsageError for a rule that there isn't."""
        what, equals, reason = text.partition("=")
        rule, _, pattern = what.partition(":")
        if not equals or not reason.strip():
            raise UsageError(f"'{text}' gives no reason; write RULE=REASON or RULE:PATTERN=REASON")
        if rule not in RULES:
            raise UsageError(f"there is no rule '{rule}'; the rules are {', '.join(RULES)}")
        return cls(rule, pattern or "*", reason.strip())

    def __str__(self) -> str:
        return self.rule if self.pattern == "*" else f"{self.rule}:{self.pattern}"

    def covers(self, finding: ImageFinding) -> bool:
        """Whether the waiver applies to this finding."""
        return finding.rule == self.rule and fnmatch.fnmatchcase(finding.where, self.pattern)


def waive(findings: Iterable[ImageFinding], waivers: Sequence[Waiver]) -> list[ImageFinding]:
    """Sort the findings without duplicates, and mark the accepted ones with their reasons."""
    made = []
    for finding in sorted(set(findings)):
        reason = next((each.reason for each in waivers if each.covers(finding)), "")
        made.append(replace(finding, waived=reason))
    return made
