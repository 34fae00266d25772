"""Charts as inline SVG: colours come from the style sheet by class, so that they follow light and dark.

Every text that is not ours is escaped here; the result is markup that the template may insert as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

#: Number of colours in the style sheet, classes c0 … c5.
COLOURS = 6


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval at a place on a categorical axis. `low` and `high` may equal `value`."""

    x: str
    value: float
    low: float
    high: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar in the colour of a class; an interval is drawn where `low` and `high` are given."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    colour: str = "even"
    note: str = ""


def ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Round numbers that cover [low, high] inside it; at least one."""
    span = high - low
    if not span > 0:
        return [low]
    size = 10.0 ** math.floor(math.log10(span / most))
    steps = [size * k for k in (1, 2, 2.5, 5, 10)]
    for step in steps:
        found = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        if 1 <= len(found) <= most + 1:
            return [k * step for k in found]
    return [low]


def number(value: float) -> str:
    """A short number for an axis or a tooltip."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 0.001:
        return f"{value:.0e}"
    return f"{value:.4g}"


def percent(value: float) -> str:
    """A share as a percentage without decimals."""
    return f"{100 * value:.0f} %"


def dots(
    label: str, places: Sequence[str], series: Sequence[tuple[str, Sequence[Dot]]], top: float | None = None,
    form: Callable[[float], str] = number,
) -> Markup:  # fmt: skip
    """Values with interval whiskers over categories, one colour per series; series stand side by side.

    Args:
        label: what the picture shows, for readers who don't see it.
        places: the categories in order.
        top: end of the axis; None takes it from the data.
        form: how a number is written.
    """
    width, height, left, right, above, below = 340, 200, 44, 10, 12, 30
    every = [dot for _, line in series for dot in line]
    end = top if top is not None else 1.08 * max((dot.high for dot in every), default=1.0) or 1.0
    slot = (width - left - right) / max(1, len(places))

    def y(value: float) -> float:
        return above + (height - above - below) * (1 - min(max(value, 0.0), end) / end)

    out = [_grid_y(ticks(0, end), y, left, width - right, form)]
    for i, place in enumerate(places):
        out.append(_text("tick", left + slot * (i + 0.5), height - 10, place))
    shift = min(18.0, slot / (len(series) + 1))
    for k, (name, line) in enumerate(series):
        colour = f"c{k % COLOURS}"
        at = [left + slot * (places.index(dot.x) + 0.5) + shift * (k - (len(series) - 1) / 2) for dot in line]
        path = " ".join(f"{x:.1f},{y(dot.value):.1f}" for x, dot in zip(at, line, strict=True))
        if len(line) > 1:
            out.append(f'<polyline class="link {colour}" points="{path}"/>')
        for x, dot in zip(at, line, strict=True):
            interval = f"({form(dot.low)} to {form(dot.high)})"
            title = escape(f"{name}, {dot.x}: {form(dot.value)} {interval} {dot.note}".strip())
            out.append(
                f'<g class="{colour}"><title>{title}</title>'
                f"{_line('whisker', x, x, y(dot.low), y(dot.high))}{_dot(x, y(dot.value), 4.5)}"
                f"{_rect('hit', x - 9, y(dot.high) - 6, 18, y(dot.low) - y(dot.high) + 12)}</g>"
            )
    return _svg(width, height, label, out)


def lines(label: str, series: Sequence[tuple[int, str, Sequence[tuple[float, float]]]]) -> Markup:
    """A small line chart over steps: (colour, name, points) per line."""
    width, height, left, right, above, below = 250, 130, 46, 8, 8, 22
    xs = [x for _, _, points in series for x, _ in points]
    ys = [y for _, _, points in series for _, y in points]
    if not xs:
        return Markup("")
    x0, x1 = min(xs), max(xs)
    low, high = min(ys), max(ys)
    if low >= 0 and low < 0.4 * high:
        low = 0.0
    pad = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    high, low = high + pad, low if low == 0 else low - pad

    def px(x: float) -> float:
        return left + (width - left - right) * ((x - x0) / (x1 - x0) if x1 > x0 else 0.5)

    def py(y: float) -> float:
        return above + (height - above - below) * (1 - (y - low) / (high - low))

    out = [_grid_y(ticks(low, high, 3), py, left, width - right, number)]
    whole = sorted({int(v) for v in ticks(x0, x1) if v == int(v)} | {int(x0)})
    for v in whole:
        out.append(_text("tick", px(v), height - 6, str(v)))
    for colour, name, points in series:
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        ends = [f"{number(y)} at step {number(x)}" for x, y in (points[0], points[-1])]
        out.append(
            f'<g class="c{colour % COLOURS}"><title>{escape(f"{name}: {ends[0]}, {ends[1]}")}</title>'
            f'<polyline class="curve" points="{path}"/>{_dot(px(points[-1][0]), py(points[-1][1]), 2.8)}</g>'
        )
    return _svg(width, height, label, out)


def bars(label: str, rows: Sequence[Bar], end: float | None = None, name_width: int = 164, width: int = 400) -> Markup:
    """Horizontal bars with their value as text, and whiskers where a bar has an interval."""
    row, right = 22, 72
    top = end or max((bar.high or bar.value for bar in rows), default=1.0) or 1.0
    room = width - name_width - right

    def x(value: float) -> float:
        return name_width + room * min(max(value, 0.0), top) / top

    out = []
    for i, bar in enumerate(rows):
        y = i * row + 4
        title = escape(f"{bar.label}: {bar.text} {bar.note}".strip())
        out.append(f'<g class="{bar.colour}"><title>{title}</title>')
        out.append(_text("name", name_width - 8, y + 12, _cut(bar.label, (name_width - 8) // 6), "end"))
        out.append(_rect("track", name_width, y, room, 15))
        out.append(_rect("bar", name_width, y, max(1.0, x(bar.value) - name_width), 15))
        end_x = x(bar.value)
        if bar.low is not None and bar.high is not None:
            low_x, end_x = x(bar.low), x(bar.high)
            ends = f"M{low_x:.1f} {y + 3}v9M{end_x:.1f} {y + 3}v9"
            out.append(f'<path class="error" d="M{low_x:.1f} {y + 7.5}H{end_x:.1f}{ends}"/>')
        out.append(_text("value", end_x + 7, y + 12, bar.text, "start") + "</g>")
    return _svg(width, len(rows) * row + 6, label, out)


def forest(label: str, rows: Sequence[tuple[str, float, float, float, str]]) -> Markup:
    """Differences with intervals around a zero line.

    Args:
        label: what the picture shows.
        rows: (name, value, low, high, colour class), values as shares.
    """
    width, row, left, right, above = 400, 26, 96, 12, 20
    reach = max([0.05, *(abs(v) for _, _, low, high, _ in rows for v in (low, high))]) * 1.08
    room = width - left - right

    def x(value: float) -> float:
        return left + room * (value + reach) / (2 * reach)

    height = above + row * len(rows) + 6
    out = []
    for v in ticks(-reach, reach, 5):
        zero = abs(v) < 1e-12
        out.append(_line("zero" if zero else "grid", x(v), x(v), above, height))
        out.append(_text("tick", x(v), 12, "0" if zero else f"{100 * v:+.0f}"))
    for i, (name, value, low, high, kind) in enumerate(rows):
        y = above + row * (i + 0.5) + 3
        title = escape(f"{name}: {100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})")
        out.append(
            f'<g class="{kind}"><title>{title}</title>'
            f"{_text('name', left - 10, y + 4, _cut(name, 15), 'end')}"
            f"{_line('whisker', x(low), x(high), y, y)}{_dot(x(value), y, 5)}</g>"
        )
    return _svg(width, height, label, out)


def _grid_y(
    values: Sequence[float],
    y: Callable[[float], float],
    left: float,
    right: float,
    form: Callable[[float], str],
) -> str:
    out = []
    for value in values:
        out.append(_line("grid", left, right, y(value), y(value)))
        out.append(_text("tick", left - 6, y(value) + 3.5, form(value), "end"))
    return "".join(out)


def _text(kind: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"/>'


def _svg(width: float, height: float, label: str, body: Sequence[str]) -> Markup:
    head = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(body) + "</svg>")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
