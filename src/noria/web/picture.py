"""A stored SVG picture made safe to put into a page: rebuilt from a short list of elements and attributes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup, escape

_ELEMENTS = frozenset({"svg", "g", "title", "path", "rect", "text", "line", "polyline", "circle", "tspan"})
_SHAPE = (
    "viewBox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "d", "points", "width", "height",
)  # fmt: skip
_STYLE = ("fill", "stroke", "stroke-width", "text-anchor", "font-size", "font-family")
_ATTRIBUTES = frozenset(_SHAPE + _STYLE)
_DEPTH = 12
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_VALUE = re.compile(r"[\w\s.,#%+-]*")


def printable(text: str) -> str:
    """The text with a replacement character for each that neither XML nor UTF-8 allows."""
    return _CONTROL.sub("\ufffd", text)


def clean(text: str, label: str) -> Markup | None:
    """The picture for inlining; None if it is not SVG or brings a document type of its own.

    Elements outside the list go with all that they hold; attributes outside it, and values that are more than
    numbers, words and colours, go alone. Scripts, styles, links and handlers are therefore never kept.
    """
    if "<!" in text or "<?" in text:
        return None
    try:
        root = ElementTree.fromstring(printable(text))
    except ElementTree.ParseError:
        return None
    if _local(root) != "svg":
        return None
    return Markup(_render(root, f' class="flow" role="img" aria-label="{escape(label)}"'))


def _render(node: ElementTree.Element, extra: str = "", depth: int = 0) -> str:
    name = _local(node)
    attributes = "".join(
        f' {key}="{escape(value)}"'
        for key, value in node.attrib.items()
        if key in _ATTRIBUTES and _VALUE.fullmatch(value)
    )
    inner = [str(escape(node.text or ""))]
    for child in node:
        if _local(child) in _ELEMENTS and depth < _DEPTH:
            inner.append(_render(child, depth=depth + 1))
        inner.append(str(escape(child.tail or "")))
    return f"<{name}{attributes}{extra}>{''.join(inner)}</{name}>"


def _local(node: ElementTree.Element) -> str:
    return str(node.tag).rpartition("}")[2]
