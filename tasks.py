"""The project's own tasks, and the product's: `invoke --list` shows both.

The product's are those of the `sandwright` command: `invoke build-images` here is `sandwright build-images`
anywhere.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import task

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / name) for name in ("builder", "", "tests")]  # also without an install

from sandwright.cli import namespace as product  # noqa: E402

TESTS_TIMEOUT = 60 * 60
THOROUGH_TIMEOUT = 8 * TESTS_TIMEOUT
"""A thousand runs of each method are killed one after another."""
WORKERS = 4
"""Most tests wait for a sandbox more than they compute, so that two cores have work for four."""
THOROUGH = "try all examples of the tests that make examples up, which takes long"
BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""It is kept, whatever the caller's environment says: tests start Python thousands of times."""
BENCHMARKS_TIMEOUT = 30 * 60
HOURS_LONG = {"projects"}
"""Benchmarks that only run when they are named."""
HOURS_LONG_TIMEOUT = 8 * 60 * 60
LAB_TIMEOUT = 8 * 60 * 60
TESTS_FAILED = 1
"""pytest's exit status for failed tests alone: other faults, like files left behind, have others."""
RETRIED = 5
"""Failed tests that are run once more; more of them are no coincidence."""


SHELL_SCRIPTS = "import sys; sys.path.insert(0, 'tests'); import support.shellscripts as it; it.main()"


def _python(c: Context, arguments: str, *, timeout: int = 600, warn: bool = False) -> int:
    """Run Python in the repository and return its exit status, which is 0 unless `warn` is set.

    PYTHONPATH stays as the caller has it: a sandbox that could write a directory on it would not start.
    """
    with c.cd(str(ROOT)):
        result = c.run(
            f"{sys.executable} {arguments}",
            timeout=timeout,
            env=BYTE_CODE,
            pty=False,
            warn=warn,
        )
    return 0 if result is None else result.exited


@task
def style(c: Context) -> None:
    """Check style and types: ruff and mypy, strict, on code, tests and benchmarks; shellcheck on scripts."""
    _python(c, "-m ruff check .")
    _python(c, "-m ruff format --check .")
    _python(c, "-m mypy --num-workers auto")
    _python(c, f"-c {shlex.quote(SHELL_SCRIPTS)}")


@task(
    help={
        "tests": "what pytest is to run, in one word: a path, or paths and options in quotes",
        "thorough": THOROUGH,
    }
)
def pytest(c: Context, tests: str = "", thorough: bool = False) -> None:
    """Run the tests; with SANDWRIGHT_REQUIRE=all a tool that is not there is a failure, not a skip.

    Many start real sandboxes, with time limits, beside others on all cores. Up to five that fail are run once
    more, one after another: the task fails when one fails again, and names those that pass then.
    """
    if thorough:
        os.environ["SANDWRIGHT_THOROUGH"] = "1"
    limit = THOROUGH_TIMEOUT if thorough else TESTS_TIMEOUT
    status = _python(c, f"-m pytest -n {WORKERS} --dist worksteal {tests}", timeout=limit, warn=True)
    if status == 0:
        return
    failed = _last_failed()
    if status != TESTS_FAILED or not 0 < len(failed) <= RETRIED or not all("::" in each for each in failed):
        raise Exit("the tests failed", status)
    _python(c, f"-m pytest {shlex.join(failed)}", timeout=TESTS_TIMEOUT)
    sys.stdout.write("\n  ".join(["Failed beside other tests, and passed alone:", *failed]) + "\n")


def _last_failed() -> list[str]:
    """The tests that failed in the last run, as pytest keeps them."""
    try:
        return list(json.loads((ROOT / ".pytest_cache/v/cache/lastfailed").read_text()))
    except (OSError, ValueError):
        return []


@task(help={"thorough": THOROUGH})
def test(c: Context, thorough: bool = False) -> None:  # noqa: PT028 - a task
    """Check everything: style, types, and all tests."""
    style(c)
    pytest(c, thorough=thorough)


@task
def build_programs(c: Context) -> None:  # noqa: ARG001
    """Build the committed C programs with Zig, for all their platforms, and write their records."""
    from sandwright.crossbuild import rebuild  # noqa: PLC0415
    from support.programs import PROGRAMS  # noqa: PLC0415

    for program in PROGRAMS:
        rebuild(program)


@task(help={"only": "the benchmarks to run, by name, comma-separated"})
def bench(c: Context, only: str = "") -> None:
    """Measure speed and memory beside peers, in one run; prints tables and writes build/benchmarks/*.json."""
    benchmarks = {p.stem for p in (ROOT / "benchmarks").glob("*.py")} - HOURS_LONG
    names = [n for n in only.split(",") if n] or sorted(benchmarks)
    for name in names:
        if name not in {"__init__", "harness"}:
            limit = HOURS_LONG_TIMEOUT if name in HOURS_LONG else BENCHMARKS_TIMEOUT
            _python(c, f"-m benchmarks.{name}", timeout=limit)


@task(
    help={
        "platforms": "the platforms to boot, by name, comma-separated; absent: all of tests/lab/machines.py",
        "methods": "the methods to prove, comma-separated; absent: all of tests/lab/matrix.py",
        "keep": "keep the results for docs/platforms.md",
    }
)
def lab(c: Context, platforms: str = "", methods: str = "", keep: bool = False) -> None:
    """Boot other platforms in QEMU, and prove every method on each as root and as a normal user."""
    chosen = [f"--methods={methods}"] if methods else []
    words = [*filter(None, platforms.split(",")), *chosen, *(["--keep"] if keep else [])]
    with c.prefix("export PYTHONPATH=tests"):
        _python(c, f"-m lab.matrix {shlex.join(words)}", timeout=LAB_TIMEOUT)


@task(help={"check": "write nothing; fail when a page is not what the code says"})
def docs(c: Context, check: bool = False) -> None:  # noqa: ARG001
    """Write the tables of docs/ that come from the code: methods, probes, policy, commands."""
    from benchmarks.work import table  # noqa: PLC0415

    from lab import table as platforms  # noqa: PLC0415
    from sandwright.cli import reference  # noqa: PLC0415
    from sandwright.reference import pages  # noqa: PLC0415

    found = pages.stale(ROOT / "docs", pages.texts() | reference.texts() | table.texts() | platforms.texts())
    if check and found:
        names = ", ".join(str(path.relative_to(ROOT)) for path in found)
        raise Exit(f"not what the code says, `invoke docs` writes it: {names}", 12)
    pages.write(found)


@task
def docs_site(c: Context) -> None:
    """Build the documentation site into build/docs-site; a dead link or any other warning is an error.

    It needs the extra `docs`: `pip install -e '.[docs]'`.
    """
    _python(c, "-m sphinx --quiet --nitpicky --fail-on-warning --keep-going docs build/docs-site")
    sys.stdout.write("build/docs-site/index.html\n")


@task(help={"out": "an empty directory", "tag": "the tag of the release, such as v0.1.0"})
def release_build(c: Context, out: str, tag: str) -> None:
    """Build the wheels, the source distribution and SHA256SUMS of a release of sandwright."""
    _python(c, f".ci/release.py build --out {shlex.quote(out)} --tag {shlex.quote(tag)}", timeout=1500)


@task(help={"out": "what release-build wrote", "key": "key file", "commit": "the commit it was built from"})
def release_sign(c: Context, out: str, key: str, commit: str) -> None:
    """Sign the SLSA provenance of a release of sandwright."""
    words = ("--out", out, "--key", key, "--commit", commit)
    _python(c, f".ci/release.py sign {shlex.join(words)}")


CONSTRAINTS = {"ci": (".[test,release,keyless,kubernetes]", False), "signing": (".[release]", True)}
"""Files of .ci/constraints/: what they are for, and whether with hashes, of the wheels for this machine."""


@task
def constraints(c: Context) -> None:
    """Pin the Python packages of CI and of the job that signs to the newest that fit, in .ci/constraints/."""
    for name, (requirements, hashed) in CONSTRAINTS.items():
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.json")
            only = "--only-binary :all:" if hashed else ""
            options = f"--dry-run --ignore-installed --quiet {only} --no-build-isolation --report {report}"
            _python(c, f"-m pip install {options} {shlex.quote(requirements)}")
            found = json.loads(report.read_bytes())["install"]
        lines = sorted(
            _pinned(each, hashed=hashed) for each in found if "archive_info" in each["download_info"]
        )
        text = "".join(["# Written by `invoke constraints`.\n", *lines])
        (ROOT / ".ci" / "constraints" / f"{name}.txt").write_text(text)


def _pinned(package: dict[str, Any], *, hashed: bool) -> str:
    about, digest = package["metadata"], package["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{about['name'].lower()}=={about['version']}" + f" --hash=sha256:{digest}" * hashed + "\n"


namespace = Collection(
    *(
        style,
        pytest,
        test,
        bench,
        lab,
        build_programs,
        docs,
        docs_site,
        constraints,
        release_build,
        release_sign,
    )
)
for _task in product.tasks.values():
    namespace.add_task(_task)
