"""Moves several blobs at a time, and stops all when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from sandwright.registry.wire import Stopped, Wire

T = TypeVar("T")

JOBS = 4
"""Blobs at a time: more is not faster with one registry, and is rude."""


def together(wire: Wire, tasks: Sequence[Callable[[], T]], *, jobs: int = JOBS) -> list[T]:
    """What the tasks give, in their order. At the first error, or Ctrl-C, the rest is stopped."""
    with ThreadPoolExecutor(jobs, "sandwright-registry") as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = [error for future in done if (error := future.exception()) is not None]
            if failed:
                raise next((error for error in failed if not isinstance(error, Stopped)), failed[0])
            return [future.result() for future in futures]
        except BaseException:
            wire.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
