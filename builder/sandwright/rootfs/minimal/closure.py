"""Follows the dependencies of programs: interpreters, libraries, scripts, packages, shipped rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from sandwright.errors import BuildError
from sandwright.rootfs.elf import Elf, Malformed
from sandwright.rootfs.minimal import patterns
from sandwright.rootfs.minimal.ldso import DynamicLoader, LoadedObject
from sandwright.rootfs.minimal.ledger import Ledger
from sandwright.rootfs.minimal.linking import LibraryLookup, link
from sandwright.rootfs.minimal.packages import PackageDatabase
from sandwright.rootfs.minimal.rules import load_rules
from sandwright.rootfs.minimal.script import LONGEST_LINE, read_script
from sandwright.rootfs.minimal.selection import Reason, Selection, path_text
from sandwright.rootfs.minimal.trace import Trace
from sandwright.rootfs.securejoin import ResolvedPath, Root
from sandwright.rootfs.tar.entry import show

_TRANSIENT = re.compile(rb"/(?:proc|dev|sys|tmp)(?:/|$)")


class DependencyClosure:
    """A growing set of kept paths of one root. Ask for things, then take the `selection`.

    `search` are the directories of PATH, for scripts that run through env; `library_path` is
    LD_LIBRARY_PATH. `drop` are patterns of paths that are never kept, even if a file needs them. With
    `dependencies`, the data of all packages that a program's package depends on is kept too.
    """

    def __init__(
        self,
        root: Root,
        *,
        search: Iterable[bytes] = (),
        library_path: str = "",
        drop: Iterable[bytes] = (),
        dependencies: bool = False,
    ) -> None:
        self._root = root
        self._books = Ledger(root, drop)
        self._loader = DynamicLoader(root, library_path=library_path)
        self._packages = PackageDatabase(root)
        self._rules = load_rules()
        self._search = tuple(search)
        self._dependencies = dependencies
        self._programs: list[bytes] = []
        self._linked: set[bytes] = set()
        self._opened: set[str] = set()
        self._used: set[bytes] = set()

    def program(self, path: bytes) -> None:
        """Keep a program and all it needs. Raise BuildError when it is not there or can't start here."""
        resolved = self._root.locate(path)
        if not _executable(resolved):
            raise BuildError(f"the image has no program {show(path)}: {resolved.kind} is there")
        self._programs.append(path)
        self._keep_program(path, Reason("asked"))
        self._follow_all()
        broken = self._books.missed_by(self._started_with(resolved.path))
        if broken:
            raise BuildError(f"{show(path)} cannot start in this image: {'; '.join(broken)}")

    def declared(self, pattern: bytes, detail: str, *, required: bool = True) -> None:
        """Keep the files of a path or pattern, a directory with all its content.

        Raise BuildError when it names nothing and is `required`.
        """
        found = list(patterns.find(self._root, pattern))
        if required and not found:
            raise BuildError(f"the image has nothing at {show(pattern)} to keep")
        for path in found:
            self._books.keep(path, Reason("declared", None, detail))
        self._follow_all()

    def folder(self, path: bytes, detail: str) -> None:
        """Keep a directory without its entries, if it exists."""
        self._books.keep(path, Reason("declared", None, detail))
        self._follow_all()

    def traced(self, run: Trace, detail: str) -> None:
        """Keep the files that a traced run used, except on the file systems that are made at each start."""
        for path in run.used:
            resolved = self._root.locate(path)
            if resolved.status is None or _TRANSIENT.match(resolved.path):
                continue
            late = (
                resolved.path not in self._books and resolved.is_file and self._elf(resolved.path) is not None
            )
            self._books.keep(path, Reason("dlopen" if late else "trace", None, detail))
            self._follow_all()
        for folder in run.listed:
            if not _TRANSIENT.match(folder):
                self._books.ask("names in directories that the traced run listed", folder, folder + b"/**")

    def selection(self) -> Selection:
        """The selection so far, and the open paths."""
        if not self._packages.exists:
            self._books.ask("package data: the image has no package database", b"/var/lib/dpkg")
        return self._books.selection(self._programs)

    def _follow_all(self) -> None:
        while self._books.new:
            path = self._books.new.popleft()
            self._apply_rules(path)
            resolved = self._root.locate(path, follow=False)
            if resolved.is_file:
                self._look_into(resolved)

    def _look_into(self, resolved: ResolvedPath) -> None:
        """Follow the references in a file's own bytes."""
        head = self._read_first_line(resolved.path)
        if head.startswith(b"#!") and _executable(resolved):
            self._script(resolved.path, head)
        elif elf := self._elf(resolved.path):
            self._library_questions(resolved.path, elf)
            self._keep_dlopened(resolved.path, elf)
            if resolved.path not in self._linked:
                self._link_program(resolved.path, elf)

    def _read_first_line(self, path: bytes) -> bytes:
        fd = self._root.open(path)
        try:
            return os.pread(fd, LONGEST_LINE, 0)
        finally:
            os.close(fd)

    def _elf(self, path: bytes) -> Elf | None:
        try:
            return self._loader.elf(path)
        except Malformed as broken:
            self._books.miss(path, b"", f"a broken ELF file, kept as it is: {broken}")
            return None

    def _link_program(self, path: bytes, elf: Elf) -> None:
        if elf.interpreter and self._books.keep(elf.interpreter, Reason("interpreter", path)) is None:
            self._books.miss(path, elf.interpreter, _no_interpreter(elf.interpreter))
        for step in link(self._loader, LoadedObject(path, elf)):
            self._keep_library(step)

    def _keep_library(self, step: LibraryLookup) -> None:
        asker = self._root.locate(step.asker).path
        for found in step.found:
            resolved = self._books.keep(
                found.path, Reason("needed", asker, f"{path_text(step.name)}, {found.how}")
            )
            if resolved is not None:
                self._linked.add(resolved.path)
        if step.found or step.optional:
            return
        unlisted = self._loader.find_unlisted(step.name, step.asker)
        for path in unlisted:
            self._books.keep(path, Reason("needed", asker, f"{path_text(step.name)}, ld.so.conf"))
        hint = (
            f"; it lies in {path_text(unlisted[0])}, but not in ld.so.cache: run ldconfig" if unlisted else ""
        )
        self._books.miss(asker, step.name, f"the library {show(step.name)} is not found{hint}")

    def _script(self, path: bytes, head: bytes) -> None:
        script = read_script(head)
        if script is None:
            return
        if self._keep_program(script.interpreter, Reason("script", path)) is None:
            self._books.miss(
                path, script.interpreter, f"its interpreter {show(script.interpreter)} is not there"
            )
        if script.program:
            self._by_name(script.program, path)
        self._books.ask("programs and files that scripts use", path)

    def _by_name(self, name: bytes, path: bytes) -> None:
        """Keep the program that env would find for the script `path`."""
        candidates = [name] if b"/" in name else [folder + b"/" + name for folder in self._search]
        for candidate in candidates:
            if candidate.startswith(b"/") and _executable(self._root.locate(candidate)):
                self._keep_program(candidate, Reason("script", path, "by env"))
                return
        self._books.miss(path, name, f"the program {show(name)}, which env would start, is not there")

    def _keep_program(self, path: bytes, reason: Reason) -> ResolvedPath | None:
        """Keep a program, and the data of the packages that own it or a link to it."""
        if not path.startswith(b"/"):
            return None
        resolved = self._books.keep(path, reason)
        if resolved is not None:
            named = self._root.locate(path, follow=False)
            for each in dict.fromkeys((named.path, *resolved.links, resolved.path)):
                owner = self._packages.owner(each)
                for package in [] if owner is None else self._with_dependencies(owner):
                    self._keep_package(package, resolved.path)
        return resolved

    def _with_dependencies(self, package: str) -> list[str]:
        return self._packages.with_dependencies(package) if self._dependencies else [package]

    def _keep_package(self, package: str, parent: bytes) -> None:
        if package in self._opened:
            return
        self._opened.add(package)
        for path in self._packages.files(package):
            why = self._not_data(path, package)
            if why:
                self._books.leave_out(path, why)
            elif self._holds_something(path):
                continue  # kept entries bring their directory along; an empty directory is data itself
            elif self._books.keep(path, Reason("package", parent, package)) is None:
                self._books.leave_out(path, f"package {package} lists it, and the image does not have it")

    def _holds_something(self, path: bytes) -> bool:
        return self._root.locate(path, follow=False).is_directory and bool(self._root.names(path))

    def _not_data(self, path: bytes, package: str) -> str:
        """The reason why a file of a package is not kept as its data; empty when it is."""
        if os.fsencode(PurePosixPath(os.fsdecode(path)).parent) in self._rules.programs:
            return f"another program of package {package}"
        if any(patterns.matches(pattern, path) for pattern in self._rules.but):
            return ""
        fitting = (why for pattern, why in self._rules.leave if patterns.matches(pattern, path))
        why = next(fitting, "")
        return why and f"{why} of package {package}"

    def _apply_rules(self, path: bytes) -> None:
        for rule in self._rules.rules:
            match = rule.when.fullmatch(path)
            if match is None:
                continue
            reason = Reason("rule", path, rule.name)
            for pattern in self._unused(match.expand(each) for each in rule.keep):
                for found in patterns.find(self._root, pattern):
                    self._books.keep(found, reason)
            for link_path in self._unused(match.expand(each) for each in rule.links):
                if self._root.locate(link_path, follow=False).is_link:
                    self._books.keep(link_path, reason)
            for among, about in rule.ask:
                self._books.ask(path_text(match.expand(about.encode())), path, match.expand(among))

    def _unused(self, requested: Iterable[bytes]) -> list[bytes]:
        """The patterns that no earlier rule has named."""
        new = [pattern for pattern in requested if pattern not in self._used]
        self._used.update(new)
        return new

    def _library_questions(self, path: bytes, elf: Elf) -> None:
        for functions, among, about in self._rules.imports:
            if functions & elf.imports:
                self._books.ask(about, path, among)

    def _keep_dlopened(self, path: bytes, elf: Elf) -> None:
        """Keep the libraries that a file loads at run time by its notes; a suggested one is a question."""
        for each in elf.dlopens:
            label = f"{each.feature or 'a feature'}, {each.priority}: {' or '.join(each.sonames)}"
            if each.priority == "suggested":
                self._books.ask(f"libraries loaded at run time for {label}", path)
                continue
            for soname in each.sonames:
                for found in self._loader.find(soname.encode(), LoadedObject(path, elf)):
                    self._books.keep(found.path, Reason("dlopen", path, label))

    def _started_with(self, path: bytes) -> set[bytes]:
        """A program, the interpreters it may be a script of, and all libraries the loader brings for them."""
        files: set[bytes] = set()
        while path not in files and self._root.locate(path).is_file:
            files.add(path)
            if elf := self._elf(path):
                steps = link(self._loader, LoadedObject(path, elf))
                return files | {self._root.locate(each.path).path for step in steps for each in step.found}
            script = read_script(self._read_first_line(path))
            path = self._root.locate(script.interpreter).path if script else path
        return files


def _no_interpreter(path: bytes) -> str:
    return f"its interpreter {show(path)} is not there"


def _executable(resolved: ResolvedPath) -> bool:
    return resolved.is_file and resolved.status is not None and bool(resolved.status.st_mode & 0o111)
