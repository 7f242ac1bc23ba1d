"""How fast requests to an opened host go through the inspecting proxy, beside squid's tunnel and no proxy.

    python -m benchmarks.http_proxy [--rounds N] [--output results.json]

The upstream is a server of the tests in another network namespace, behind a virtual cable, with TLS. curl
asks from a network namespace that has nothing but the proxy's port, as sandboxes do, and directly from the
machine. Takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.egress import sandbox
from benchmarks.harness import MIB, RESULTS, Contestant, compare, record, table, write

sys.path.insert(0, os.fspath(Path(__file__).resolve().parent.parent / "tests"))
from support.inspecting import API, OPEN, PORT, TUNNEL, Inspected, inspected
from support.netlab import WORLD, lab

LARGE, SMALL = "/bytes/100000000", "/bytes/1000"
GOALS = {"tunnel": 0.5, "direct": 1.5, "start": 0.3, "memory": 60}
"""Of squid's tunnel for a large body, of direct requests for small ones, seconds, MiB."""


def contestants(enter: tuple[str, ...], authorities: Path, words: tuple[str, ...]) -> list[Contestant]:
    """The same curl by four ways: `words` end with the path, which follows the host."""
    *options, path = words
    curl = ("curl", "-sSf", "-o", "/dev/null", *options)
    through = (*enter, *curl, "-x", "http://127.0.0.1:3128", "--cacert", str(authorities / "inside.pem"))
    resolve = ("--resolve", f"{TUNNEL}:{PORT}:{WORLD}", "--cacert", str(authorities / "upstream.pem"))
    tunnel = (*enter, *curl, "-x", "http://127.0.0.1:3128", "--cacert", str(authorities / "upstream.pem"))
    return [
        Contestant("direct", (*curl, *resolve, f"https://{TUNNEL}:{PORT}{path}")),
        Contestant("squid's tunnel", (*tunnel, f"https://{TUNNEL}:{PORT}{path}")),
        Contestant("inspected", (*through, f"https://{OPEN}:{PORT}{path}")),
        Contestant("inspected, masked", (*through, f"https://{API}:{PORT}{path}")),
    ]


def memory(found: Inspected) -> float:
    """The resident set of haproxy, in MiB."""
    named = f"{found.folder}/haproxy.cfg".encode()
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if named in (each / "cmdline").read_bytes().split(b"\0"):
                fields = dict(line.split(":", 1) for line in (each / "status").read_text().splitlines())
                if fields["Name"].strip() == "haproxy":
                    return int(fields["VmHWM"].split()[0]) * 1024 / MIB
    raise SystemExit("haproxy does not run")


@contextlib.contextmanager
def running(scratch: Path) -> Iterator[tuple[Inspected, tuple[str, ...]]]:
    """The proxy, the words before a command in its sandbox, and the authorities of both sides as files."""
    with lab() as world, inspected(world) as found, sandbox(found.proxy) as enter:
        (scratch / "inside.pem").write_text(found.trust)
        (scratch / "upstream.pem").write_text(found.canary.authority)
        yield found, enter


def starts(rounds: int) -> dict[str, float]:
    """Seconds from nothing to an answer, with opened hosts and without: the upstream's start is in both."""
    taken: dict[str, list[float]] = {"with": [], "without": []}
    plain = f"schema: 1\nmethod: bwrap\nnetwork: {{mode: proxy, allow: ['{TUNNEL}:{PORT}']}}\n"
    with lab() as world:
        for _ in range(rounds):
            for name, text in (("with", None), ("without", plain)):
                began = time.monotonic()
                with inspected(world) if text is None else inspected(world, text, secrets=False):
                    taken[name].append(time.monotonic() - began)
    return {name: statistics.median(each) for name, each in taken.items()}


def main() -> None:
    """Compare, print, and write what was asked for."""
    options = _options()
    cases = {
        "100 MB, HTTP/1.1": ("--http1.1", LARGE),
        "100 MB, HTTP/2": ("--http2", LARGE),
        "1000 requests on one connection": ("--http1.1", f"{SMALL}?[1-1000]"),
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as scratch:
        with running(Path(scratch)) as (found, enter):
            for title, words in cases.items():
                taken = compare(contestants(enter, Path(scratch), words), rounds=options.rounds)
                print(table(title, taken, reference="squid's tunnel"), flush=True)
                results[title] = record(taken)
            results["haproxy's memory, MiB"] = memory(found)
        results["start, s"] = starts(options.rounds)
    for title in ("haproxy's memory, MiB", "start, s"):
        print(f"{title}: {results[title]}")
    print(f"goals: {GOALS}")
    write(options.output, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The inspecting proxy, compared with a tunnel and none.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is gone")
    parser.add_argument(
        "--output", type=Path, default=RESULTS / "http_proxy.json", help="where the figures go"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
