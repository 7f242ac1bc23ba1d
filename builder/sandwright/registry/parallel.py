"""Runs tasks on threads and stops all of them when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from sandwright.registry.failure import Cancelled

T = TypeVar("T")

JOBS = 4
"""Blobs at a time: more is not faster with one registry, and is rude."""


def run_parallel(
    tasks: Sequence[Callable[[], T]], *, stop: Callable[[], object], jobs: int = JOBS, name: str = "registry"
) -> list[T]:
    """Run tasks, `jobs` at a time, and return their results in order.

    At the first error, or Ctrl-C, call `stop`, which must make the running tasks end, and start no other.
    """
    with ThreadPoolExecutor(jobs, f"sandwright-{name}") as pool:
        try:
            return results([pool.submit(task) for task in tasks])
        except BaseException:
            stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def results(futures: Sequence[Future[T]]) -> list[T]:
    """The results of futures, in order. Raise the first error; Cancelled only when there is no other."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    failed = [error for future in done if (error := future.exception()) is not None]
    if failed:
        raise next((error for error in failed if not isinstance(error, Cancelled)), failed[0])
    return [future.result() for future in futures]
