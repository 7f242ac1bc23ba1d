"""Proves bridge and shims in one running sandbox: the program gets the right token, and none is inside.

The sandbox is that of the method, with one more shim. While it runs, attempts are made inside, and the host
is searched: arguments, the engine's data of container and image, files of the launcher and the bridge. Then
the bridge is killed, and attempts are made again.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from sandwright import process
from sandwright.engines.client import EngineClient
from sandwright.environment import SESSION, SHIMS
from sandwright.errors import CommandFailed
from sandwright.launcher.run_document import RunDocument, handed_over
from sandwright.runtime.probe.protocol import (
    NO_ANSWER,
    Attempt,
    ProbeAnswer,
    attempt,
    parse_answers,
    requests,
)
from sandwright.verify.catalogue.files import reads_plain
from sandwright.verify.outcome import UNANSWERED, ProbeOutcome, judge
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.sandbox import LIMIT, RenderedSandbox, await_end, why_unanswered
from sandwright.verify.subject import ProofSubject, step
from sandwright.verify.tokens import NAME, Bridged, token_answer
from sandwright.verify.verdict import Verdict

_ENGINE = 60.0
"""Seconds for a request to an engine."""


@dataclass(frozen=True)
class Bridging:
    """The proof's subject: a sandbox whose launcher has a bridge, and its image."""

    subject: ProofSubject
    sandbox: RenderedSandbox
    bridged: Bridged

    @property
    def needle(self) -> bytes:
        """The text with which both tokens begin."""
        return self.bridged.tokens.needle.encode()


def prove_bridge(case: Bridging) -> Iterator[ProbeOutcome]:
    """The verdicts, from two starts of the sandbox, the second one without a bridge."""
    method, probes, later = case.subject.method, list(_alive_probes(case)), _dead_bridge_probe(case)
    with _talking(case.sandbox) as talk:
        heard = iter(talk.ask([each.attempt for probe in probes for each in probe.asked]))
        for probe in probes:
            yield judge(probe, method, [next(heard) for _ in probe.asked])
        yield _host_side_outcome(case, talk)
        os.kill(case.bridged.bridge.pid, signal.SIGKILL)
        os.waitid(os.P_PID, case.bridged.bridge.pid, os.WEXITED | os.WNOWAIT)
        yield judge(later, method, talk.ask([each.attempt for each in later.asked]))
    yield _required(case)


def skipped_bridge(method: str, reason: str) -> ProbeOutcome:
    """The skipped outcome of the two-token proof, for a policy that prevents any bridge."""
    return ProbeOutcome(
        probe="secrets/two-tokens",
        method=method,
        family=Family.SECRETS,
        verdict=Verdict.SKIPPED,
        expected="ok",
        observed="",
        evidence=reason,
        about="the host has token A and the sandbox token B: through the shim the program has B",
    )


def _alive_probes(case: Bridging) -> Iterator[Probe]:
    """The probes while the bridge runs."""
    tokens, control = case.bridged.tokens, (reads_plain(case.subject.fixture),)
    yield _probe(
        "two-tokens",
        "the host has token A and the sandbox token B: through the shim the program has B",
        ProbeStep(attempt("call", NAME), "shim.token", value=b"status 0\n" + token_answer(tokens.sandbox)),
        controls=control,
        check=lambda: (
            None
            if case.bridged.directly() == token_answer(tokens.host)
            else "started directly, it has not token A"
        ),
    )
    shims = [name for name in case.subject.policy.credentials.shims if name != NAME]
    yield _probe(
        "refused",
        f"shim commands that the policy does not allow are refused: {', '.join([NAME, *shims])}",
        *(
            ProbeStep(attempt("call", name, "--sandwright"), "shim.refused", holds=b"status 126\n")
            for name in (NAME, *shims)
        ),
        controls=(ProbeStep(attempt("call", NAME), "shim.token", holds=b"status 0\n"),),
    )
    yield _search_probe(case)


def _search_probe(case: Bridging) -> Probe:
    """Probes that neither token is found anywhere. Controls show that the searches find an existing file."""
    fixture, needle = case.subject.fixture, case.needle
    return _probe(
        "inside",
        "neither token is inside: not in a variable, in what the kernel tells of processes, nor in a file",
        ProbeStep(attempt("environment"), "secret.nowhere", lacks=(needle,), private=True),
        ProbeStep(attempt("search-processes", needle), "secret.nowhere", lacks=(b"/",)),
        ProbeStep(attempt("search", needle, *_roots(case)), "secret.nowhere", lacks=(b"/",)),
        controls=(
            ProbeStep(attempt("search-processes", fixture.program), "works", holds=b"/cmdline\n"),
            ProbeStep(attempt("search", fixture.plain, fixture.read), "works", holds=b"/plain\n"),
        ),
    )


def _roots(case: Bridging) -> tuple[str, ...]:
    """The searched directories: an image's whole root, otherwise the sandbox's private directories."""
    subject, public = case.subject, case.bridged.bridge.public
    if subject.image_root:
        return ("/",)
    files, root = subject.policy.filesystem, subject.fixture.root
    return tuple(map(str, (files.tmp_path, public, root, subject.policy.facts.project, "/run")))


def _dead_bridge_probe(case: Bridging) -> Probe:
    """The probes after the bridge's death."""
    tokens = case.bridged.tokens
    return _probe(
        "gone",
        "without a bridge a shim exits with 125, and no program runs in its place",
        ProbeStep(
            attempt("call", NAME),
            "shim.gone",
            holds=b"status 125\n",
            lacks=(token_answer(tokens.host), token_answer(tokens.sandbox)),
        ),
        controls=(reads_plain(case.subject.fixture), step("works", "echo", "alive")),
    )


def _probe(
    name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...] = (), check: object = None
) -> Probe:
    made = Probe(f"secrets/{name}", Family.SECRETS, about, steps, controls)
    return replace(made, check=check) if callable(check) else made


class _RunningSandbox:
    """A started sandbox that makes batches of attempts, one after another."""

    def __init__(
        self, launcher: int, streams: Sequence[IO[bytes] | None], poll: Callable[[], int | None]
    ) -> None:
        self.launcher = launcher
        self._stdin, self._stdout, self._stderr = (cast("IO[bytes]", each) for each in streams)
        self._poll = poll
        self._ended = ""

    def ended(self) -> str:
        """The end of the launcher, with its message; empty while it runs."""
        status = self._poll()
        if status is not None and not self._ended:
            there = select.select([self._stderr], [], [], 0)[0]
            output = os.read(self._stderr.fileno(), 1 << 14) if there else b""
            self._ended = why_unanswered(status, output.decode(errors="replace"))
        return self._ended

    def ask(self, attempts: Sequence[Attempt], *, limit: float = LIMIT) -> list[ProbeAnswer]:
        """Make attempts and give their answers, in order; for a missing answer, the reason."""
        word = uuid.uuid4().hex
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(requests(attempts, word=word))
            self._stdin.flush()
        until, source, output = time.monotonic() + limit, self._stdout.fileno(), b""
        found = [NO_ANSWER] * len(attempts)
        while any(each.kind == "none" for each in found) and time.monotonic() < until:
            if not select.select([source], [], [], 1.0)[0]:
                continue
            more = os.read(source, 1 << 16)
            output += more
            found = (
                parse_answers(output, len(attempts), word=word)
                if output.endswith(b"\n") or not more
                else found
            )
            if not more:
                await_end(self._poll)
                break
        why = self.ended() or why_unanswered(None, "", limit)
        return [each if each.kind != "none" else ProbeAnswer("none", why) for each in found]


@contextlib.contextmanager
def _talking(sandbox: RenderedSandbox) -> Iterator[_RunningSandbox]:
    with process.start(
        *sandbox.argv(()), stdin=b"", env=sandbox.environment, pass_fds=sandbox.inherited()
    ) as started:
        assert started.stdin is not None
        yield _RunningSandbox(started.pid, (started.stdin, started.stdout, started.stderr), started.poll)
        with contextlib.suppress(BrokenPipeError):
            started.stdin.close()
        process.ended_within(started.poll, LIMIT)


def _host_side_outcome(case: Bridging, talk: _RunningSandbox) -> ProbeOutcome:
    """Search the data that the host keeps about the running run.

    The launcher's own environment is the control.
    """
    searched: list[str] = []
    hits = [f"{where}: {hit}" for where, hit in _found_tokens(case, searched)]
    control = case.needle in _read_if_file(Path(f"/proc/{talk.launcher}/environ"))
    why = "" if control or not talk.ended() else f"\n{UNANSWERED}{talk.ended()}"
    verdict = Verdict.FAIL if hits else Verdict.PASS if control else Verdict.INCONCLUSIVE
    return _bridge_outcome(
        case,
        "outside",
        "neither token is in what the host keeps of the run: arguments, metadata, images, logs, files",
        verdict,
        expected="nowhere",
        observed="; ".join(hits) or "nowhere",
        evidence=f"looked into {', '.join(searched)}\ncontrol: the launcher's variables → "
        + ("found" if control else "not found")
        + why,
    )


def _found_tokens(case: Bridging, searched: list[str]) -> Iterator[tuple[str, str]]:
    """The places where a token was found; `searched` gets the searched places."""
    needle, fixture = case.needle, case.subject.fixture
    lines = {str(path.parent.name): _read_if_file(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    searched.append(f"the arguments of {len(lines)} processes")
    yield from (("arguments", f"process {pid}") for pid, line in lines.items() if needle in line)
    for name, folder in (
        ("the bridge's programs and log", case.bridged.directory),
        ("the bridge's files", case.bridged.bridge.public.parent),
        ("artifacts", fixture.artifacts),
        ("the launcher's files", fixture.state),
    ):
        paths = [Path(above, each) for above, _, names in os.walk(folder) for each in names]
        searched.append(f"{name} ({len(paths)})")
        yield from ((name, str(path)) for path in paths if needle in _read_if_file(path))
    if case.subject.properties.engine:
        yield from _engine_mentions(case, searched)


def _engine_mentions(case: Bridging, searched: list[str]) -> Iterator[tuple[str, str]]:
    """The engine's data about the container and its image, and the layers of the image."""
    engine = EngineClient(case.subject.method)

    def output(*words: str) -> bytes:
        result = engine.ask(*words, check=False, timeout=_ENGINE)
        return result.stdout + result.stderr.encode()

    session = case.sandbox.environment[SESSION.name]
    containers = engine.containers(f"sandwright.session={session}", timeout=_ENGINE)
    searched.append(f"{engine.name} inspect, logs and diff of {len(containers)} containers")
    if not containers:
        yield engine.name, "no container was found to look at"
    for each in containers:
        image = output("inspect", "--format", "{{.Image}}", each).decode().strip()
        searched.append(f"{engine.name} history and layers of its image")
        for words in (
            *(("inspect", each), ("logs", each), ("diff", each)),
            *(("history", "--no-trunc", image), ("image", "inspect", image)),
        ):
            if case.needle in output(*words):
                yield engine.name, " ".join(words)
        if _streamed(case.needle, engine.save_stream(image)):
            yield engine.name, "a layer of its image"


def _streamed(needle: bytes, pieces: Generator[bytes, None, None]) -> bool:
    """Whether a stream contains a text within some time."""
    held, until = b"", time.monotonic() + LIMIT
    with contextlib.closing(pieces):
        for piece in pieces:
            held = held[-len(needle) :] + piece
            if needle in held:
                return True
            if time.monotonic() > until:
                break
    return False


def _read_if_file(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def _required(case: Bridging) -> ProbeOutcome:
    """A start without a bridge."""
    environment = {key: value for key, value in case.sandbox.environment.items() if key != SHIMS.name}
    document = RunDocument(mcp=case.subject.policy.mcp_tools is not None)
    try:
        with handed_over(document) as file:
            sandbox = replace(
                case.sandbox,
                environment=environment,
                document=None if case.sandbox.document is None else file,
            )
            result = sandbox.run(("exit", "0"))
        status, message = result.status, result.stderr.strip()
    except CommandFailed as failed:
        status, message = failed.status or -1, failed.stderr
    refused = status == 125 and "the policy has shims, and" in message
    return _bridge_outcome(
        case,
        "required",
        "without a bridge the sandbox does not start",
        Verdict.PASS if refused else Verdict.FAIL,
        expected="125",
        observed=str(status),
        evidence=f"exit 0, with no bridge named → {status}: {message}",
    )


def _bridge_outcome(
    case: Bridging, name: str, about: str, verdict: Verdict, *, expected: str, observed: str, evidence: str
) -> ProbeOutcome:
    return ProbeOutcome(
        probe=f"secrets/{name}",
        method=case.subject.method,
        family=Family.SECRETS,
        verdict=verdict,
        expected=expected,
        observed=observed,
        evidence=evidence,
        about=about,
    )
