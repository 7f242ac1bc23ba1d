"""Starts every image under every installed runtime, and reports the results."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import functools
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright import process
from sandwright import runtime as runtime_room
from sandwright.documents.model import plain
from sandwright.errors import SandwrightError, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.images.source import open_image
from sandwright.runtime.contract import SandboxRuntime
from sandwright.runtime.memoised import Memoised
from sandwright.runtime.preflight import MissingRuntime, ReadyRuntime
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.runtime.sessions import Sessions
from sandwright.runtime.sweep import sweep
from sandwright.verify.canary import CanaryListener, canary_listener
from sandwright.verify.smoke.report import ImageReport, ImageRow, ReportedImage, machine_of
from sandwright.verify.smoke.start import LIMIT, smoke_test
from sandwright.verify.smoke.target import PreparedImage, SmokeTarget, prepare
from sandwright.verify.verdict import ProbeFinding, Verdict

_JOBS = 2


def smoke_images(
    targets: Sequence[SmokeTarget],
    *,
    output: Path,
    runtimes: Sequence[str] | None = None,
    require: Sequence[str] = (),
    previous: ImageReport | None = None,
    limit: float = LIMIT,
    progress: Progress = SILENT,
) -> ImageReport:
    """Start each target under each of `runtimes` (all, when None), two at a time, and report on every pair.

    Checks that depend only on the image, those of its programs and certificates, are made under the first
    runtime that starts it. Root file systems are unpacked into `output`/rootfs, unless they exist. A missing
    runtime is skipped with the reason; one in `require` then fails, on this machine's own platform. Rows that
    passed in `previous` are reused if nothing has changed that they depend on. Nothing else is left when this
    returns or is interrupted. Raise UsageError for an unknown runtime.
    """
    names = _chosen_runtimes(runtimes, require)
    begun, started = time.monotonic(), datetime.datetime.now(datetime.UTC)
    host = collect_host()
    pairs = [(target, RUNTIMES[name]) for name in names for target in targets]
    rows = _reusable_rows(pairs, previous, host)
    todo = [pair for pair, row in zip(pairs, rows, strict=True) if row is None]
    settings = _Settings(
        host=host,
        store=output / "rootfs",
        runtimes=tuple(RUNTIMES[name] for name in names),
        proved=frozenset((row.image, row.platform) for row in rows if row is not None and row.whole),
        require=frozenset(require),
        limit=limit,
        progress=progress,
    )
    fresh = iter(_run_pairs(todo, settings))
    done = [next(fresh) if row is None else replace(row, reused=True, seconds=0.0) for row in rows]
    return ImageReport(
        subjects=tuple(_subject(target) for target in targets),
        runtimes=tuple(names),
        rows=tuple(sorted(done, key=_row_order(targets))),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - begun,
        host=machine_of(host),
    )


def row_key(target: SmokeTarget, runtime: SandboxRuntime, host: MachineFacts) -> str:
    """The digest of all inputs of a row that are known without a start."""
    path = process.find(runtime.program)
    identity = [path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns] if path else []
    smoke = plain(target.definition.smoke)
    parts = [
        target.digest,
        target.platform,
        smoke,
        runtime.name,
        identity,
        host.kernel,
        host.uid,
        _checks_digest(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _reusable_rows(
    pairs: Sequence[tuple[SmokeTarget, SandboxRuntime]], previous: ImageReport | None, host: MachineFacts
) -> list[ImageRow | None]:
    """The rows of an earlier report that still hold, by pair; none of an image without a whole one."""
    before = {row.key: row for row in previous.rows if row.verdict is Verdict.PASS} if previous else {}
    rows = [before.get(row_key(target, runtime, host)) for target, runtime in pairs]
    whole = {(row.image, row.platform) for row in rows if row is not None and row.whole}
    return [row if row is not None and (row.image, row.platform) in whole else None for row in rows]


@dataclass(frozen=True)
class _Settings:
    """The settings of a run. `proved` are images and platforms with a whole row from an earlier run."""

    host: MachineFacts
    store: Path
    runtimes: tuple[SandboxRuntime, ...]
    proved: frozenset[tuple[str, str]]
    require: frozenset[str]
    limit: float
    progress: Progress


@dataclass
class _Work:
    """The data that the rows of one run share."""

    settings: _Settings
    sessions: Sessions
    canary: CanaryListener
    scratch: Path
    prepared: Memoised[PreparedImage] = field(default_factory=Memoised)

    def row(self, target: SmokeTarget, runtime: SandboxRuntime) -> ImageRow:
        """Start one image under one runtime."""
        row = ImageRow(target.name, target.platform, target.digest, runtime.name, ())
        label = f"smoke {target.name} {target.platform} under {runtime.name}"
        with self.settings.progress.step(label, unit="checks") as step:
            try:
                row = self._start_target(row, target, runtime)
            except SandwrightError as error:
                row = replace(row, findings=(ProbeFinding("starts", Verdict.FAIL, str(error)),))
            step.advance(len(row.findings))
        return replace(row, key=row_key(target, runtime, self.settings.host))

    def _start_target(self, row: ImageRow, target: SmokeTarget, runtime: SandboxRuntime) -> ImageRow:
        ready = self.sessions.check(runtime, target.platform)
        if isinstance(ready, MissingRuntime):
            return replace(row, findings=(self._missing_finding(runtime, target, ready.describe()),))
        prepared = self._prepare_once(target)
        if reason := ready.variant.obstacle_for(prepared.expected.uid):
            return replace(row, findings=(self._missing_finding(runtime, target, reason),))
        whole = (target.name, target.platform) not in self.settings.proved and self._is_first(runtime, target)
        judged = smoke_test(
            self.sessions.session(ready),
            prepared,
            host=self.settings.host,
            canary=self.canary,
            limit=self.settings.limit,
            whole=whole,
        )
        note = ready.variant.note
        return replace(row, findings=judged.findings, seconds=judged.seconds, note=note, whole=whole)

    def _is_first(self, runtime: SandboxRuntime, target: SmokeTarget) -> bool:
        """Whether no runtime before this one starts the target."""
        for each in self.settings.runtimes:
            if each.name == runtime.name:
                return True
            ready = self.sessions.check(each, target.platform)
            if isinstance(ready, ReadyRuntime):
                uid = self._prepare_once(target).expected.uid
                if not ready.variant.obstacle_for(uid):
                    return False
        return True

    def _missing_finding(self, runtime: SandboxRuntime, target: SmokeTarget, reason: str) -> ProbeFinding:
        if runtime.name in self.settings.require and target.platform == self.settings.host.platform:
            return ProbeFinding("starts", Verdict.FAIL, f"required, and: {reason}")
        return ProbeFinding("starts", Verdict.SKIPPED, reason)

    def _prepare_once(self, target: SmokeTarget) -> PreparedImage:
        def make() -> PreparedImage:
            name = f"{target.name}-{target.platform.replace('/', '-')}"
            directory = hidden_directory(self.scratch, "bundles", name)
            return prepare(target, directory, store=self.settings.store, host=self.settings.host)

        return self.prepared.get((target.name, target.platform), make)


def _run_pairs(pairs: Sequence[tuple[SmokeTarget, SandboxRuntime]], settings: _Settings) -> list[ImageRow]:
    """The rows of the pairs, in their order."""
    if not pairs:
        return []
    sweep(settings.host, settings.progress)
    stop = threading.Event()
    with (
        scratch_directory() as scratch,
        canary_listener() as listening,
        Sessions(settings.host, scratch, stop) as sessions,
        contextlib.ExitStack() as stack,
        _pool(stop) as pool,
    ):
        work = _Work(settings, sessions, listening, scratch)
        whole = stack.enter_context(settings.progress.step("smoke tests", len(pairs), unit="starts"))
        futures = [pool.submit(work.row, target, runtime) for target, runtime in pairs]
        for future in futures:
            future.add_done_callback(lambda _: whole.advance(1))
        return [future.result() for future in futures]


@contextlib.contextmanager
def _pool(stop: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """Workers for the length of a `with`.

    At its end, none of their runs is left: running ones are cancelled.
    """
    pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="smoke")
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _chosen_runtimes(runtimes: Sequence[str] | None, require: Sequence[str]) -> list[str]:
    for name in (*(runtimes or ()), *require):
        if name not in RUNTIMES:
            near = difflib.get_close_matches(name, RUNTIMES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"no runtime {name!r}; there are {', '.join(RUNTIMES)}{hint}")
    return [name for name in RUNTIMES if runtimes is None or name in runtimes or name in require]


def _subject(target: SmokeTarget) -> ReportedImage:
    layers = open_image(target.layout, platform=target.platform).layers
    size = sum(layer.size for layer in layers)
    return ReportedImage(target.name, target.platform, target.digest, size, len(layers))


def _row_order(targets: Sequence[SmokeTarget]) -> Callable[[ImageRow], tuple[int, int]]:
    images = [(target.name, target.platform) for target in targets]
    runtimes = list(RUNTIMES)
    return lambda row: (images.index((row.image, row.platform)), runtimes.index(row.runtime))


@functools.cache
def _checks_digest() -> str:
    """A digest of the checks themselves: another version of them makes other findings."""
    rooms = (Path(__file__).parent, Path(runtime_room.__file__).parent)
    files = sorted(
        path
        for room in rooms
        for path in room.rglob("*")
        if path.suffix in {".py", ".pem", ".key", ".c", ".h"}
    )
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
