"""Draw the diagrams of the pages: `python docs/pictures/diagrams.py` writes one SVG for each of DIAGRAMS.

A diagram is a grid of boxes with arrows between them. Colours follow the reader's light or dark theme, and
nothing is loaded from elsewhere. A test compares the files with what this script draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

Kind = Literal["box", "accent", "good", "bad"]

WIDTH, BOLD, LINE, PADDING = 6.9, 8.1, 17, 12
"""Of a letter of text and of a title; of a line; inside a box. In pixels."""
GAP_X, GAP_Y, MARGIN = 66, 30, 8
STYLE = """
  .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2 }
  .accent { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.4 }
  .good { fill: #dafbe1; stroke: #1a7f37; stroke-width: 1.4 }
  .bad { fill: #ffebe9; stroke: #cf222e; stroke-width: 1.4 }
  text { fill: #1f2328 }
  .small { font-size: 12px; fill: #57606a }
  .head { font-weight: 600 }
  .line { stroke: #57606a; stroke-width: 1.4; fill: none; marker-end: url(#arrow) }
  .tip { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .box { fill: #21262d; stroke: #8b949e }
    .accent { fill: #0c2d6b; stroke: #58a6ff }
    .good { fill: #033a16; stroke: #3fb950 }
    .bad { fill: #490202; stroke: #f85149 }
    text { fill: #e6edf3 }
    .small { fill: #9da7b1 }
    .line { stroke: #8b949e }
    .tip { fill: #8b949e }
  }
"""


@dataclass(frozen=True)
class Node:
    """A box at a column and a row of the grid; `lines` stand below its title."""

    column: int
    row: int
    title: str
    lines: tuple[str, ...] = ()
    kind: Kind = "box"

    @property
    def width(self) -> float:
        """In pixels."""
        texts = max((len(text) * WIDTH for text in self.lines), default=0)
        return max(texts, len(self.title) * BOLD) + 2 * PADDING

    @property
    def height(self) -> float:
        """In pixels."""
        return (1 + len(self.lines)) * LINE + 2 * PADDING


@dataclass(frozen=True)
class Diagram:
    """A title for readers who do not see it, boxes by name, and arrows: from, to, label."""

    title: str
    nodes: Mapping[str, Node]
    arrows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Placed:
    """A box with the position of its upper left corner."""

    node: Node
    x: float
    y: float

    @property
    def centre(self) -> tuple[float, float]:
        """Its middle."""
        return self.x + self.node.width / 2, self.y + self.node.height / 2


def layout(diagram: Diagram) -> dict[str, Placed]:
    """Each box in the middle of its cell; columns and rows are as wide and high as their largest box."""
    nodes = diagram.nodes.values()
    columns = {n.column: max(m.width for m in nodes if m.column == n.column) for n in nodes}
    rows = {n.row: max(m.height for m in nodes if m.row == n.row) for n in nodes}
    offsets = {c: MARGIN + sum(columns[b] + GAP_X for b in sorted(columns) if b < c) for c in columns}
    top = {r: MARGIN + sum(rows[b] + GAP_Y for b in sorted(rows) if b < r) for r in rows}
    return {
        name: Placed(
            node,
            offsets[node.column] + (columns[node.column] - node.width) / 2,
            top[node.row] + (rows[node.row] - node.height) / 2,
        )
        for name, node in diagram.nodes.items()
    }


def svg(diagram: Diagram) -> str:
    """The file's text."""
    boxes = layout(diagram)
    width = max(box.x + box.node.width for box in boxes.values()) + MARGIN
    height = max(box.y + box.node.height for box in boxes.values()) + MARGIN
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>'
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        'aria-labelledby="t" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">',
        f'<title id="t">{escape(diagram.title)}</title>',
        f"<style>{STYLE}</style>",
        marker,
    ]
    for start, end, label in diagram.arrows:
        lines += _arrow(boxes[start], boxes[end], label)
    for box in boxes.values():
        lines += _box(box)
    return "\n".join([*lines, "</svg>", ""])


def _box(box: Placed) -> Iterator[str]:
    node = box.node
    yield (
        f'<rect class="{node.kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{node.width:.1f}" '
        f'height="{node.height:.1f}" rx="8"/>'
    )
    for number, text in enumerate((node.title, *node.lines)):
        y = box.y + PADDING + LINE * (number + 0.75)
        kind = "small" if number else "head"
        yield f'<text class="{kind}" x="{box.x + PADDING:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _arrow(start: Placed, end: Placed, label: str) -> Iterator[str]:
    """From side to side, straight where both are in one row or column, else with one bend."""
    (x1, y1), (x2, y2) = start.centre, end.centre
    if start.node.column == end.node.column:
        down = y2 > y1
        y1 = start.y + (start.node.height if down else 0)
        y2 = end.y + (0 if down else end.node.height)
        path, at = f"M{x1:.1f} {y1:.1f}V{y2:.1f}", (x1 + 6, (y1 + y2) / 2 + 4)
    else:
        right = x2 > x1
        x1 = start.x + (start.node.width if right else 0)
        x2 = end.x + (0 if right else end.node.width)
        bend = x2 - (GAP_X / 2 if right else -GAP_X / 2)
        path = f"M{x1:.1f} {y1:.1f}H{bend:.1f}V{y2:.1f}H{x2:.1f}"
        at = (min(x1, bend) + 4 if right else x2 + 6, y1 - 6)
    yield f'<path class="line" d="{path}"/>'
    if label:
        yield f'<text class="small" x="{at[0]:.1f}" y="{at[1]:.1f}">{escape(label)}</text>'


DIAGRAMS: Mapping[str, Diagram] = {
    "policy": Diagram(
        "Layers of a policy are merged, limited by the managed policy, and resolved against the "
        "facts of the host",
        {
            "preset": Node(0, 0, "Presets", ("default, strict, build, …",)),
            "user": Node(0, 1, "Your policy", ("~/.config/sandwright/policy.yaml",)),
            "project": Node(0, 2, "The project's policy", ("sandbox.yaml, after approval",)),
            "run": Node(0, 3, "One run", ("options of the command line",)),
            "merged": Node(1, 1, "Merged policy", ("later layers override", "earlier ones"), "accent"),
            "managed": Node(1, 0, "Managed policy", ("set by the operator,", "cannot be loosened")),
            "facts": Node(1, 2, "Facts of the host", ("paths, links, user,", "programs, limits")),
            "resolved": Node(2, 1, "Resolved policy", ("real paths and rules", "for every method"), "good"),
        },
        (
            ("preset", "merged", ""),
            ("user", "merged", ""),
            ("project", "merged", ""),
            ("run", "merged", ""),
            ("managed", "merged", "limits"),
            ("merged", "resolved", "resolve"),
            ("facts", "resolved", ""),
        ),
    ),
    "network": Diagram(
        "With network.mode proxy, programs inside reach listed hosts only through a relay and squid",
        {
            "program": Node(0, 0, "Program inside", ("no other route out",), "bad"),
            "relay": Node(1, 0, "127.0.0.1:3128", ("relay of the launcher",), "accent"),
            "dns": Node(1, 1, "Resolver inside", ("for programs that know", "no proxy"), "accent"),
            "squid": Node(2, 0, "squid", ("allow list, restricted", "by Landlock and seccomp")),
            "host": Node(3, 0, "Listed hosts", ("listed names and ports",), "good"),
        },
        (
            ("program", "relay", "HTTP"),
            ("program", "dns", ""),
            ("dns", "squid", ""),
            ("relay", "squid", ""),
            ("squid", "host", ""),
        ),
    ),
    "launcher": Diagram(
        "The launcher forks a monitor, which starts bubblewrap or a runtime, a watch and a supervisor",
        {
            "launcher": Node(0, 1, "Launcher", ("checks the plan,", "forwards signals")),
            "monitor": Node(1, 1, "Monitor", ("time limit, clean-up",), "accent"),
            "child": Node(2, 1, "bwrap, runc, …", ("creates the namespaces",)),
            "watch": Node(2, 0, "Watch", ("mounts and protected", "paths on the host")),
            "supervisor": Node(2, 2, "Supervisor", ("answers seccomp", "notifications")),
            "command": Node(3, 1, "init and the command", ("untrusted",), "bad"),
        },
        (
            ("launcher", "monitor", "fork"),
            ("monitor", "child", ""),
            ("monitor", "watch", ""),
            ("monitor", "supervisor", ""),
            ("child", "command", ""),
        ),
    ),
    "threats": Diagram(
        "A program inside has to get past every isolation layer of its method to reach what the "
        "policy denies",
        {
            "program": Node(0, 0, "Program inside", ("untrusted, also as root",), "bad"),
            "filter": Node(1, 0, "seccomp filter", ("fewer calls of the kernel",)),
            "mounts": Node(2, 0, "Mounts and namespaces", ("listed paths, PIDs, network",)),
            "second": Node(3, 0, "Landlock", ("a second list of paths",)),
            "assets": Node(4, 0, "Your files and secrets", ("protected",), "good"),
            "bridge": Node(1, 1, "Bridge and proxy", ("checked calls, listed hosts",), "accent"),
        },
        (
            ("program", "filter", ""),
            ("filter", "mounts", ""),
            ("mounts", "second", ""),
            ("second", "assets", ""),
            ("program", "bridge", ""),
            ("bridge", "assets", ""),
        ),
    ),
    "front": Diagram(
        "The native command executes the launcher directly if every recorded answer of the host still holds",
        {
            "command": Node(0, 0, "sandwright run", ("static C program",), "accent"),
            "entry": Node(1, 0, "Cache entry", ("authentic, and every recorded", "answer still the same?")),
            "launch": Node(2, 0, "launch", ("starts the sandbox",), "good"),
            "python": Node(1, 1, "Python", ("resolves and renders, writes", "the entry for the next run")),
        },
        (
            ("command", "entry", ""),
            ("entry", "launch", "yes"),
            ("entry", "python", "no"),
            ("python", "launch", ""),
        ),
    ),
    "evaluators": Diagram(
        "Artifacts are read back as their consumers read them, and compared with the policy "
        "before they are used",
        {
            "policy": Node(0, 0, "Resolved policy", ("rules, protected names,", "reserved paths")),
            "artifacts": Node(0, 1, "Rendered artifacts", ("mounts, filters, profiles,", "manifests")),
            "questions": Node(1, 0, "Questions", ("at every boundary",), "accent"),
            "reader": Node(
                1, 1, "Reader", ("allow lists of options;", "anything else is an error"), "accent"
            ),
            "compare": Node(2, 0, "Compare", ("both answers",)),
            "used": Node(3, 0, "Used", ("run, render, verify",), "good"),
            "refused": Node(3, 1, "Refused", ("wider than the policy",), "bad"),
        },
        (
            ("policy", "questions", ""),
            ("artifacts", "reader", ""),
            ("questions", "compare", ""),
            ("reader", "compare", ""),
            ("compare", "used", "equal"),
            ("compare", "refused", ""),
        ),
    ),
    "agents": Diagram(
        "An agent in a sandbox uses programs with secrets through a bridge that checks each call on the host",
        {
            "agent": Node(0, 0, "Agent in the sandbox", ("project, model service",), "bad"),
            "shim": Node(1, 0, "Shim", ("git, gh inside the sandbox",)),
            "bridge": Node(
                2, 0, "Bridge on the host", ("checks the call, the repository,", "the branch"), "accent"
            ),
            "real": Node(3, 0, "git, gh", ("with your credentials,", "restricted"), "good"),
            "proxy": Node(1, 1, "Proxy", ("listed hosts only",)),
            "model": Node(2, 1, "Model service", ("HTTPS",)),
        },
        (
            ("agent", "shim", ""),
            ("shim", "bridge", "socket"),
            ("bridge", "real", ""),
            ("agent", "proxy", ""),
            ("proxy", "model", ""),
        ),
    ),
    "images": Diagram(
        "An image is built from a definition and a lock file, unpacked as hostile input, and smoke-tested",
        {
            "definition": Node(0, 0, "image.yaml", ("packages, user, paths",)),
            "lock": Node(0, 1, "lock.json", ("versions and SHA-256",)),
            "packages": Node(1, 0, "Packages", ("downloaded, verified",)),
            "layout": Node(2, 0, "OCI layout", ("reproducible bytes",), "accent"),
            "root": Node(3, 0, "Unpacked root", ("every layer is hostile input",)),
            "smoke": Node(3, 1, "Smoke test", ("bwrap, runc, runsc, engines",), "good"),
        },
        (
            ("definition", "packages", ""),
            ("lock", "packages", ""),
            ("packages", "layout", "build"),
            ("layout", "root", ""),
            ("root", "smoke", ""),
        ),
    ),
    "release": Diagram(
        "publish refuses an image without evidence; verify-image trusts the key alone",
        {
            "image": Node(0, 0, "Image", ("definition and lock match",)),
            "evidence": Node(0, 1, "Evidence", ("smoke test, attest-image",)),
            "publish": Node(
                1, 0, "publish", ("signs, pushes by digest,", "reads back, moves tags"), "accent"
            ),
            "registry": Node(2, 0, "Registry", ("not trusted",), "bad"),
            "verify": Node(3, 0, "verify-image", ("public key or identity",), "good"),
            "others": Node(3, 1, "cosign, Podman, skopeo", ("the same signatures",)),
        },
        (
            ("image", "publish", ""),
            ("evidence", "publish", ""),
            ("publish", "registry", ""),
            ("registry", "verify", ""),
            ("registry", "others", ""),
        ),
    ),
    "denials": Diagram(
        "A denied call becomes a notification, a counted refusal, and a line at the end of the run",
        {
            "call": Node(0, 0, "Denied call", ("of a program inside",), "bad"),
            "filter": Node(1, 0, "seccomp filter", ("notifies the supervisor",)),
            "proxy": Node(1, 1, "Proxy, bridge", ("refuse hosts, calls",)),
            "supervisor": Node(2, 0, "Supervisor", ("answers, counts",), "accent"),
            "report": Node(
                3, 0, "Report", ("what was denied, by which rule,", "and what would allow it"), "good"
            ),
        },
        (
            ("call", "filter", ""),
            ("filter", "supervisor", ""),
            ("supervisor", "report", ""),
            ("call", "proxy", ""),
            ("proxy", "report", ""),
        ),
    ),
    "learn": Diagram(
        "learn records a run, generalises what it used, and proposes the smallest policy that allows it",
        {
            "run": Node(0, 0, "Recorded run", ("paths, hosts, calls,", "variables")),
            "needs": Node(1, 0, "Needs", ("without secrets and", "protected names"), "accent"),
            "proposal": Node(2, 0, "Proposed policy", ("least grants, least filter",)),
            "check": Node(3, 0, "You review", ("diff, then --write",), "good"),
        },
        (("run", "needs", ""), ("needs", "proposal", ""), ("proposal", "check", "")),
    ),
    "git": Diagram(
        "Objects and refs are writable inside; hooks and configuration, which Git on the host "
        "executes, are not",
        {
            "inside": Node(0, 0, "Git inside", ("commit, rebase, checkout",), "bad"),
            "writable": Node(
                1, 0, "objects, refs, index", ("writable; the run reports", "what changed"), "accent"
            ),
            "closed": Node(
                1, 1, "config, hooks, attributes", ("read-only, also if they", "do not exist yet")
            ),
            "host": Node(2, 0, "Git on the host", ("push, checkout",), "good"),
        },
        (
            ("inside", "writable", "writes"),
            ("inside", "closed", ""),
            ("writable", "host", "read by"),
            ("closed", "host", ""),
        ),
    ),
    "diff": Diagram(
        "diff resolves both policies, asks both the same questions, and lists what is newly allowed",
        {
            "old": Node(0, 0, "Base policy"),
            "new": Node(0, 1, "Changed policy"),
            "questions": Node(1, 0, "Same questions", ("at the boundaries of both",), "accent"),
            "allowed": Node(2, 0, "Newly allowed", ("each with a witness",), "bad"),
            "denied": Node(2, 1, "Newly denied", (), "good"),
        },
        (
            ("old", "questions", ""),
            ("new", "questions", ""),
            ("questions", "allowed", ""),
            ("questions", "denied", ""),
        ),
    ),
    "audit": Diagram(
        "Events of a run are written outside the sandbox, each line with the hash of the one before",
        {
            "inside": Node(0, 0, "Sandbox", ("cannot write the log",), "bad"),
            "events": Node(1, 0, "Events", ("start, denials, calls, end",)),
            "log": Node(2, 0, "Audit log", ("a hash chain of JSON lines",), "accent"),
            "check": Node(3, 0, "verify-audit", ("finds edits and gaps",), "good"),
        },
        (("inside", "events", ""), ("events", "log", ""), ("log", "check", "")),
    ),
}
"""By the name of the page and of the file."""


def main() -> None:
    """Write them."""
    for name, diagram in DIAGRAMS.items():
        Path(__file__).with_name(f"{name}.svg").write_text(svg(diagram), encoding="utf-8")


if __name__ == "__main__":
    main()
