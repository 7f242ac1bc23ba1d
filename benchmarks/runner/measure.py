"""Runs one program and prints what it cost, as JSON: `measure.py SECONDS PROGRAM [ARGUMENT…]`.

A process of its own, and a small one: the kernel counts the memory of whoever starts a program (until exec)
to that program's highest. It imports little for the same reason. What the program writes goes to standard
error.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def main() -> None:
    """Run, wait, print."""
    limit, argv = int(sys.argv[1]), sys.argv[2:]
    started = time.perf_counter()
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(2, 1)
        os.execvp(argv[0], argv)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(limit)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - started
    cpu = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    print(f'{{"wall": {wall:.6f}, "cpu": {cpu:.6f}, "memory": {usage.ru_maxrss * 1024}, "status": {code}}}')


main()
