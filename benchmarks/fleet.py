"""What a fleet costs a cluster's API server: objects, writes, watch traffic; and how long its runs take.

Needs KUBECONFIG of somebody who may read the metrics (`python -m cluster run` in tests/). Two parts:
runs that never start, as no node has the label that they ask for; and with `--runs N` runs of `true`, where a
node has the image `sandwright/debian` and the filter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, write

from sandwright.methods.fleets import Counts, FleetOrder, Outcome, RunAttempt
from sandwright_kubernetes import admission
from sandwright_kubernetes.connection import Connection, connect
from sandwright_kubernetes.fleets import start as starting
from sandwright_kubernetes.fleets.fleet import ClusterFleet
from sandwright_kubernetes.fleets.objects import fleet_documents, fleet_job
from sandwright_kubernetes.fleets.records import FleetRecord
from sandwright_kubernetes.fleets.watching import list_all, watching
from sandwright_kubernetes.objects import field, path_of, text
from sandwright_kubernetes.start import read_manifests

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
POLICY = "schema: 1\nmethod: kubernetes\nextends: []\nresources: {memory: 64MiB, time: 120s}\n"
NEVER = {"sandwright.never": "true"}
SETTLED = 6.0
"""Seconds without a write after which a cluster has done what it does."""

_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_LINE = re.compile(r"(\w+)\{([^}]*)\} ([0-9.e+]+)")
Json = dict[str, Any]


class Counting(Connection):
    """Counts the bytes of streams by what is watched or read."""

    def __init__(self, other: Connection) -> None:
        super().__init__(other._client, other.place)
        self.read: Counter[str] = Counter()

    @contextlib.contextmanager
    def stream(self, path: str, *, silence: float, **query: str) -> Iterator[Iterator[bytes]]:
        """As the other does."""
        name = path.rpartition("/")[2]
        with super().stream(path, silence=silence, **query) as pieces:
            yield self._counted(name, pieces)

    def _counted(self, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.read[name] += len(piece) * (name != "metrics")
            yield piece


class Quiet:
    """Watches a fleet, and says nothing."""

    def has(self, index: int) -> bool:
        """None is known."""
        return index < 0

    def settled(self, outcome: Outcome) -> None:
        """It must have been well."""
        assert outcome.attempt is not None
        assert outcome.attempt.status == 0

    def attempted(self, attempt: RunAttempt) -> None:
        """Nothing is killed here."""
        raise AssertionError(attempt)

    def counted(self, counts: Counts) -> None:
        """Nobody looks."""

    def noted(self, text: str) -> None:
        """What keeps it from going on."""
        print(text, file=sys.stderr)


def main() -> None:
    """Run it; prints figures and writes `fleet.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--never", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=0)
    given = parser.parse_args()
    figures: Json = {}
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        os.environ |= {"HOME": folder, "XDG_RUNTIME_DIR": folder, "SANDWRIGHT_TRUST": "1"}
        project = Path(folder) / "p"
        project.mkdir()
        (project / "sandbox.yaml").write_text(POLICY)
        subprocess.run(
            [*SANDWRIGHT, "render"], check=True, timeout=120, cwd=project, stdout=subprocess.DEVNULL
        )
        directory = project / ".sandbox/kubernetes"
        if profiles := os.environ.get("SANDWRIGHT_CLUSTER"):
            subprocess.run(
                [directory / "install-profile", f"{profiles}/kubelet/seccomp"], check=True, timeout=60
            )
        counting = Counting(connect())
        figures["never"] = _never(counting, directory, given.never)
        if given.runs:
            figures["runs"] = _runs(counting, directory, given.runs)
    print(json.dumps(figures, indent=2))
    write(RESULTS / "fleet.json", figures)


def _never(connection: Counting, directory: Path, count: int) -> Json:
    """One Indexed Job, all of whose Pods are there at once and wait."""
    order = FleetOrder("never", ("true",), ((),) * count, count, 2)
    documents = fleet_documents(read_manifests(directory), order, proxied=False)
    job = fleet_job(documents["job.yaml"], order, session="benchmark", owner="benchmark")
    job["spec"]["template"]["spec"]["nodeSelector"] |= NEVER
    around = admission.manifests_of(documents)
    admission.apply_around(connection, job["metadata"]["namespace"], around)
    before = _metrics(connection)
    began = time.monotonic()
    made = connection.ask("POST", path_of("Job", job["metadata"]["namespace"]), job)
    record = FleetRecord("never", "benchmark", text(made, "metadata", "uid"), job, "", "")
    fleet = ClusterFleet(connection, record)
    connection.read.clear()
    with watching(connection, [fleet.job(), fleet.pods()]):
        fleet.release()
        path = path_of("Job", record.namespace, record.job_name)
        while field(connection.ask("GET", path), "status", "active") != count:
            time.sleep(0.5)
        created = time.monotonic() - began
        after = _settled(connection)
    pods = [each for each, _ in list_all(connection, fleet.pods(running=True)) if each]
    found = _difference(before, after, len(pods))
    found |= {
        "seconds until all Pods are there": round(created, 1),
        "bytes of the Job as JSON": len(json.dumps(connection.ask("GET", path))),
        "bytes of a Pod as JSON": sum(len(json.dumps(each)) for each in pods) // len(pods),
        "bytes that we read, per run": round(sum(connection.read.values()) / len(pods), 1),
    }
    fleet.remove()
    return found


def _runs(connection: Counting, directory: Path, count: int) -> Json:
    """A fleet that ends, 20 at a time."""
    setattr(starting, "connect", lambda: connection)  # noqa: B010 - mypy knows nothing of it
    warm = starting.start_cluster_fleet(directory, FleetOrder("warm", ("true",), ((),), 1, 2))
    warm.follow(Quiet())
    warm.remove()
    _settled(connection)
    before = _metrics(connection)
    connection.read.clear()
    began = time.monotonic()
    fleet = starting.start_cluster_fleet(directory, FleetOrder("bench", ("true",), ((),) * count, 20, 2))
    fleet.follow(Quiet())
    followed = time.monotonic() - began
    fleet.remove()
    found = _difference(before, _settled(connection), count)
    read = {
        f"bytes that we read of {name}, per run": round(size / count, 1)
        for name, size in connection.read.items()
    }
    return {"seconds": round(followed, 1), "seconds per run": round(followed / count, 3), **found, **read}


def _settled(connection: Connection) -> Counter[str]:
    """The metrics, once nothing is written about Pods and Jobs for a while; after a minute in any case."""
    last, since = Counter[str](), time.monotonic()
    deadline = since + 60
    while time.monotonic() - since < SETTLED and time.monotonic() < deadline:
        now = _metrics(connection)
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.5)
    return last


def _metrics(connection: Connection) -> Counter[str]:
    """Writes by resource, and the bytes of all watchers, by the API server's own metrics."""
    with connection.stream("/metrics", silence=30.0) as pieces:
        said = b"".join(pieces).decode()
    found: Counter[str] = Counter()
    for name, labelled, value in _LINE.findall(said):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', labelled))
        resource = (
            labels.get("resource") or f"{labels.get('kind', '').lower()}s"
        )  # by the API server's version
        if resource not in ("pods", "jobs", "events", "configmaps"):
            continue
        if name == "apiserver_request_total" and labels.get("verb") in _WRITES and labels["code"][0] == "2":
            sub = f"/{labels['subresource']}" if labels.get("subresource") else ""
            found[f"{labels['verb']} {resource}{sub}"] += int(float(value))
        elif name == "apiserver_watch_events_sizes_sum" and resource in ("pods", "jobs"):
            found[f"bytes of all watches of {resource}"] += int(float(value))
    return found


def _difference(before: Counter[str], after: Counter[str], runs: int) -> Json:
    """What came between, for each run; small change of the whole is left out."""
    each = {name: round((after[name] - before[name]) / runs, 2) for name in sorted(after)}
    kept = {name: value for name, value in each.items() if value >= 0.01}
    writes = sum(value for name, value in kept.items() if name.split()[0] in _WRITES)
    return {"runs": runs, "writes per run": round(writes, 2), "per run": kept}


if __name__ == "__main__":
    main()
