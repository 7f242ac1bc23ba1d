"""Rules by path: the rule of the most specific path decides. Questions cost the depth of the path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sandwright.policy.paths import components

T = TypeVar("T")


@dataclass(slots=True)
class _Node(Generic[T]):
    children: dict[str, _Node[T]] = field(default_factory=dict)
    values: list[T] = field(default_factory=list)


class PathTree(Generic[T]):
    """Values at canonical paths. `key` gives equal text for names that are the same file."""

    def __init__(self, key: Callable[[str], str]) -> None:
        """An empty tree."""
        self._key = key
        self._root: _Node[T] = _Node()

    def add(self, path: str, value: T) -> None:
        """Put a value at a path, after those that are there."""
        node = self._root
        for name in components(path):
            key = self._key(name)
            inner = node.children.get(key)
            if inner is None:
                inner = node.children[key] = _Node()
            node = inner
        node.values.append(value)

    def prefixes(self, path: str) -> Iterator[tuple[int, list[T]]]:
        """The values at each path from `/` down to `path` that has any, each with its depth."""
        return self.along_names(components(path))

    def along_names(self, names: Iterable[str]) -> Iterator[tuple[int, list[T]]]:
        """The same for the path that is made up of some names."""
        node = self._root
        if node.values:
            yield 0, node.values
        for depth, name in enumerate(names, start=1):
            inner = node.children.get(self._key(name))
            if inner is None:
                return
            node = inner
            if node.values:
                yield depth, node.values

    def at(self, path: str) -> list[T]:
        """The values at exactly this path."""
        node = self._node_of_path(path)
        return list(node.values) if node else []

    def has_inside(self, path: str) -> bool:
        """Whether there are values at paths below this one."""
        node = self._node_of_path(path)
        return node is not None and bool(node.children)

    def _node_of_path(self, path: str) -> _Node[T] | None:
        node: _Node[T] | None = self._root
        for name in components(path):
            node = node.children.get(self._key(name)) if node else None
        return node
