"""squid parses data from a sandbox, so it starts restricted: the effect of the command prefix.

Tests of launcher/init/source/restrict.c.
Tests of render/restricted.py.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.egress import proxy
from sandwright.egress.plan import plan_proxy
from sandwright.egress.squid_settings import find_squid
from sandwright.landlock import landlock_version
from sandwright.launcher.restrict import PORTS
from sandwright.render.proxyfacts import DIRECTORY, LISTEN, SECCOMP
from support.egressing import ask, get, policy

pytestmark = pytest.mark.needs("squid")


@pytest.fixture
def landlock() -> None:
    """The kernel's Landlock restricts files and ports."""
    if landlock_version() < PORTS:
        pytest.skip("this kernel's Landlock restricts no ports")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that squid's account can also enter."""
    with tempfile.TemporaryDirectory(prefix="sandwright-restricted-", dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def words(directory: Path, program: str, port: int = 45111) -> list[str]:
    """squid's command prefix for a start there, with another program in squid's place."""
    plan = plan_proxy(policy("web.example:443"))
    (directory / SECCOMP).write_bytes(bytes.fromhex(plan.seccomp))
    own = f"execute={plan.command[-1]}"
    replaced = [f"execute={program}" if word == own else word for word in plan.command[:-1]]
    assert replaced != list(plan.command[:-1])
    return [each.replace(DIRECTORY, str(directory)).replace(LISTEN, str(port)) for each in replaced]


def _statuses(word: str) -> Iterator[str]:
    """The status in /proc of each process with a word on its command line; any may end meanwhile."""
    for each in set(Path("/proc").glob("[0-9]*")) - {Path("/proc", str(os.getpid()))}:
        with contextlib.suppress(OSError):
            if word.encode() in (each / "cmdline").read_bytes().split(b"\0"):
                yield (each / "status").read_text()


def test_the_squid_that_runs_is_restricted() -> None:
    with proxy(policy("web.example")) as running:
        assert ask(running, get("bad.example")).verdict == (403, "host")
        status = next(_statuses(f"{running.directory}/squid.conf"))
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Name"] == "squid"
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert fields["CapEff"] == "0" * 16
    assert os.geteuid() != 0 or fields["Uid"].split()[0] != "0"


def test_it_reads_its_own_directory_and_no_other(landlock: None, directory: Path) -> None:
    del landlock
    own, other = directory / "own", directory / "other"
    for each in (own, other):
        each.mkdir(mode=0o755)
        (each / "file").write_text("read")
        (each / "file").chmod(0o644)
    cat = os.path.realpath(process.which("cat"))
    before = words(own, cat)
    assert process.run(*before, cat, own / "file").text == "read"
    refused = process.run(*before, cat, other / "file", check=False)
    assert (refused.status, refused.stdout) == (1, b""), refused.stderr
    assert "Permission denied" in refused.stderr


def test_it_executes_nothing_else(landlock: None, directory: Path) -> None:
    del landlock
    env, shell = (os.path.realpath(process.which(each)) for each in ("env", "sh"))
    before = words(directory, env)
    assert process.run(*before, env, "-0").status == 0
    refused = process.run(*before, env, shell, "-c", "true", check=False)
    assert refused.status == 126, refused.stderr


CONNECTS = """
import errno, socket, sys
for port in map(int, sys.argv[1:]):
    with socket.socket() as each:
        print(errno.errorcode[each.connect_ex(("127.0.0.1", port))])
with socket.socket() as each:
    try:
        each.bind(("127.0.0.1", 45112))
    except OSError as fault:
        print(errno.errorcode[fault.errno])
try:
    socket.socket(socket.AF_UNIX)
except OSError as fault:
    print(errno.errorcode[fault.errno])
"""


def test_it_connects_to_listed_ports_alone(landlock: None, directory: Path) -> None:
    del landlock
    python = os.path.realpath("/usr/bin/python3")
    refused = process.run(*words(directory, python), python, "-ISc", CONNECTS, "443", "53", "444")
    assert refused.text.split() == ["ECONNREFUSED", "ECONNREFUSED", "EACCES", "EACCES", "EPERM"]


@pytest.mark.parametrize(
    ("built", "reads"),
    [
        ("", "/usr/local/squid/share /usr/local/squid/etc/mime.conf /usr/local/squid/etc/errorpage.css"),
        (
            "'--prefix=/usr' '--sysconfdir=/etc' '--datadir=/usr/share/squid' '--sysconfdir=/etc/squid'",
            "/usr/share/squid /etc/squid/mime.conf /etc/squid/errorpage.css",
        ),
        ("'--prefix=/usr'", "/usr/share /usr/etc/mime.conf /usr/etc/errorpage.css"),
        (
            "'--datadir=/home'",
            "/home/squid /usr/local/squid/etc/mime.conf /usr/local/squid/etc/errorpage.css",
        ),
    ],
)
def test_what_a_squid_reads_of_its_own(monkeypatch: pytest.MonkeyPatch, built: str, reads: str) -> None:
    """It reads two files of its settings' directory, where the host's squid keeps passwords, too."""
    said = f"Squid Cache: Version 6.1\nconfigure options: {built}\n".encode()
    monkeypatch.setattr(process, "run", lambda *_, **__: process.Result(("squid",), 0, said, ""))
    assert " ".join(find_squid().data) == reads
