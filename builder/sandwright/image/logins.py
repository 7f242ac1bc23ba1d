"""Reads the credentials (logins) that this host's apt has for its sources: apt_auth.conf(5)."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import process

FILE, FOLDER = "Dir::Etc::netrc", "Dir::Etc::netrcparts"
"""Apt's settings for the file and the directory of credentials."""


@dataclass(frozen=True)
class AptLogin:
    """A user name and a password for addresses below `machine`.

    A `machine` without a protocol is for https alone.
    """

    machine: str
    name: str = ""
    password: str = field(default="", repr=False)

    def fits(self, address: str) -> bool:
        """Whether the login is for an address."""
        parts = urllib.parse.urlsplit(address)
        scheme, scheme_separator, machine = self.machine.rpartition("://")
        if parts.scheme != (scheme if scheme_separator else "https"):
            return False
        host, slash, path = machine.partition("/")
        port = host.rpartition(":")[2] if ":" in host else ""
        same = host.removesuffix(f":{port}").lower() == (parts.hostname or "").lower()
        if not same or (port and port != str(parts.port)) or (not port and parts.port):
            return False
        return parts.path.startswith(slash + path)


def login_for(address: str, logins: Iterable[AptLogin]) -> AptLogin | None:
    """The first login for an address."""
    return next((each for each in logins if each.fits(address)), None)


def parse_logins(text: str) -> list[AptLogin]:
    """Parse a file of apt's. Unknown words are skipped, as apt does."""
    found: list[dict[str, str]] = []
    words = iter([word for line in text.splitlines() for word in _line_words(line)])
    for word in words:
        if word == "machine":
            found.append({"machine": next(words, "")})
        elif word in ("login", "password") and found:
            found[-1][word] = next(words, "")
    return [
        AptLogin(each["machine"], each.get("login", ""), each.get("password", ""))
        for each in found
        if each["machine"]
    ]


def machine_logins() -> tuple[AptLogin, ...]:
    """The readable logins of this host's apt; none without apt."""
    found: list[AptLogin] = []
    for path in _files(*places()):
        try:
            found += parse_logins(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue  # apt warns about it while locking
    return tuple(found)


def places() -> tuple[Path, Path]:
    """The file and the directory of apt's logins; paths that do not exist without apt."""
    if process.find("apt-config") is None:
        return Path("/nonexistent"), Path("/nonexistent")
    output = process.run("apt-config", "shell", "file", f"{FILE}/f", "folder", f"{FOLDER}/d", timeout=60).text
    values = dict(re.findall(r"^(file|folder)='([^']*)'$", output, re.MULTILINE))
    return Path(values.get("file") or "/nonexistent"), Path(values.get("folder") or "/nonexistent")


def _files(file: Path, folder: Path) -> list[Path]:
    try:
        parts = sorted(path for path in folder.iterdir() if path.suffix == ".conf")
    except OSError:
        parts = []
    return [file, *parts]


def _line_words(line: str) -> list[str]:
    """The words of a line up to a comment. A comment starts at the beginning of a word."""
    words: list[str] = []
    for word in line.split():
        if word.startswith("#"):
            break
        words.append(word)
    return words
