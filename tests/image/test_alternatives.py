"""Alternatives, read from maintainer scripts: the calls that are understood, and the resulting links."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import get_args

import pytest

from sandwright import process
from sandwright.errors import BuildError, FetchError, HostError, LockError
from sandwright.host import collect_host
from sandwright.image.alternatives import read_alternatives
from sandwright.image.apt import lock_image
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.declared import declare, skipped_scripts
from sandwright.image.definition import Platform, load_catalogue
from sandwright.image.dockerfile.render import Recipe, render_dockerfile
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import write_lock
from sandwright.image.mirrors import find_mirrors
from sandwright.image.sections import Config
from sandwright.image.tree import PackageContents
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.unpacking.unpack import unpack
from support.filetrees import given, overlay_on, shown

DOCS = Path(__file__).parents[2] / "docs" / "images.md"

SCRIPTS = {
    "libblas3": """\
#!/bin/sh
set -e
update-alternatives --install /usr/lib/x86_64-linux-gnu/libblas.so.3 \\
                    libblas.so.3-x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/blas/libblas.so.3 10
""",
    "mawk": """\
case "$1" in
    configure)
        update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5 \\
                --slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz
    ;;
esac
""",
    "gawk": "update-alternatives --quiet --install /usr/bin/awk awk /usr/bin/gawk 10\n",
    "php8.2-cli": """\
if [ "$1" = "configure" ]; then
    for binary in php phar; do
        update-alternatives \\
\t    --install /usr/bin/${binary} ${binary} /usr/bin/${binary}8.2 82
    done
fi
""",
    "jexec": """\
priority=1711
basedir=/usr/lib/jvm
for i in $tools; do
    update-alternatives --install /usr/bin/$i $i $basedir/bin/$i $priority $slave1
done
update-alternatives --install /usr/bin/jexec jexec $basedir/lib/jexec $priority
""",
}
"""Calls from packages of Debian 12; the last is shortened from openjdk-17-jre-headless."""


def links(script: str) -> tuple[list[tuple[str, str, int]], bool]:
    found, unread = read_alternatives(script.encode())
    return [(each.choice.link, each.choice.path, each.priority) for each in found], unread


def test_calls_in_packages() -> None:
    multiarch = "/usr/lib/x86_64-linux-gnu"
    assert {name: links(script) for name, script in SCRIPTS.items()} == {
        "libblas3": ([(f"{multiarch}/libblas.so.3", f"{multiarch}/blas/libblas.so.3", 10)], False),
        "mawk": ([("/usr/bin/awk", "/usr/bin/mawk", 5)], False),
        "gawk": ([("/usr/bin/awk", "/usr/bin/gawk", 10)], False),
        "php8.2-cli": (
            [("/usr/bin/php", "/usr/bin/php8.2", 82), ("/usr/bin/phar", "/usr/bin/phar8.2", 82)],
            False,
        ),
        "jexec": ([("/usr/bin/jexec", "/usr/lib/jvm/lib/jexec", 1711)], True),
    }


@pytest.mark.parametrize(
    "words",
    [
        "/usr/bin/x x $(which y) 1",
        "/usr/bin/x x /usr/bin/* 1",
        "/usr/bin/x x /usr/bin/$unknown 1",
        "/usr/bin/x x /usr/bin/y high",
        "/usr/bin/x x /usr/bin/y",
        "usr/bin/x x /usr/bin/y 1",
        "/usr/bin/../x x /usr/bin/y 1",
        "/usr/bin/x ../x /usr/bin/y 1",
        "/usr/bin/x x /usr/bin/y 1 --follow /a a /b",
        '/usr/bin/x x "/usr/bin/y 1',
    ],
)
def test_calls_that_are_not_read(words: str) -> None:
    assert links(f"update-alternatives --install {words}\n") == ([], True)


@pytest.mark.parametrize(
    "script",
    [
        "a=/x\na=/y\nupdate-alternatives --install /b b $a 1\n",
        f"for a in {'x ' * 40}; do for b in {'y ' * 40}; do\nupdate-alternatives --install /$a $b /c 1\n",
    ],
    ids=["set twice", "too many"],
)
def test_variables_that_are_not_read(script: str) -> None:
    assert links(script) == ([], True)


def test_other_calls_are_none() -> None:
    calls = ("# update-alternatives --install /a a /b 1", "update-alternatives --remove a /b")
    script = "\n".join(calls)
    assert links(script) == ([], False)


def package(name: str) -> PackageContents:
    control = {"control": b"", "postinst": SCRIPTS[name].encode()}
    return PackageContents(name, control=control)


def test_the_highest_priority_wins() -> None:
    overlay = overlay_on("usr/bin/gawk", "usr/bin/mawk", "usr/share/man/man1/mawk.1.gz")
    declare("alternatives", overlay, given(package("gawk"), package("mawk")))
    assert {path: what for path, what in shown(overlay).items() if str(what).startswith("->")} == {
        "etc/alternatives/awk": "-> /usr/bin/gawk",
        "usr/bin/awk": "-> /etc/alternatives/awk",
    }
    assert overlay.tree.resolve(b"usr/bin/awk") == b"usr/bin/gawk"


def test_what_is_not_there_is_left_out() -> None:
    """The image excludes gawk's program and mawk's page; a file is never replaced."""
    overlay = overlay_on("usr/bin/mawk", "usr/bin/php", "usr/bin/php8.2")
    declare("alternatives", overlay, given(*map(package, ("gawk", "mawk", "php8.2-cli"))))
    assert {path: what for path, what in shown(overlay).items() if str(what).startswith("->")} == {
        "etc/alternatives/awk": "-> /usr/bin/mawk",
        "usr/bin/awk": "-> /etc/alternatives/awk",
    }


def test_packages_that_are_named() -> None:
    packages = [package("jexec"), package("gawk")]
    scripts = "declared, so scripts of these packages are not run: gawk, jexec"
    assert skipped_scripts(packages, ()) == (scripts,)
    more = "not all alternatives of these packages are declared; add 'links': jexec"
    assert skipped_scripts(packages, ("alternatives",)) == (scripts, more)


def _example(images: Path) -> None:
    """The definition on the page."""
    (text,) = (
        each for each in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "numpy" in each
    )
    (images / "numpy").mkdir(parents=True)
    (images / "numpy/image.yaml").write_text(text)


def test_a_dockerfile_is_refused(tmp_path: Path) -> None:
    _example(tmp_path)
    recipe = Recipe("linux/amd64", 0, "builder@sha256:0", None, Config())
    with pytest.raises(
        BuildError, match="cannot write image 'numpy' as a Dockerfile: it declares alternatives"
    ):
        render_dockerfile(load_catalogue(tmp_path)["numpy"], recipe)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("apt-get", "bwrap")
def test_numpy_is_imported(tmp_path: Path) -> None:
    """NumPy's library needs libblas.so.3, an alternative: it is missing unless the definition declares it."""
    images = tmp_path / "images"
    (platform,) = (each for each in get_args(Platform) if each == collect_host().platform)
    _example(images)
    try:
        mirrors = find_mirrors(None, os.environ)
        cache = default_cache(os.environ)
        definition = dataclasses.replace(load_catalogue(images)["numpy"], platforms=(platform,))
        write_lock(definition.folder, lock_image(definition, mirrors=mirrors, cache=cache))
    except (FetchError, HostError, LockError) as error:
        pytest.skip(f"the packages of NumPy can't be had: {error}")

    def imported(name: str, without: str = "") -> process.Result:
        declared = tuple(each for each in definition.declare if each != without)
        catalogue = {"numpy": dataclasses.replace(definition, declare=declared)}
        supply = Fetcher(Cache(cache), mirrors)
        (built,) = build_images(catalogue, output=tmp_path / name, supply=supply, frozen=True)
        root = tmp_path / f"{name}-root"
        unpack(open_image(built.layout, platform=platform).layers, root)
        argv = ("bwrap", "--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all")
        program = ("/usr/bin/python3", "-c", "import numpy; print(numpy.dot([1, 2], [3, 4]))")
        return process.run(*argv, *program, timeout=60, check=False)

    assert imported("with").text == "11"
    cache_file = (tmp_path / "with-root/etc/ld.so.cache").read_bytes()
    assert b"/libblas.so.3\0" in cache_file
    assert "libblas.so.3: cannot open shared object file" in imported("without", "alternatives").stderr
