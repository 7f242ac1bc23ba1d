"""How fast bytes come through the proxy, beside squid run by hand with a minimal configuration.

    python -m benchmarks.egress [--rounds N] [--output results.json]

One squid each, on loopback; the server is in another network namespace, behind a virtual cable, and the same
for all. curl asks from the machine itself, as with Seatbelt, and from a network namespace that has nothing
but the proxy's port, as with bubblewrap and the runtimes, where every byte passes the relay too. Takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, Contestant, compare, record, table, write

from sandwright import process
from sandwright.api import Policy
from sandwright.egress import Proxy, proxy
from sandwright.egress.squid_settings import find_squid, free_port, squid_account
from sandwright.policy.facts import HostFacts

sys.path.insert(0, os.fspath(Path(__file__).resolve().parent.parent / "tests"))
from support.netlab import WORLD, Namespace, lab

BY_HAND = """\
http_port 127.0.0.1:{port}
http_access allow all
hosts_file {folder}/hosts
pid_filename none
pinger_enable off
coredump_dir none
access_log stdio:{folder}/squid/by-hand.log
cache_log {folder}/squid/cache.log
"""

POLICY = "schema: 1\nmethod: bwrap\nnetwork: {mode: proxy, allow: [web.example]}\n"

SMALL = "web.example/bytes/1000/[1-2000]"
LARGE = "web.example/bytes"


@contextlib.contextmanager
def by_hand(folder: Path) -> Iterator[str]:
    """Squid with what it can't do without; its URL."""
    squid, account = find_squid(), squid_account(find_squid())
    port = free_port("127.0.0.1")
    own = folder / "squid"
    own.mkdir()
    if account is not None:
        os.chown(own, account.uid, account.gid)
    configuration = folder / "squid.conf"
    configuration.write_text(BY_HAND.format(port=port, folder=folder))
    started = ["setpriv", "--no-new-privs", "--pdeathsig", "KILL"]
    if account is not None:
        started += [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    argv = (*started, "--", squid.program, "-N", "-n", "sandwrightbyhand", "-f", str(configuration))
    try:
        with process.start(*argv, cwd="/"):
            url = f"http://127.0.0.1:{port}"
            tried = ("curl", "-s", "--retry", "50", "--retry-connrefused", "--retry-delay", "0", "-x", url)
            process.run(*tried, "-o", "/dev/null", "http://web.example/", timeout=30)
            yield url
    finally:
        for path in Path("/dev/shm").glob("sandwrightbyhand-*"):  # squid is killed, and leaves them
            path.unlink()


@contextlib.contextmanager
def sandbox(running: Proxy) -> Iterator[tuple[str, ...]]:
    """A network namespace with the proxy's port; the words before a command that is to run in it."""
    namespace = Namespace()
    try:
        enter = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace.descriptor}")
        with process.start(*enter, "sleep", "3600") as holder:
            way = running.directory / "way-bench"
            way.mkdir()
            os.mkfifo(way / "answer")
            answer = os.open(way / "answer", os.O_RDWR)
            with (running.directory / "ask").open("w") as ask:
                ask.write(f"{way.name} {holder.pid} up\n")
            said = os.read(answer, 100)
            os.close(answer)
            if said != b"ok\n":
                raise SystemExit(f"the proxy answered {said!r}")
            yield enter
    finally:
        namespace.close()


def contestants(url: str, running: Proxy, enter: tuple[str, ...], what: tuple[str, ...]) -> list[Contestant]:
    """The same curl by three ways."""
    curl = ("curl", "-sSf", "-o", "/dev/null")
    return [
        Contestant("squid by hand", (*curl, "-x", url, *what)),
        Contestant("sandwright's", (*curl, "-x", running.url, *what)),
        Contestant("from a sandbox", (*enter, *curl, "-x", "http://127.0.0.1:3128", *what)),
    ]


def main() -> None:
    """Compare, print, and write what was asked for."""
    options = _options()
    facts = HostFacts(os="linux", home="/home/ada", project="/home/ada/p")
    policy = Policy.from_text(POLICY).resolve(facts)
    cases = {
        "1.5 GB through a tunnel": ("-p", f"http://{LARGE}/1500000000"),
        "0.5 GB of plain HTTP": (f"http://{LARGE}/500000000",),
        "2000 pages of 1 kB, one after the other": (f"http://{SMALL}",),
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        folder.chmod(0o755)
        (folder / "hosts").write_text(f"{WORLD} web.example\n")
        stack.enter_context(lab())
        url = stack.enter_context(by_hand(folder))
        running = stack.enter_context(proxy(policy, hosts_file=folder / "hosts"))
        enter = stack.enter_context(sandbox(running))
        for title, what in cases.items():
            taken = compare(contestants(url, running, enter, what), rounds=options.rounds)
            print(table(title, taken, reference="squid by hand"), flush=True)
            results[title] = record(taken)
    write(options.output, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The proxy, compared with squid run by hand.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is gone")
    parser.add_argument("--output", type=Path, default=RESULTS / "egress.json", help="where the figures go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
