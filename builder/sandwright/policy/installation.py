"""The directories of this program's installation in which a policy lets a sandbox write.

A program that can write the packages, the interpreter or a library that the next start of this program loads
runs code outside the sandbox with all rights of the user. Directories of the installation that lie in
something writable, such as an environment in the project, are recorded with the facts and become read-only
inside. Directories that the caller's environment adds (PYTHONPATH, LD_LIBRARY_PATH) may belong to the project
and cannot be made read-only: then nothing is started.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import site
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

from sandwright import process
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.policy.declaration import Declaration
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import ancestors, canonical_with_links, is_inside
from sandwright.policy.reserved import granting_rules
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule, PathRules
from sandwright.resources import Room, data_path

LIBRARIES = {
    "LD_PRELOAD": "[: ]",
    "LD_LIBRARY_PATH": "[:;]",
    "LD_AUDIT": ":",
    "DYLD_INSERT_LIBRARIES": ":",
    "DYLD_LIBRARY_PATH": ":",
    "DYLD_FRAMEWORK_PATH": ":",
}
"""Variables that name libraries or their directories (ld.so(8), dyld(1)), each with its separators."""

CODE = {
    **dict.fromkeys(("OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES"), ""),
    "GCONV_PATH": ":",
}
"""Variables by which libraries load code, likewise. A configuration of OpenSSL, which Python's `hashlib`
reads, names modules (config(5), openssl-env(7)); iconv(3) loads converters, in Git, too."""

_BARE_NAMES = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES")
"""The variables of which a name without a slash is looked for in the system's directories."""

LAUNCHERS_PROGRAMS = (
    *("alclessctl", "awk", "bash", "bwrap", "cat", "chmod", "conmon", "cp", "crun", "date", "docker", "env"),
    *("find", "flock", "grep", "id", "kubectl", "mkdir", "mkfifo", "mktemp", "podman", "readlink", "rm"),
    *("rmdir", "rsync", "runc", "runsc", "sed", "setpriv", "setsid", "sh", "sha256sum", "sleep", "stty"),
    *("sudo", "tail", "timeout", "tr", "uname", "unshare"),
)
"""Programs that launchers take from PATH."""

_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", *LIBRARIES, *CODE)


def ask_installation(inputs: LiveHost) -> None:
    """Record with the rendering how Python was started, and its variables: the next start may differ."""
    inputs.ask_all(("variable", name) for name in _VARIABLES)
    inputs.content(f"{sys.prefix}/pyvenv.cfg")
    for path in dict.fromkeys((inputs.real(sys.executable), *filter(os.path.isabs, sys.path))):
        inputs.ask("stamp", path)  # of a directory: packages there, and `.pth` files that extend the path
        for name in _directory_names(path):
            if name.endswith(".pth"):
                inputs.content(f"{path}/{name}")


def _directory_names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def writable_parts(facts: HostFacts, writable: Iterable[str]) -> tuple[str, ...]:
    """The directories of the installation that lie in writable ones, or behind a link in one.

    `facts` have the entries at `installed_directories`; `writable` are canonical.
    """
    roots = tuple(writable)
    found: dict[str, str] = {}
    for location in installed_directories():
        path, links = canonical_with_links(location, facts)
        if any(is_inside(each, root) for each in (path, *links) for root in roots):
            found.setdefault(path, location)
    return tuple(location for path, location in found.items() if found.keys().isdisjoint(ancestors(path)))


def installed_directories() -> tuple[str, ...]:
    """The directories of the interpreter, its environment and our package, without others' additions."""
    roots = [sys.prefix, sys.exec_prefix, sys.base_prefix, str(Path(__file__).parents[2])]
    roots += [str(data_path(room)) for room in get_args(Room)]
    roots += [site.USER_SITE] if site.ENABLE_USER_SITE and site.USER_SITE else []
    found = dict.fromkeys(_absolute_path(path) for path in (*roots, str(Path(sys.executable).parent)))
    found.update(
        dict.fromkeys(path for path in _search_path() if any(is_inside(path, root) for root in found))
    )
    return tuple(path for path in found if path != "/")


def refuse_changeable(policy: ResolvedPolicy) -> None:
    """Raise UsageError if the sandbox could change a file that the next start of this program loads."""
    if policy.methods == ("noop",):
        return
    tree = policy.filesystem.tree
    held = [location for location in installed_directories() if not _changeable(location, tree.changes_host)]
    for path, why in _added():
        if _changeable(path, tree.changes_host) and not any(is_inside(path, location) for location in held):
            raise UsageError(f"{why}, which the sandbox can write: the next start would load code from there")
    for location in (*installed_directories(), *_executables()):
        granted = any(rule.writable and not rule.private for rule in tree.at(os.path.realpath(location)))
        if granted or _changeable(location, tree.changes_host):
            raise UsageError(f"the policy lets {location} be written, and this program is loaded from there")
    _refuse_inside(policy.filesystem.rules)
    holding = process.folders_with(LAUNCHERS_PROGRAMS, _executable_directories(tree.changes_host))
    for name, folders in holding.items():
        found = shutil.which(name, path=os.pathsep.join(folders))
        if found is not None and _changeable(found, tree.changes_host):
            raise UsageError(f"{found}, which launchers run, leads to a file that the sandbox can write")
    _refuse_changeable_modules(tree)


def _refuse_changeable_modules(tree: PathRules) -> None:
    """Raise UsageError where the sandbox could change a module that has been loaded."""
    folders: dict[str, tuple[str, bool]] = {}  # few, for hundreds of modules
    for name, file in _loaded_modules():
        folder, _, base = file.rpartition("/")
        if folder not in folders:
            above = process.real_path(_absolute_path(folder), tree.changes_host) or ""
            folders[folder] = above, bool(above) and not tree.decides_inside(above)
        above, as_a_whole = folders[folder]
        if as_a_whole and not os.path.islink(f"{above}/{base}"):  # noqa: PTH114 - there are hundreds
            continue
        path = _absolute_path(file)
        if process.real_path(base if above else path, tree.changes_host, above=above) is None:
            raise UsageError(f"the policy lets {path} be written, and this program has loaded {name} from it")


def _refuse_inside(rules: Iterable[PathRule]) -> None:
    """Raise UsageError for a grant inside a directory of packages: a later start may load files there."""
    prefixes = {_absolute_path(path) for path in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    packages = [
        location for location in (*installed_directories(), *_search_path()) if location not in prefixes
    ]
    holding = {os.path.realpath(location) for location in packages}
    for rule in rules:
        if rule.writable and not rule.private and not holding.isdisjoint(ancestors(rule.path)):
            raise UsageError(f"the policy lets {rule.path} be written, and this program is loaded from there")


def refuse_replaceable(policy: ResolvedPolicy, declaration: Declaration, directory: str) -> None:
    """Raise UsageError where the sandbox could replace the artifacts in a directory."""
    tree, path = policy.filesystem.tree, os.path.realpath(directory)
    if not declaration.enforces:
        return
    open_ = _changeable(_absolute_path(directory), tree.changes_host)
    if not open_ and granting_rules(policy.filesystem.rules, policy.facts).changes_host(path):
        rule = tree.deciding(path)[0]
        feature = "protect" if rule.origin == "protected" else _HOLDING.get(rule.kind, "write")
        open_ = declaration.of(f"filesystem.{feature}").level == "cannot"
    if open_:
        raise UsageError(
            f"{directory} can be written from inside a sandbox of {declaration.method}, and launchers run on "
            "the host: give --out a directory that the policy doesn't let be written"
        )


_HOLDING = {"deny": "deny-inside", "readonly": "readonly"}
"""The feature that a method needs to hold a rule inside a writable directory."""


def _is_own_process() -> bool:
    """Whether this process runs our program. Otherwise it is a caller's, with other code."""
    return "sandwright.cli" in sys.modules and not _is_invoke()


def _is_invoke() -> bool:
    """Whether it is Invoke, which loads the project's own tasks, and ours beside them."""
    return Path(sys.argv[0]).name in ("invoke", "inv")


def _executables() -> Iterator[str]:
    """The interpreter, as it was started and without its environment; then all mapped files (proc(5))."""
    yield sys.executable
    yield getattr(sys, "_base_executable", sys.executable)
    yield from _commands()
    if _is_own_process():  # otherwise it is a caller's process, with other libraries
        with contextlib.suppress(OSError):
            lines = Path("/proc/self/maps").read_bytes().splitlines()
            found = {os.fsdecode(fields[5]) for line in lines if len(fields := line.split(None, 5)) == 6}
            yield from sorted(path for path in found if path.startswith("/"))


def _commands() -> Iterator[str]:
    """The installed command wherever PATH finds it, links not resolved, and the file with its interpreter."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    for command in (sys.argv[0], *(f"{folder}/sandwright" for folder in folders)):
        if Path(command).name == "sandwright" and os.path.lexists(command):
            yield _absolute_path(command)
            yield f"{Path(os.path.realpath(command)).parent}/sandwright-interpreter"


def _loaded_modules() -> Iterator[tuple[str, str]]:
    """The modules that have been loaded, with their files; for a program that uses ours, ours alone."""
    all_ours = _is_own_process()
    for name in sorted(sys.modules):
        ours = all_ours or name.partition(".")[0].startswith("sandwright")
        file = getattr(sys.modules[name], "__file__", None) if ours else None
        if isinstance(file, str):
            yield name, file


def _executable_directories(changes: Callable[[str], bool]) -> Iterator[str]:
    """The directories of PATH that launchers take programs from."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("/") and not changes(os.path.realpath(folder)):
            yield folder


def _added() -> Iterator[tuple[str, str]]:
    """The paths that the caller's environment and way to start Python add, each with a sentence about it."""
    for path in _paths_of_variable(
        "PYTHONPATH", os.pathsep
    ):  # programs that launchers start may go by it, too
        yield path, f"PYTHONPATH names {path}"
    if sys.pycache_prefix:
        path = _absolute_path(sys.pycache_prefix)
        yield path, f"Python's cache is in {path}"
    if not sys.flags.safe_path and sys.path[:1] and not _is_invoke():
        path = _absolute_path(sys.path[0])
        yield path, f"Python was started so that it looks for modules in {path} (without -P)"
    reserved = installed_directories()
    for path in _search_path():
        if path not in reserved:
            yield path, f"{path} is on the path of Python that runs this program"
    for name, separator in (LIBRARIES | CODE).items():
        for path in _paths_of_variable(name, separator):
            yield path, f"{name} names {path}"


def _search_path() -> list[str]:
    """The directories in which Python looks for modules, without the caller's additions for this start."""
    entries = set(_paths_of_variable("PYTHONPATH", os.pathsep)) if not sys.flags.ignore_environment else set()
    entries |= set() if sys.flags.safe_path or not sys.path else {_absolute_path(sys.path[0])}
    return [
        path for each in sys.path if each.startswith("/") and (path := _absolute_path(each)) not in entries
    ]


def _paths_of_variable(variable: str, separator: str) -> Iterator[str]:
    """The paths that a variable names; an empty one is the current directory."""
    text = os.environ.get(variable, "")
    for part in (re.split(separator, text) if separator else [text]) if text else ():
        if os.sep in part or variable not in _BARE_NAMES:
            yield _absolute_path(part)


def _absolute_path(path: str) -> str:
    """An absolute path, links not resolved; one in a current directory that is gone leads nowhere."""
    try:
        return os.path.abspath(path)  # noqa: PTH100 - links stay
    except FileNotFoundError:
        return os.devnull


def _changeable(path: str, changes: Callable[[str], bool]) -> bool:
    return process.real_path(path, changes) is None
