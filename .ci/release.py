"""Build what a release of sandwright consists of, and sign it: `invoke release-build`, `invoke release-sign`.

`build` makes a wheel for each platform, the source distribution, and SHA256SUMS. `sign` writes a SLSA
provenance that names each of them by digest, in a Sigstore bundle. They are separate because the job that has
the key builds nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "builder"))

import sandwright  # noqa: E402 - from this checkout
from sandwright import process  # noqa: E402
from sandwright.digests import sha256  # noqa: E402
from sandwright.errors import IntegrityError, SandwrightError, UsageError  # noqa: E402
from sandwright.release.signing import load_key  # noqa: E402
from sandwright.release.statement import PROVENANCE, InTotoStatement, encode_statement, resource  # noqa: E402

PLATFORMS = ("linux/amd64", "linux/arm64", "any")
SUMS = "SHA256SUMS"
BUNDLE = "provenance.sigstore.json"
BUILD_TYPE = "https://packaging.python.org/en/latest/specifications/"
BUILD_SECONDS = 300


def build(out: Path, tag: str) -> None:
    """Build into an empty directory. Raise UsageError for a tag of another version, or a changed tree."""
    if tag != f"v{sandwright.__version__}":
        raise UsageError(f"the tag is {tag}, and the version {sandwright.__version__} (pyproject.toml)")
    if changed := _run_git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"the checkout has uncommitted changes:\n{changed}")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise UsageError(f"{out} is not empty")
    epoch = {**os.environ, "SOURCE_DATE_EPOCH": _run_git("log", "-1", "--format=%ct")}
    _build(out, "--sdist", epoch)
    for platform in PLATFORMS:
        _build(out, "--wheel", {**epoch, "SANDWRIGHT_WHEEL": platform})
    lines = [f"{_hex_digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines))
    sys.stdout.writelines(lines)


def sign(out: Path, key: str, commit: str) -> None:
    """Sign what SHA256SUMS lists. Raise IntegrityError for a file that differs, or that is not listed."""
    rows = [line.split("  ", 1) for line in (out / SUMS).read_text().splitlines()]
    files = {path.name for path in out.glob("sandwright-*")}
    if not rows or {name for _, name in rows} != files:
        raise IntegrityError(f"{out / SUMS} does not list exactly the files of the release in {out}")
    for digest, name in rows:
        if _hex_digest(out / name) != digest:
            raise IntegrityError(f"{out / name} is not what {SUMS} lists")
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"version": sandwright.__version__, "platforms": list(PLATFORMS)},
            "resolvedDependencies": [resource("sandwright", f"gitCommit:{commit}")],
        },
        "runDetails": {"builder": {"id": f"sandwright/{sandwright.__version__}"}},
    }
    statement = InTotoStatement(PROVENANCE, {f"sha256:{digest}": name for digest, name in rows}, predicate)
    (out / BUNDLE).write_bytes(load_key(key, environ=os.environ).sign(encode_statement(statement)))
    sys.stdout.write(f"{out / BUNDLE}: {len(rows)} files\n")


def _build(out: Path, kind: str, environ: dict[str, str]) -> None:
    words = (sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", out, ROOT)
    process.run(*words, timeout=BUILD_SECONDS, env=environ)


def _hex_digest(path: Path) -> str:
    return sha256(path.read_bytes()).removeprefix("sha256:")


def _run_git(*words: str) -> str:
    return process.run("git", "-C", ROOT, *words).text.strip()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("build", "sign"):
        actions.add_parser(name).add_argument("--out", type=Path, required=True)
    actions.choices["build"].add_argument("--tag", required=True)
    actions.choices["sign"].add_argument("--key", required=True)
    actions.choices["sign"].add_argument("--commit", required=True)
    arguments = parser.parse_args()
    try:
        if arguments.action == "build":
            build(arguments.out, arguments.tag)
        else:
            sign(arguments.out, arguments.key, arguments.commit)
    except SandwrightError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
