"""Where a sandbox can write, and which names count there: what `session.scan` looks at."""

from __future__ import annotations

from sandwright.folding import folded_name

GIT_PARTS = frozenset(("head", "commondir", "config", "config.worktree", "hooks", "info", "objects", "refs"))
"""Of a directory of Git's: what makes it one, what names programs, or where they are named."""


class WritablePlaces:
    """Where a sandbox can write, and what counts there: as `prepare` found it, and as JSON keeps it.

    `roots` are the writable paths, `closed` those below them that are not, `names` the protected names, `git`
    the directories of Git in which what names programs is protected, `absent` what `elsewhere` tells of.
    A name may begin with `*`. `tools` are the tools that use the names, in their order, as far as they are
    known; `set_id` holds something where the sandbox can make set-id files.
    """

    def __init__(self, data: dict[str, list[str]]) -> None:
        """`data` has these, the last two if they hold anything."""
        self.roots = dict.fromkeys(data["roots"])
        self.closed = frozenset(data["closed"])
        self.git = frozenset(data["git"])
        self.absent = frozenset(data["absent"])
        self.set_id = bool(data.get("set_id"))
        self.names: dict[str, list[tuple[str, str]]] = {}
        self.endings: dict[str, str] = {}
        tools = [*data.get("tools", ()), *[""] * len(data["names"])]
        for name, tool in zip(data["names"], tools, strict=False):
            plain = _folded(name)
            if plain.startswith("*"):
                self.endings[plain[1:]] = tool
            else:
                self.names.setdefault(plain.rpartition("/")[2], []).append((f"/{plain}", tool))
        self._ends = tuple(self.endings)

    def tool(self, name: str, path: str) -> str | None:
        """Which tool uses what is at a path, empty for any; None for none. `name` is its folded name."""
        if name in self.names:
            folded = _folded(path)
            return next((tool for end, tool in self.names[name] if folded.endswith(end)), None)
        if self._ends and name.endswith(self._ends):
            return next(tool for end, tool in self.endings.items() if name.endswith(end))
        return None

    def has(self, name: str) -> bool:
        """Whether something of a folded name is always looked at."""
        return name in self.names or name in GIT_PARTS or name == ".git" or name.endswith(self._ends)


def _folded(path: str) -> str:
    """A path whose names are compared as file systems do that ignore case: what is there may be on one."""
    return "/".join(map(folded_name, path.split("/")))
