"""Outside `methods/` no module knows a method's name: only its folder describes a method."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from sandwright.methods import METHODS

PACKAGE = Path(__file__).parents[2] / "builder" / "sandwright"
NAMES = frozenset(METHODS) | {name for each in METHODS.values() for name in each.variants}

PROGRAMS = {"bwrap", "docker", "podman"}
"""Names of methods that are also programs. These rooms start or find programs, and build images with them."""

ALLOWED = {
    "host.py": {*PROGRAMS, "gvisor", "kubernetes"},  # programs on PATH, and the environment of this machine
    "engines/": {"docker", "podman"},  # the programs that the room drives
    "setup/": PROGRAMS,
    "image/": {*PROGRAMS, "user"},  # engines that build; a field of OCI images
    "rootfs/": {"bwrap", "user", "oci"},  # a program; a field of OCI images; a directory of our data
    "runtime/": {*PROGRAMS, "user"},  # programs; a namespace
    "verify/smoke/": {*PROGRAMS, "user"},
    "verify/mapping/": {*PROGRAMS, "user"},
    "documents/fields.py": {"user"},  # a field of OCI images
    "check/": {"bwrap", "user"},  # a program that images hold; a field of OCI images
    "cli/commands/": PROGRAMS,
    "cli/release.py": {"oci"},  # a default, which users see
    "cli/commands/images.py": {"user"},  # an option, about accounts of images
    "egress/namespaces.py": {"user"},  # a namespace
    "evaluate/sbpl/": {"seatbelt"},  # a directory of our data
    "render/accounts.py": {"user"},  # an account's name
    "render/baseline.py": {"oci"},  # directories of our data
    "render/proxy.py": {"oci"},
    "render/haproxy.py": {"oci"},
    "resources.py": {"oci", "seatbelt"},
    "session/prepare.py": {"oci", "seatbelt"},
    "session/doctor.py": {"gvisor"},  # the environment of this machine
    "verify/catalogue/processes.py": {"user"},  # a namespace
    "policy/hidden.py": {"oci"},
    "policy/installation.py": {*PROGRAMS, "noop"},  # programs that launchers run
    "policy/own_directories.py": {"podman"},  # a program, whose state a sandbox must not write
    "policy/load.py": {"gvisor"},  # a section of policies
    "policy/retired_keys.py": {"gvisor"},
    "policy/": {"user", "noop"},  # a layer of policies; the language asks for a reason for `noop`
    "policy/names.py": NAMES,  # the words in the schema of policies
}
"""By module, or room: the words with another meaning there, or still to be removed."""


@functools.cache
def _found() -> tuple[tuple[str, int, str], ...]:
    return tuple(_strings())


def _strings() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("methods/"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES:
                yield name, node.lineno, node.value


def _is_allowed(name: str, word: str) -> bool:
    return any(word in words for place, words in ALLOWED.items() if name.startswith(place))


def test_no_module_outside_knows_a_method_by_name() -> None:
    faults = [f"{name}:{line}: {word}" for name, line, word in _found() if not _is_allowed(name, word)]
    assert not faults, "\n".join(faults)


def test_no_exception_is_unused() -> None:
    places = {name for name, _, _ in _found()}
    assert [place for place in ALLOWED if not any(name.startswith(place) for name in places)] == []


def test_every_word_of_the_language_is_a_method() -> None:
    from sandwright.policy import names  # noqa: PLC0415 - its words are compared, not used

    assert tuple(METHODS) == names.METHODS


def test_only_the_contract_imports_a_method_by_text() -> None:
    texts = {path.name: path.read_text() for path in sorted((PACKAGE / "methods").rglob("*.py"))}
    assert [name for name, text in texts.items() if "lazy.load" in text] == ["contract.py", "installed.py"]
    assert [name for name, text in texts.items() if "import_module" in text] == []
