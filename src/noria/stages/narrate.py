"""What the supervisor writes for people: a report in Markdown, a flowchart in Mermaid and as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from noria.core.types import KeyAction, Pair, Trajectory


def confidence(solved_before: int, tried_before: int, solved_after: int, tried_after: int) -> float:
    """Probability that the success rate really moved in the observed direction.

    Normal approximation to the posterior of two rates under uniform priors (Beta(1+k, 1+n-k)).
    """
    moments = []
    for k, n in ((solved_before, tried_before), (solved_after, tried_after)):
        a, b = 1 + k, 1 + n - k
        moments.append((a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))))
    (m0, v0), (m1, v1) = moments
    return 0.5 * (1 + math.erf(abs(m1 - m0) / math.sqrt(2 * (v0 + v1))))


def why(kind: str, text: str, solved_before: int, tried_before: int, solved_after: int, tried_after: int) -> str:
    """One sentence with the evidence."""
    before = solved_before / max(1, tried_before)
    after = solved_after / max(1, tried_after)
    verb = "raised" if after > before else "lowered"
    said = text if len(text) <= 60 else text[:57] + "..."
    return (
        f"`{said.strip()}` ({kind}) {verb} the chance of success from {solved_before}/{tried_before} "
        f"to {solved_after}/{tried_after}"
    )


def report(pair: Pair, split: int, marks: Sequence[KeyAction], replays: int, budget: int) -> str:
    """The report of one pair."""
    lines = [
        f"# {pair.task.id}",
        "",
        f"World `{pair.task.world}`. Task: {pair.task.prompt}",
        "",
        f"Right: `{pair.right.id}`, {len(pair.right.turns)} turns. Wrong: `{pair.wrong.id}`, "
        f"{len(pair.wrong.turns)} turns ({pair.wrong.outcome.reason or pair.wrong.stop}).",
        f"They part at turn {split + 1}. {replays} of at most {budget} continuations were spent.",
        "",
        "## Key actions",
        "",
    ]
    if marks:
        lines += ["| trajectory | turn | what | before | after | confidence |", "|---|---|---|---|---|---|"]
    for m in marks:
        side = "right" if m.trajectory_id == pair.right.id else "wrong"
        before, after = f"{m.solved_before}/{m.tried_before}", f"{m.solved_after}/{m.tried_after}"
        lines.append(f"| {side} | {m.turn + 1} | {_cell(m.why)} | {before} | {after} | {m.confidence:.2f} |")
    if not marks:
        lines.append("No action moved the chance of success enough to be marked.")
    lines += ["", "## Side by side", "", "| turn | right | wrong |", "|---|---|---|"]
    for k in range(max(len(pair.right.turns), len(pair.wrong.turns))):
        lines.append(f"| {k + 1} | {_cell(_turn(pair.right, k))} | {_cell(_turn(pair.wrong, k))} |")
    lines += ["", "## Flow", "", "```mermaid", mermaid(pair, split, marks), "```", ""]
    return "\n".join(lines)


def mermaid(pair: Pair, split: int, marks: Sequence[KeyAction]) -> str:
    """The flowchart: what both did, then two branches; key actions are drawn bold."""
    graph = chart(pair, split, marks)
    lines = ["flowchart TD"]
    for node in graph.nodes:
        label = node.text.replace('"', "'").replace("<", "&lt;").replace(">", "&gt;")
        lines.append(f'  {node.name}["{label}"]')
    lines += [f"  {a} --> {b}" for a, b in graph.edges]
    lines += [f"  style {n.name} stroke:#c2410c,stroke-width:3px" for n in graph.nodes if n.key]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Node:
    """One box: its grid place (column 0 shared, 1 right, 2 wrong; row from the top) and its label."""

    name: str
    text: str
    column: int
    row: int
    key: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """Boxes and arrows."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]


def chart(pair: Pair, split: int, marks: Sequence[KeyAction]) -> Chart:
    """Lay the pair out: shared turns above, then the right branch and the wrong branch side by side."""
    marked = {(m.trajectory_id, m.turn) for m in marks}
    nodes = [Node("task", pair.task.prompt[:60], 0, 0, False)]
    edges = []
    previous = "task"
    for k in range(split):
        key = (pair.right.id, k) in marked or (pair.wrong.id, k) in marked
        nodes.append(Node(f"b{k}", _label(pair.right, k), 0, k + 1, key))
        edges.append((previous, f"b{k}"))
        previous = f"b{k}"
    for column, letter, side in ((1, "r", pair.right), (2, "w", pair.wrong)):
        last = previous
        for k in range(split, len(side.turns)):
            nodes.append(Node(f"{letter}{k}", _label(side, k), column, k + 1, (side.id, k) in marked))
            edges.append((last, f"{letter}{k}"))
            last = f"{letter}{k}"
        end = "solved" if side.solved else f"failed: {side.outcome.reason or side.stop}"[:48]
        nodes.append(Node(f"{letter}end", end, column, len(side.turns) + 1, False))
        edges.append((last, f"{letter}end"))
    return Chart(tuple(nodes), tuple(edges))


_WIDE, _HIGH, _GAP = 250, 34, 22


def flowchart_svg(pair: Pair, analysis: object) -> str:
    """The same flowchart as a stand-alone SVG picture."""
    from noria.core.types import Analysis

    assert isinstance(analysis, Analysis)
    graph = chart(pair, analysis.divergence, analysis.marks)
    rows = max(node.row for node in graph.nodes) + 1
    width, height = 2 * _WIDE + 3 * _GAP, rows * (_HIGH + _GAP) + _GAP
    place = {n.name: _corner(n) for n in graph.nodes}
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="11">'
    ]
    for a, b in graph.edges:
        (x0, y0), (x1, y1) = place[a], place[b]
        out.append(f'<path d="M{x0 + _WIDE / 2} {y0 + _HIGH} L{x1 + _WIDE / 2} {y1}" stroke="#94a3b8" fill="none"/>')
    for node in graph.nodes:
        x, y = place[node.name]
        fill = {0: "#f1f5f9", 1: "#dcfce7", 2: "#fee2e2"}[node.column]
        stroke, weight = ("#c2410c", 3) if node.key else ("#94a3b8", 1)
        text = html.escape(node.text if len(node.text) <= 38 else node.text[:36] + "…")
        out.append(
            f'<g><title>{html.escape(node.text)}</title><rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="6" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{weight}"/>'
            f'<text x="{x + 8}" y="{y + 21}" fill="#0f172a">{text}</text></g>'
        )
    return "".join([*out, "</svg>"])


def _corner(node: Node) -> tuple[float, float]:
    column = {0: _GAP + (_WIDE + _GAP) / 2, 1: _GAP, 2: _WIDE + 2 * _GAP}[node.column]
    return column, _GAP + node.row * (_HIGH + _GAP)


def _label(trajectory: Trajectory, k: int) -> str:
    turn = trajectory.turns[k]
    seen = f" -> {turn.observation.splitlines()[0]}" if turn.observation else ""
    return f"{k + 1}. {short(turn.message)}{seen}"[:90]


def short(message: str) -> str:
    """A message without XML noise, for labels."""
    text = message.replace("</call>", ")").replace('<call name="', "").replace('">', "(", 1)
    for tag in ("think", "line", "old", "new", "id", "src", "dst", "amount"):
        text = text.replace(f"<{tag}>", " ").replace(f"</{tag}>", " ")
    return " ".join(text.split())


def _turn(trajectory: Trajectory, k: int) -> str:
    if k >= len(trajectory.turns):
        return ""
    turn = trajectory.turns[k]
    seen = f" → {turn.observation}" if turn.observation else ""
    return f"`{turn.message}`{seen}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")
