"""What is asked inside: a script for a shell with `id`, and one for Python; and what their answers say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Teller = Literal["sh", "python3"]

WORK = "/workspace"
"""Where a directory of the host lies inside."""

_SH = f"""
echo "uid $(id -u)"
echo "gid $(id -g)"
echo "name $(id -un 2>/dev/null)"
echo "group $(id -gn 2>/dev/null)"
echo "home $HOME"
echo "user $USER"
own=$(id -u)
{{ cat /etc/passwd && echo; }} | while IFS=: read -r name word uid gid comment home shell; do
    case $uid in
    "$own")
        echo "account $name:$home"
        break
        ;;
    esac
done
: >{WORK}/new
(: >"$HOME/.sandwright-new") 2>/dev/null && echo "written yes"
while read -r key value; do
    case $key in
    Cap*: | NoNewPrivs:) echo "$key $value" ;;
    esac
done </proc/self/status
exit 42
"""

_PYTHON = f"""
import grp, os, pwd, sys
def named(find, number):
    try:
        return find(number)
    except KeyError:
        return None
account, group = named(pwd.getpwuid, os.getuid()), named(grp.getgrgid, os.getgid())
print("uid", os.getuid())
print("gid", os.getgid())
print("name", account.pw_name if account else "")
print("group", group.gr_name if group else "")
print("home", os.environ.get("HOME", ""))
print("user", os.environ.get("USER", ""))
if account:
    print("account", account.pw_name + ":" + account.pw_dir)
open("{WORK}/new", "w").close()
try:
    open(os.path.join(os.environ.get("HOME", "/"), ".sandwright-new"), "w").close()
    print("written yes")
except OSError:
    pass
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        print(*line.split())
sys.exit(42)
"""

STATUS = 42
"""How the scripts end."""


def script(teller: Teller) -> tuple[str, ...]:
    """The command that tells."""
    return (teller, "-c", _SH if teller == "sh" else _PYTHON)


@dataclass(frozen=True)
class Told:
    """The answers by their name."""

    lines: Mapping[str, str]

    def number(self, name: str) -> int | None:
        """An answer that is a number; None when there is none."""
        return int(self.lines[name]) if self.lines.get(name, "").isdigit() else None

    def text(self, name: str) -> str | None:
        """An answer that is a name; None for an empty one, or a number, which busybox gives instead."""
        found = self.lines.get(name, "")
        return None if found.isdigit() else found or None

    def rights(self, *, of_root: bool) -> str:
        """What is held of rights that should be gone: empty when nothing is, and new ones are forbidden.

        `of_root`: it was started as root, which can empty the bounding set too. gVisor's older releases say
        nothing of new privileges.
        """
        held = [key for key, value in self.lines.items() if key.startswith("Cap") and int(value, 16)]
        counted = [key for key in held if of_root or key != "CapBnd:"]
        allowed = self.lines.get("NoNewPrivs:", "1") != "1"
        return " ".join([*counted, *(["new privileges"] if allowed else [])])


def read(output: bytes) -> Told:
    """What a script wrote."""
    pairs = (line.partition(" ") for line in output.decode(errors="replace").splitlines())
    return Told({key: value.strip() for key, _, value in pairs})
