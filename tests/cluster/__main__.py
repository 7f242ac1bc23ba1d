"""`python -m cluster build`, or `python -m cluster run [--limit SECONDS] -- COMMAND`, in `tests/`.

The command runs with KUBECONFIG of a cluster that is there as long as it runs. SANDWRIGHT_CLUSTER is the
cluster's directory: `logs/` is in it, and `kubelet/seccomp`, where `install-profile` puts a filter.
"""

from __future__ import annotations

import argparse
import sys

from cluster import programs, start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    running = commands.add_parser("run")
    running.add_argument("--limit", type=float, default=1800.0)
    running.add_argument("argv", nargs="+")
    given = parser.parse_args()
    if given.command == "build":
        programs.build()
        return 0
    if missing := programs.missing():
        sys.stderr.write(f"no cluster can be started here; missing: {', '.join(missing)}\n")
        return 1
    with start.cluster() as found:
        return start.run_command(found, given.argv, limit=given.limit)


if __name__ == "__main__":
    sys.exit(main())
