"""The context of one build: its staging area, its threads, and how all stop when one fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from sandwright.image.compress import Compression
from sandwright.image.layer import LayerWriter, writing_layer
from sandwright.image.layout import StagingArea
from sandwright.progress import Progress
from sandwright.registry.failure import Cancelled
from sandwright.registry.parallel import results

T = TypeVar("T")

MOST_THREADS = 8
"""Each reader of packages holds an xz dictionary and some chunks, so this bounds memory."""


@dataclass(frozen=True)
class BuildContext:
    """The objects that all steps of a build share. `cancelled` is set when the build is to stop."""

    staging: StagingArea
    progress: Progress
    cancelled: Event
    platforms: Executor
    readers: Executor
    compressors: Executor

    @contextlib.contextmanager
    def layer(self, compression: Compression) -> Iterator[LayerWriter]:
        """Write a layer, from any thread but a compressor's."""
        with writing_layer(self.staging, self.compressors, self.cancelled, compression) as writer:
            yield writer

    def for_platforms(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run a task for each platform in parallel; each task may call `for_layers`."""
        return self._together(self.platforms, tasks)

    def for_layers(self, tasks: Sequence[Callable[[], T]], *, weights: Sequence[int] = ()) -> list[T]:
        """Run a task for each layer in parallel, the heaviest first. Return results in the order of tasks.

        When a task raises, cancel the others and raise its error.
        """
        order = sorted(range(len(tasks)), key=lambda index: -weights[index] if weights else 0)
        results = self._together(self.readers, [tasks[index] for index in order])
        return [result for _, result in sorted(zip(order, results, strict=True), key=lambda each: each[0])]

    def _together(self, pool: Executor, tasks: Sequence[Callable[[], T]]) -> list[T]:
        futures = [pool.submit(self._unless_cancelled, task) for task in tasks]
        try:
            return results(futures)
        except BaseException:
            self.cancelled.set()
            raise

    def _unless_cancelled(self, task: Callable[[], T]) -> T:
        if self.cancelled.is_set():
            raise Cancelled
        return task()


@contextlib.contextmanager
def open_build_context(
    staging: StagingArea, progress: Progress, *, jobs: int | None = None
) -> Iterator[BuildContext]:
    """Start the threads of a build for the length of a `with`.

    `jobs` is the number of packages read at a time, by default one for each processor.
    """
    number = min(jobs or os.cpu_count() or 1, MOST_THREADS)
    cancelled = Event()
    with (
        ThreadPoolExecutor(number, "sandwright-compress") as compressors,
        ThreadPoolExecutor(number, "sandwright-read") as readers,
        ThreadPoolExecutor(MOST_THREADS, "sandwright-platform") as platforms,
    ):
        try:
            yield BuildContext(staging, progress, cancelled, platforms, readers, compressors)
        except BaseException:
            cancelled.set()  # queued tasks see it and give up; `wait` would not wake for cancelled futures
            raise
