"""A stand-in for an API server, to test the requests to a cluster and the use of its answers.

It knows only the requests of the method `kubernetes`, starts nothing, and admits Pods as the test says. The
tests with a real one are in `cluster/`.
"""

from __future__ import annotations

import contextlib
import copy
import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.localhttp import QuietHandler
from support.websocketserver import read_messages, serve_program, serve_terminal

Json = dict[str, Any]
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@dataclass
class FakeCluster:
    """The behaviour of the server, and the requests that it received.

    `state` is the state of the container, `log` its output. `denied` are rights that no user has, `missing`
    names that don't exist. `open` admits privileged Pods. The server does not know the `dropped` fields of
    Pods. `broken` is the number of requests that are first answered with 503; the first of the `lost` objects
    is created all the same. `others` are Pods with the Job's label, `policies` all NetworkPolicies of the
    namespace. `reads`: the log does not end before the command's input does, which is kept as `read`. `shown`
    is the first output of a terminal, `seen` its input, by channels; a `!` breaks it off. `waits`: the log
    does not end before the Job is deleted. `vanishes`: the Pod is gone after its log. `late` is the number of
    requests for the Job before it has `conditions`. `new` is the number of Pods that are refused because the
    namespace was just created. `program` is the answer of a program in a container (by the container's name
    and the command): both streams and the exit status; None breaks the connection off.
    """

    state: Json = field(default_factory=lambda: {"terminated": {"exitCode": 0, "reason": "Completed"}})
    log: bytes = b""
    denied: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    open: bool = False
    dropped: tuple[str, ...] = ()
    broken: int = 0
    lost: tuple[str, ...] = ()
    status: Json = field(default_factory=dict)
    conditions: tuple[Json, ...] = ()
    large: bool = False
    waits: bool = False
    reads: bool = False
    vanishes: bool = False
    late: int = 0
    new: int = 0
    others: tuple[Json, ...] = ()
    policies: tuple[Json, ...] = ()
    program: Callable[[str, list[str]], tuple[bytes, bytes, int] | None] = lambda *_: None
    version: Json = field(default_factory=lambda: {"major": "1", "minor": "35", "gitVersion": "v1.35.4"})
    jobs: dict[str, Json] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    made: list[Json] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    read: bytes = b""
    shown: bytes = b""
    seen: list[tuple[int, bytes]] = field(default_factory=list)
    fed: threading.Event = field(default_factory=threading.Event)
    following: threading.Event = field(default_factory=threading.Event)

    def answer(  # noqa: PLR0911 - a table
        self, method: str, path: str, query: dict[str, str], body: Json
    ) -> tuple[int, Json | bytes]:
        name = path.rpartition("/")[2]
        self.asked.append(f"{method} {name}" + (" dry" if "dryRun" in query else ""))
        if self.broken:
            self.broken -= 1
            return _refused(503, "ServiceUnavailable", "not now")
        if self.large:
            return 200, b'{"a": "' + b"x" * (9 << 20) + b'"}'
        if name == "version":
            return 200, self.version
        if name == "selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            right = f"{asked['verb']} {asked['resource']}/{asked['subresource']}".rstrip("/")
            return 201, {"status": {"allowed": right not in self.denied}}
        if method == "GET" and name in self.missing:
            return _refused(404, "NotFound", f"{name} not found")
        kind = path.split("/")[-1 if method == "POST" or name in ("pods", "events") else -2]
        if kind == "pods" or name == "log":
            return self._pod(method, name, query, body)
        if kind == "jobs":
            return self._job(method, name, body)
        if method == "PATCH":
            return 200, body
        if name == "networkpolicies":
            return 200, {"items": list(self.policies)}
        if kind == "deployments":
            ready = {"observedGeneration": 1, "availableReplicas": 1}
            return 200, {"metadata": {"generation": 1}, "status": ready}
        return (200 if method == "GET" else 201), {"metadata": {"name": name}, "items": []}

    def _pod(self, method: str, name: str, query: dict[str, str], body: Json) -> tuple[int, Json | bytes]:
        if method == "POST" and self.new:
            self.new -= 1
            return _refused(403, "Forbidden", "error looking up service account x/default: not found")
        if method == "POST" and body["spec"].get("hostPID") and not self.open:
            return _refused(403, "Forbidden", 'violates PodSecurity "restricted:latest": host namespaces')
        if method == "POST":
            return 201, {"spec": self._admitted(body["spec"])}
        if name == "log":
            return 200, self.log
        gone = self.vanishes and self.following.is_set()
        found = [
            job
            for job in self.jobs.values()
            if not gone and f"job-name={job['metadata']['name']}" == query["labelSelector"]
        ]
        return 200, {"items": [*self.others, *(self._pod_of(job) for job in found)]}

    def _pod_of(self, job: Json) -> Json:
        statuses = [{"name": "other", "state": {"terminated": {"exitCode": 99}}}]
        statuses += [{"name": "sandbox", "state": self.state}] if self.state else []
        beside = job["spec"]["template"]["spec"]["containers"][1:]
        statuses += [{"name": each["name"], "state": RUNNING} for each in beside]
        phase = (
            "Running" if "running" in self.state else "Pending" if "waiting" in self.state else "Succeeded"
        )
        return {
            "metadata": {"name": f"{job['metadata']['name']}-xyz", "ownerReferences": [{"uid": UID}]},
            "spec": self._admitted(job["spec"]["template"]["spec"]),
            "status": {"phase": phase, "containerStatuses": statuses, **self.status},
        }

    def _admitted(self, spec: Json) -> Json:
        gone = {*self.dropped, "hostPID", "hostIPC", "hostNetwork"}  # these are false, and left out
        made = {key: value for key, value in copy.deepcopy(spec).items() if key not in gone}
        return {**made, "schedulerName": "default-scheduler"}

    def _job(self, method: str, name: str, body: Json) -> tuple[int, Json | bytes]:
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.jobs:
                return _refused(409, "AlreadyExists", "it is there")
            self.jobs[name] = {**body, "metadata": {**body["metadata"], "uid": UID}}
            self.made.append(body)
            if "job" in self.lost:
                self.lost = ()
                return _refused(504, "Timeout", "too slow")
            return 201, self.jobs[name]
        if name not in self.jobs:
            return _refused(404, "NotFound", "no such Job")
        if method == "DELETE":
            self.gone.set()
            return 200, self.jobs.pop(name)
        self.late -= 1
        conditions = list(self.conditions) if self.late < 0 else []
        return 200, {**self.jobs[name], "status": {"conditions": conditions}}


def _refused(status: int, reason: str, message: str) -> tuple[int, Json]:
    return status, {"kind": "Status", "reason": reason, "message": message, "code": status}


@contextlib.contextmanager
def fake_cluster(fake: FakeCluster, folder: Path) -> Iterator[Path]:
    """Serve the stand-in on loopback, and give a kubeconfig for it."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            parsed = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parsed.query))
            if self.headers.get("Upgrade", "").lower() == "websocket":
                fake.asked.append(f"GET {parsed.path.rpartition('/')[2]}")
                if parsed.path.endswith("/attach") and query.get("tty"):
                    if serve_terminal(self, fake.shown, fake.seen, breaks=b"!"):
                        fake.state = {"terminated": {"exitCode": 7, "reason": "Error"}}
                    return
                if parsed.path.endswith("/attach"):
                    fake.read = read_messages(self)
                    fake.fed.set()
                    return
                words = urllib.parse.parse_qs(parsed.query)["command"]
                serve_program(self, fake.program(query["container"], words))
                return
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            status, data = fake.answer(self.command, parsed.path, query, body)
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            if query.get("follow"):
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()
                fake.following.set()
                if fake.reads:
                    fake.fed.wait(60)
                if fake.waits:
                    fake.gone.wait(60)
                self.close_connection = True
                return
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "ada", "user": {"token": "secret-of-ada"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "ada"}}],
        "current-context": "fake",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(document))
    try:
        yield file
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
