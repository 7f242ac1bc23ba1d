"""Writes the definition of a new image, for `sandwright init-image`."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from sandwright.errors import SandwrightError, UsageError
from sandwright.image.definition import FILE, NAME, ImageDefinition, base_definitions, load_catalogue
from sandwright.image.sections import DebianBase, ImageUser
from sandwright.outputs import write_output
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter, render_template

SUITES: tuple[str, ...] = get_args(DebianBase.__annotations__["debian"])
_PLAIN = re.compile(r"(?:[A-Za-z/]|--)[A-Za-z0-9/._+-]*")
_SPECIAL = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 reads as something else than text."""

ALPINE = "alpine"
"""The base that means packages of the Alpine release below."""
ALPINE_RELEASE = "3.23"

ALWAYS: Mapping[str, tuple[str, ...]] = {
    # without usr-is-merged, apt adds usrmerge and a whole perl
    "debian": ("ca-certificates", "tzdata", "usr-is-merged"),
    # ca-certificates makes its bundle in a script, which is not run
    "alpine": (
        "alpine-baselayout",
        "alpine-keys",
        "alpine-release",
        "apk-tools",
        "busybox",
        "ca-certificates-bundle",
        "musl-utils",
        "tzdata",
    ),
}
"""Packages of every new image, by distribution."""


@dataclass(frozen=True)
class LanguagePackages:
    """The packages of a language in each distribution, and a program that shows that they work."""

    debian: tuple[str, ...]
    alpine: tuple[str, ...]
    program: tuple[str, ...]

    def packages(self, distribution: str) -> tuple[str, ...]:
        """The packages of one distribution."""
        return self.alpine if distribution == "alpine" else self.debian


LANGUAGES: Mapping[str, LanguagePackages] = {
    "c": LanguagePackages(
        ("g++", "gcc", "libc6-dev", "make", "pkg-config"),
        ("g++", "gcc", "make", "musl-dev", "pkgconf"),
        ("gcc", "--version"),
    ),
    "go": LanguagePackages(("golang-go",), ("go",), ("go", "version")),
    "java": LanguagePackages(
        ("default-jdk-headless", "maven"), ("maven", "openjdk21-jdk"), ("javac", "--version")
    ),
    "node": LanguagePackages(("nodejs", "npm"), ("nodejs", "npm"), ("node", "--version")),
    "python": LanguagePackages(
        ("python3", "python3-pip", "python3-venv"), ("py3-pip", "python3"), ("python3", "--version")
    ),
    "rust": LanguagePackages(("cargo", "rustc"), ("cargo", "rust"), ("cargo", "--version")),
}


@dataclass(frozen=True)
class NewImage:
    """The properties of a new image. `base` is a suite, ALPINE, the name of an image, or a reference."""

    name: str
    base: str
    packages: Sequence[str] = ()
    languages: Sequence[str] = ()
    user: str = "agent"
    description: str = ""

    def definition(self, inherited: Sequence[ImageUser] = ()) -> str:
        """The text of its `image.yaml`. Raise UsageError for packages on a base that takes none.

        `inherited` are the users of its base: one with the name of `user` is taken, other numbers are not.
        """
        distribution = "debian" if self.base in SUITES else "alpine" if self.base == ALPINE else ""
        if (self.packages or self.languages) and not distribution:
            raise UsageError(
                f"--package and --language need a distribution as base: {', '.join((*SUITES, ALPINE))}"
            )
        languages = [LANGUAGES[name] for name in self.languages]
        packages = {*ALWAYS.get(distribution, ()), *self.packages}
        packages.update(name for each in languages for name in each.packages(distribution))
        return render_template(
            "images",
            "new/image.yaml.j2",
            description=self.description or f"The image {self.name}.",
            base=self._base_section(),
            inherits="image" in self._base_section(),
            new_user=self.user not in {each.name for each in inherited},
            uid=next(uid for uid in itertools.count(1000) if uid not in {each.uid for each in inherited}),
            distribution=distribution,
            packages=sorted(packages),
            programs=[list(each.program) for each in languages],
            user=self.user,
            home=f"/home/{self.user}",
            shell="/bin/bash" if distribution == "debian" else "/bin/sh",
        )

    def write(self, images: Path, *, bases: Path) -> ImageDefinition:
        """Write the definition into its directory below `images`, and read it back with its base.

        `bases` is as for `load_catalogue`. Raise UsageError when it exists, DocumentError when it would be no
        definition; then nothing is left.
        """
        folder = images / self.name
        if not re.fullmatch(NAME, self.name):
            raise UsageError(f"'{self.name}' cannot name an image: words of a-z and 0-9, joined by '-'")
        if (folder / FILE).exists():
            raise UsageError(f"{folder / FILE} exists already")
        text = self.definition()
        write_output(str(folder / FILE), text.encode(), mode=0o644)
        try:
            catalogue = load_catalogue(images, bases=bases)
            below = base_definitions(catalogue, self.name)
            if users := [user for each in below for user in each.accounts.users]:
                write_output(str(folder / FILE), self.definition(users).encode(), mode=0o644)
                catalogue = load_catalogue(images, bases=bases)
            return catalogue[self.name]
        except SandwrightError:
            (folder / FILE).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise

    def _base_section(self) -> dict[str, str | list[str]]:
        if self.base in SUITES:
            return {"debian": self.base}
        if self.base == ALPINE:
            return {"alpine": ALPINE_RELEASE, "repositories": ["main", "community"]}
        return {"registry" if re.search(r"[/:@.]", self.base) else "image": self.base}


def quote_yaml(value: object) -> Quoted:
    """A value as YAML in one line: plain text where it means itself, else JSON, which is YAML."""
    match value:
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _SPECIAL:
            return Quoted(value)
        case dict():
            return Quoted(
                f"{{{', '.join(f'{quote_yaml(key)}: {quote_yaml(each)}' for key, each in value.items())}}}"
            )
        case list():
            return Quoted(f"[{', '.join(quote_yaml(each) for each in value)}]")
        case _:
            return Quoted(json.dumps(value, ensure_ascii=False))


add_filter("yaml", quote_yaml)
