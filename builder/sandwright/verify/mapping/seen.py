"""The attempts of the probe in a mapped image, and the user that its answers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sandwright.rootfs.bundles.identity import AccountFiles
from sandwright.runtime.probe.protocol import (
    NO_ANSWER,
    Attempt,
    ProbeAnswer,
    attempt,
    parse_answers,
    request_line,
)

Lookup = Literal["id", "python3"]
"""The image's program that looks names up with the image's own library."""

WORK = "/workspace"
"""The path of a directory of the host inside."""

NEW = "new"
"""The file that is created in it."""

STATUS = 42
"""The exit status of the probe."""

_PYTHON = "import os, {0}; print({0}.get{1}(os.get{2}())[0])"


def attempts(lookup: Lookup, home: str) -> Mapping[str, Attempt]:
    """The attempts by name. `home` is the home directory in which a file is to be made."""
    return {
        "identity": attempt("identity"),
        "name": _lookup_attempt(lookup, "-un", ("pwd", "pwuid", "uid")),
        "group": _lookup_attempt(lookup, "-gn", ("grp", "grgid", "gid")),
        "home": attempt("environment", "HOME"),
        "user": attempt("environment", "USER"),
        "passwd": attempt("read", "/etc/passwd"),
        "new": attempt("create", f"{WORK}/{NEW}"),
        "at home": attempt("create", f"{home}/.sandwright-new"),
        "status": attempt("read", "/proc/self/status"),
    }


def _lookup_attempt(lookup: Lookup, option: str, names: tuple[str, str, str]) -> Attempt:
    if lookup == "id":
        return attempt("call", "id", option)
    return attempt("call", "python3", "-c", _PYTHON.format(*names))


def probe_command(attempts: Mapping[str, Attempt], *, word: str) -> tuple[str, ...]:
    """The command line of the probe, which lies in the directory of the host."""
    lines = (request_line(each, index, word=word) for index, each in enumerate(attempts.values()))
    return (f"{WORK}/probe", "--lines", str(STATUS), *lines)


@dataclass(frozen=True)
class SeenUser:
    """The user as the answers show it; missing values are None."""

    uid: int | None
    gid: int | None
    name: str | None
    group: str | None
    home: str | None
    user: str | None
    account: str | None
    at_home: bool
    status: Mapping[str, str]

    def rights(self, *, of_root: bool) -> str:
        """The remaining rights that should be gone: empty if there are none, and new ones are forbidden.

        `of_root`: it was started as root, which can empty the bounding set too. gVisor's older releases do
        not report no-new-privileges.
        """
        sets = [key for key in self.status if key.startswith("Cap") and (of_root or key != "CapBnd")]
        held = [f"{key}:" for key in sets if int(self.status[key], 16)]
        allowed = self.status.get("NoNewPrivs", "1") != "1"
        return " ".join([*held, *(["new privileges"] if allowed else [])])


def seen_user(output: bytes, names: Sequence[str], *, word: str) -> SeenUser:
    """Read the answers to the attempts of these names."""
    found = dict(zip(names, parse_answers(output, len(names), word=word), strict=True))
    identity = found["identity"]
    uid, _, gid, _ = map(int, _decode_answer_value(identity).split()) if identity.kind == "ok" else [None] * 4
    account = None if uid is None else AccountFiles(passwd=_decode_answer_value(found["passwd"])).account(uid)
    fields = (each.partition(":") for each in _decode_answer_value(found["status"]).splitlines())
    return SeenUser(
        uid=uid,
        gid=gid,
        name=_printed_name(found["name"]),
        group=_printed_name(found["group"]),
        home=_decode_answer_value(found["home"]) or None,
        user=_decode_answer_value(found["user"]) or None,
        account=f"{account.name}:{account.home}" if account else None,
        at_home=found["at home"].kind == "ok",
        status={key: value.strip() for key, _, value in fields},
    )


def _decode_answer_value(answer: ProbeAnswer) -> str:
    return answer.value.decode(errors="replace")


def _printed_name(answer: ProbeAnswer) -> str | None:
    """A name that a program printed; None where it failed, or printed a number, as busybox does."""
    status, _, printed = _decode_answer_value(answer if answer.kind == "ok" else NO_ANSWER).partition("\n")
    name = printed.strip()
    return name if status == "status 0" and name and not name.isdigit() else None
