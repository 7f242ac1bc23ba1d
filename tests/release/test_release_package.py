"""A release of sandwright itself (`invoke release-build`): signed, verified, installed from a local index."""

from __future__ import annotations

import functools
import hashlib
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import sandwright
from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.release import bundle, statement
from sandwright.release.signing import load_verifier
from support.thorough import representative

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "release.py"
VERSION = sandwright.__version__
COMMIT = "0" * 40


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the repository with the uncommitted changes committed."""
    folder = tmp_path_factory.mktemp("checkout") / "sandwright"
    process.run("git", "clone", "--quiet", "--no-hardlinks", ROOT, folder, timeout=120)
    listed = process.run(
        "git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
    ).text
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    process.run("git", "-C", folder, "add", "--all")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    process.run("git", "-C", folder, *who, "commit", "--quiet", "--allow-empty", "--message", "a release")
    return folder


def _release(checkout: Path, *words: str | Path) -> str:
    script = checkout / ".ci" / "release.py"
    return process.run(sys.executable, script, *words, cwd=checkout, timeout=400).text


@pytest.fixture(scope="module")
def released(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release, signed."""
    out = tmp_path_factory.mktemp("release") / "dist"
    _release(checkout, "build", "--out", out, "--tag", f"v{VERSION}")
    process.run("openssl", "genpkey", "-algorithm", "ed25519", "-out", out.parent / "key.pem")
    public = ("-pubout", "-out", out.parent / "key.pub")
    process.run("openssl", "pkey", "-in", out.parent / "key.pem", *public)
    _release(checkout, "sign", "--out", out, "--key", out.parent / "key.pem", "--commit", COMMIT)
    return out


def test_what_a_release_consists_of(released: Path) -> None:
    platforms = {path.stem.rpartition("-")[2].rpartition(".")[2] for path in released.glob("*.whl")}
    assert platforms == {"musllinux_1_1_x86_64", "musllinux_1_1_aarch64", "any"}
    others = {path.name for path in released.iterdir() if path.suffix != ".whl"}
    assert others == {f"sandwright-{VERSION}.tar.gz", "SHA256SUMS", "provenance.sigstore.json"}
    process.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=released)


def test_the_provenance_names_each_file(released: Path) -> None:
    signed = (released / "provenance.sigstore.json").read_bytes()
    payload = load_verifier(str(released.parent / "key.pub")).opened(signed, "provenance")
    said = statement.decode_statement(payload, "provenance")
    files = [path for path in released.iterdir() if path.name.startswith("sandwright-")]
    assert len(files) == 4
    assert said.predicate_type == statement.PROVENANCE
    assert dict(said.subjects) == {
        f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}": path.name for path in files
    }
    (source,) = said.predicate["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": COMMIT}


def test_another_key_has_not_signed_it(released: Path, tmp_path: Path) -> None:
    process.run("openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "key.pem")
    process.run("openssl", "pkey", "-in", tmp_path / "key.pem", "-pubout", "-out", tmp_path / "key.pub")
    signed = (released / "provenance.sigstore.json").read_bytes()
    with pytest.raises(bundle.NotSigned):
        load_verifier(str(tmp_path / "key.pub")).opened(signed, "provenance")


def test_the_same_commit_gives_the_same_bytes(checkout: Path, released: Path, tmp_path: Path) -> None:
    _release(checkout, "build", "--out", tmp_path / "again", "--tag", f"v{VERSION}")
    assert (tmp_path / "again/SHA256SUMS").read_text() == (released / "SHA256SUMS").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tag", "v9.9.9"), "the tag is v9.9.9, and the version"),
        (("--tag", f"v{VERSION}"), "is not empty"),
    ],
)
def test_what_is_no_release(checkout: Path, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandFailed, match=said):
        _release(checkout, "build", "--out", tmp_path, *words)


def test_a_changed_file_is_not_signed(checkout: Path, released: Path, tmp_path: Path) -> None:
    shutil.copytree(released, tmp_path / "dist")
    (wheel, *_) = (tmp_path / "dist").glob("*-none-any.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    words = ("--out", tmp_path / "dist", "--key", released.parent / "key.pem", "--commit", COMMIT)
    with pytest.raises(CommandFailed, match="is not what SHA256SUMS lists"):
        _release(checkout, "sign", *words)
    wheel.write_bytes(wheel.read_bytes()[:-1])
    listed = (tmp_path / "dist/SHA256SUMS").read_text()
    for text in ("", listed.partition("\n")[2]):  # lists of no file, and of all but one
        (tmp_path / "dist/SHA256SUMS").write_text(text)
        with pytest.raises(CommandFailed, match="does not list exactly the files of the release"):
            _release(checkout, "sign", *words)


@pytest.fixture
def index(released: Path, tmp_path: Path) -> Iterator[str]:
    """A package index on loopback, in the form of the simple repository API (PEP 503)."""
    project = tmp_path / "index" / "simple" / "sandwright"
    project.mkdir(parents=True)
    links = []
    for path in released.glob("sandwright-*"):
        shutil.copy(path, project / path.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        links.append(f'<a href="{path.name}#sha256={digest}">{path.name}</a>')
    page = ("<!DOCTYPE html><html><body>", *links, "</body></html>")
    (project / "index.html").write_text("\n".join(page))
    handler = functools.partial(_Quiet, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""


@pytest.mark.parametrize("kind", representative(["wheel", "sdist"], "wheel"))
def test_it_is_installed_from_an_index(released: Path, index: str, tmp_path: Path, kind: str) -> None:
    """Installed with the hashes of SHA256SUMS: both packages are there, and the command is native."""
    folder = tmp_path / "venv"
    process.run(sys.executable, "-m", "venv", "--without-pip", folder, timeout=60)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(yaml.__file__).parents[1]}\n")
    digests = [line.split()[0] for line in (released / "SHA256SUMS").read_text().splitlines()]
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in digests)
    (tmp_path / "requirements.txt").write_text(f"sandwright=={VERSION} {hashes}\n")
    words = ("--no-deps", "--ignore-installed", "--no-build-isolation", "--require-hashes")
    only = ("--only-binary", ":all:") if kind == "wheel" else ("--no-binary", ":all:")
    process.run(
        sys.executable, "-m", "pip", "--python", folder / "bin/python3", "install", "--quiet",
        "--index-url", index, *words, *only, "--requirement", tmp_path / "requirements.txt", timeout=300,
    )  # fmt: skip
    command = folder / "bin" / "sandwright"
    assert command.read_bytes()[:4] == b"\x7fELF"
    assert process.run(command, "--help", cwd=tmp_path).text.startswith("Usage: sandwright")
    code = "import sandwright as s, sandwright_kubernetes as k; print(s.__version__, s.__file__, k.__file__)"
    version, *files = process.run(folder / "bin/python3", "-P", "-c", code, cwd=tmp_path).text.split()
    assert version == VERSION
    assert all(Path(each).is_relative_to(packages) for each in files)
