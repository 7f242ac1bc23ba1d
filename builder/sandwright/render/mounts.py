"""The mount plan: the mounts inside a sandbox, decided once for bwrap, OCI bundles and the engines.

Mounts stand in the order in which they are made: parents before children, so that none hides another. A
target is never a path that doesn't exist on the host, since a mount there would leave an empty file or
directory behind. Where something restricted lies inside something writable, the directories between are mount
points themselves (*pins*): the kernel renames no mount point (EBUSY), so the restriction can't be moved away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sandwright.errors import RenderError
from sandwright.policy.facts import HostFacts
from sandwright.policy.hidden import hidden_in_hosts_sys, hidden_paths
from sandwright.policy.paths import ancestors, depth, is_inside, parent, same_name
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.tree import PathTree
from sandwright.questions import EntryKind
from sandwright.render.placeholders import (
    Placeholder,
    files_in_the_way,
    git_directories,
    placeholders,
    uncreatable,
)

Root = Literal["host", "image"]
"""The root at `/`: the host's (all of it, or an empty one with the readable paths), or an image's, which the
engine brings."""

MountKind = Literal["bind", "tmpfs", "mask", "dev", "proc", "symlink"]

_State = Literal["hidden", "readonly", "writable", "own"]


@dataclass(frozen=True)
class Mount:
    """One mount.

    `bind`: the host's `source` is visible at `target`. `tmpfs`: an empty directory. `mask`: an empty
    directory, or for other kinds an empty file, that hides the host's. `dev`, `proc`: the sandbox's own.
    `symlink`: a link whose text is `source`. `entry` is the kind of the target on the host. A `pin` shows the
    same directory as without it. `replaced`: programs on the host replace the file by renames in normal work,
    so the watch binds the new one again instead of ending the run. `of_image`: the mask hides a file or
    directory of the image, if it exists; then `entry` is the kind on the host, a file if it is missing there.
    `rule` is the rule behind the mount, None for the base.
    """

    target: str
    kind: MountKind
    writable: bool = False
    source: str = ""
    entry: EntryKind = "directory"
    pin: bool = False
    replaced: bool = False
    of_image: bool = False
    rule: PathRule | None = None


@dataclass(frozen=True)
class MountPlan:
    """Mounts in order, and the placeholders that must exist under them.

    `missing` are granted paths that don't exist, `repositories` Git's directories that may be written,
    without those in others, `uncreatable` the names that need no placeholder, since the sandbox cannot create
    them.
    """

    root: Root
    mounts: tuple[Mount, ...]
    placeholders: tuple[Placeholder, ...]
    missing: tuple[PathRule, ...]
    repositories: tuple[str, ...] = ()
    uncreatable: tuple[Placeholder, ...] = ()


def mount_plan(
    policy: ResolvedPolicy, *, root: Root, user_namespace: bool = False, supervised: bool = False
) -> MountPlan:
    """Plan the mounts that enforce a policy on a root. Takes time in proportion to the number of rules.

    With `user_namespace`, the mounting process has no capabilities over files of other users, not even as
    root. With `supervised`, a launcher's supervisor creates names where the policy restricts missing ones.
    Raise RenderError for a policy that grants a path in /proc or /sys that every sandbox hides.
    """
    _check_grants(policy)
    planning = _Planning(policy, root)
    planning.base()
    for rule in planning.rules():
        planning.mount_rule(rule)
    planning.hide()
    planning.place_sockets()
    if user_namespace:
        planning.hide_unsearchable()
    planning.place_links()
    planning.hold_files()
    planning.hold_main_index()
    planning.settle()
    missing = planning.placeholders()
    refused = uncreatable(policy, missing, supervised=supervised)
    repositories = planning.hold_repositories()
    planning.pin((*(placeholder.path for placeholder in missing), *repositories))
    mounts = sorted(planning.mounts.values(), key=lambda mount: (depth(mount.target), mount.target))
    return MountPlan(
        root=root,
        mounts=tuple(mounts),
        placeholders=tuple(each for each in missing if each not in refused),
        missing=tuple(planning.missing),
        repositories=repositories,
        uncreatable=refused,
    )


class _Planning:
    """A plan under construction: the mounts by target, and the visible path at each of them."""

    def __init__(self, policy: ResolvedPolicy, root: Root) -> None:
        self.mounts: dict[str, Mount] = {}
        self.missing: list[PathRule] = []
        self._policy = policy
        self._facts: HostFacts = policy.facts
        self._root = root
        self._states: PathTree[_State] = PathTree(same_name(policy.facts))

    def base(self) -> None:
        """The mounts at `/` before any rule, and the sandbox's `/dev` and `/proc`; engines bring these."""
        if self._root == "image":
            self._states.add("/", "hidden")
            return
        if self._policy.filesystem.reads_all:
            self._record_mount(Mount("/", "bind", source="/"), "readonly")
        else:
            self._record_mount(Mount("/", "tmpfs"), "hidden")
        self._record_mount(Mount("/proc", "proc", writable=True), "own")
        self._record_mount(Mount("/dev", "dev", writable=True), "own")

    def rules(self) -> Iterator[PathRule]:
        """The rule that decides at each path, parents first; otherwise the paths needed to start."""
        files = self._policy.filesystem
        chosen: dict[str, PathRule] = {}
        for rule in files.rules:
            strongest = chosen.get(rule.path)
            if strongest is None or rule.strength >= strongest.strength:
                chosen[rule.path] = rule
        if self._root == "host":
            for rule in files.startup:
                if (
                    not files.tree.deciding(rule.path)
                    or files.tree.deciding(rule.path)[0].origin == "startup"
                ):
                    chosen.setdefault(rule.path, rule)
        yield from sorted(chosen.values(), key=lambda rule: (depth(rule.path), rule.path))

    def mount_rule(self, rule: PathRule) -> None:
        """Mount the path of a rule, unless it is mounted so already."""
        if rule.path == "/" or rule.path in self.mounts or self._is_host_reopening(rule):
            return
        if rule.private:
            self._place_own(rule)
            return
        entry = self._facts.kind(rule.path)
        if self._root == "image" and self._state_at(rule.path) == "hidden":
            self._hide_of_image(rule)
        if entry is None:
            self.missing += [rule] if rule.kind in ("read", "write") and rule.origin == "listed" else []
            return
        state = self._state_at(rule.path)
        target_state = _WANTED[rule.kind]
        if (
            entry == "symlink"
            or state == target_state
            or (target_state == "hidden" and self._is_empty_inside(rule.path))
        ):
            return
        if target_state == "hidden":
            self._record_mount(Mount(rule.path, "mask", entry=entry, rule=rule), "hidden")
        else:
            writable = target_state == "writable"
            mount = Mount(rule.path, "bind", writable, source=rule.path, entry=entry, rule=rule)
            self._record_mount(mount, target_state)

    def _place_own(self, rule: PathRule) -> None:
        """The private temporary and home directories; `/dev` and `/proc` are there already."""
        source = self._policy.filesystem.home_source
        if self._root == "image" and rule.path.split("/")[1] in ("dev", "proc"):
            self._states.add(rule.path, "own")
        elif self._state_at(rule.path) in ("readonly", "writable") and self._facts.kind(rule.path) is None:
            self.missing.append(rule)
        elif rule.origin == "home" and self._facts.kind(source) == "directory":
            self._record_mount(Mount(rule.path, "bind", writable=True, source=source, rule=rule), "own")
        elif rule.origin == "home" or self._state_at(rule.path) != "own":
            self._record_mount(Mount(rule.path, "tmpfs", writable=rule.writable, rule=rule), "own")

    def _hide_of_image(self, rule: PathRule) -> None:
        """Hide a denied path of the image, also by the name that the policy gives it."""
        if not self._policy.denies_image(rule.path):
            return
        for path in (rule.path, self._policy.spelled(rule.written)) if rule.through else (rule.path,):
            above = (self.mounts.get(each) for each in ancestors(path))
            if not any(each is not None and each.of_image for each in above):
                kind = self._facts.kind(rule.path)
                entry: EntryKind = "directory" if kind == "directory" else "file"
                self._record_mount(Mount(path, "mask", entry=entry, of_image=True, rule=rule), "hidden")

    def settle(self) -> None:
        """Make a directory of each hidden path of the image in which something is mounted."""
        above = {each for path in self.mounts for each in ancestors(path)}
        for path, mount in self.mounts.items():
            if mount.of_image and path in above:
                self.mounts[path] = replace(mount, entry="directory")

    def _is_host_reopening(self, rule: PathRule) -> bool:
        return self._root == "image" and self._policy.filesystem.is_host_reopening(rule)

    def _is_empty_inside(self, path: str) -> bool:
        """Whether a path shows no file of the host, as in the private temporary directory."""
        return self._state_at(path) == "own" and path.split("/")[1] not in ("dev", "proc")

    def hide(self) -> None:
        """Hide the parts of /proc and /sys that no sandbox shows. Runtimes do so by themselves."""
        if self._root != "host":
            return
        of_host = hidden_in_hosts_sys(self._facts, own_network=self._policy.network.mode != "host")
        for path in (*hidden_paths(), *of_host):
            entry = self._facts.kind(path)
            if entry not in (None, "symlink") and self._state_at(path) != "hidden":
                for target in [each for each in self.mounts if each.startswith(f"{path}/")]:
                    del self.mounts[target]
                self._record_mount(Mount(path, "mask", entry=entry), "hidden")

    def place_sockets(self) -> None:
        """Bring in the sockets that may be connected to, and hide those that may not and would be seen."""
        allowed = self._policy.network.unix_sockets
        for path in allowed:
            if self._facts.kind(path) == "socket" and self._state_at(path) in ("hidden", "own"):
                self._record_mount(Mount(path, "bind", source=path, entry="socket"), "readonly")
        for path in self._facts.sockets:
            visible = self._state_at(path) in ("readonly", "writable")
            if path not in allowed and visible and self._facts.kind(path) == "socket":
                self._record_mount(Mount(path, "mask", entry="socket"), "hidden")

    def hide_unsearchable(self) -> None:
        """Hide a directory without search permission as a whole, as no mount can be made inside it.

        Inside it can't be passed either, until its owner opens it: so it is not left to its mode.
        """
        closed = set(self._facts.unsearchable)
        for target, mask in list(self.mounts.items()):
            above = [path for path in ancestors(target) if path in closed]
            if mask.kind != "mask" or not above or target not in self.mounts:
                continue
            inner = [each for each in self.mounts.values() if is_inside(each.target, above[-1])]
            if all(each.kind == "mask" for each in inner):
                for each in inner:
                    del self.mounts[each.target]
                if self._state_at(above[-1]) != "hidden":
                    self._record_mount(Mount(above[-1], "mask", rule=mask.rule), "hidden")

    def place_links(self) -> None:
        """Give an empty root the links by which programs know the paths that are brought in."""
        if self._root == "image" or self._policy.filesystem.reads_all:
            return
        for rule in (*self._policy.filesystem.rules, *self._policy.filesystem.startup):
            for path in rule.through if rule.kind != "deny" else ():
                text = self._facts.link(path)
                if text and self._state_at(path) == "hidden" and path not in self.mounts:
                    self.mounts[path] = Mount(path, "symlink", source=text, entry="symlink", rule=rule)

    def hold_files(self) -> None:
        """Keep a file from being replaced by a directory in which a restricted name could be made.

        Read-only, as it may have become a directory by the time that the sandbox starts.
        """
        for path, rule in files_in_the_way(self._policy).items():
            entry = self._facts.kind(path)
            if entry is not None and self._state_at(path) == "writable":
                self._record_mount(Mount(path, "bind", source=path, entry=entry, rule=rule), "readonly")

    def hold_main_index(self) -> None:
        """Keep a run in a linked work tree from writing the main work tree's index.

        Git on the host follows an index's entries out of its work tree, and runs programs configured there.
        It replaces the index at each `git status`; only the launchers of sandboxes over the host's root bind
        it again, so with an image it stays open, and the run's end reports such an entry.
        """
        for common in self._facts.git_worktree[1:] if self._root == "host" else ():
            path = f"{common}/index"
            if self._facts.kind(path) == "file" and self._state_at(path) == "writable":
                rule = self._policy.filesystem.tree.deciding(path)[0]
                mount = Mount(path, "bind", source=path, entry="file", replaced=True, rule=rule)
                self._record_mount(mount, "readonly")

    def hold_repositories(self) -> tuple[str, ...]:
        """Make a mount of each of Git's directories that may be written.

        The kernel moves nothing from one mount to another (EXDEV): no link that was made elsewhere gets in.
        """
        writable = [path for path in git_directories(self._policy) if self._state_at(path) == "writable"]
        found = tuple(path for path in writable if not any(above in writable for above in ancestors(path)))
        for path in found:
            rule = self._policy.filesystem.tree.deciding(path)[0]
            pin = Mount(path, "bind", writable=True, source=path, pin=True, rule=rule)
            self.mounts.setdefault(path, pin)
        return found

    def pin(self, covered: Iterable[str]) -> None:
        """Make mount points of the directories from which a restriction could be moved away."""
        restricted = {
            mount.target: mount.rule
            for mount in self.mounts.values()
            if not mount.writable and mount.kind != "symlink"
        }
        for target, rule in (restricted | dict.fromkeys(covered)).items():
            for path in ancestors(target)[:-1]:
                if path not in self.mounts and self._is_renamable(path):
                    self.mounts[path] = Mount(path, "bind", writable=True, source=path, pin=True, rule=rule)

    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders that the project needs while the sandbox runs."""
        return placeholders(self._policy, lambda directory: self._state_at(directory) == "writable")

    def _record_mount(self, mount: Mount, state: _State) -> None:
        self.mounts[mount.target] = mount
        self._states.add(mount.target, state)

    def _state_at(self, path: str) -> _State:
        state: _State = "hidden"
        for _, states in self._states.prefixes(path):
            state = states[-1]
        return state

    def _is_renamable(self, path: str) -> bool:
        """Whether a directory lies in one where a program inside may rename it."""
        return self._state_at(parent(path)) == "writable" and self._state_at(path) == "writable"


def _check_grants(policy: ResolvedPolicy) -> None:
    for rule in policy.filesystem.rules:
        for path, reason in hidden_paths().items() if rule.origin == "listed" and rule.kind != "deny" else ():
            if is_inside(rule.path, path):
                raise RenderError(
                    f"{rule.source}: cannot grant {rule.written}: every sandbox hides {path} ({reason})"
                )


_WANTED: dict[str, _State] = {
    "deny": "hidden",
    "readonly": "readonly",
    "read": "readonly",
    "write": "writable",
}
