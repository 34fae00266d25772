"""Supervised data from local files: JSON lines of conversations, prompt and completion, or trajectories.

    {"messages": [{"role": …, "content": …, "tool_calls": […]}, …], "tools": […]}   loss on what the assistant said
    {"prompt": "…" or messages, "completion": "…" or messages}                      loss on the completion alone
    a line of a run's trajectories.jsonl                                            as the run's own samples

Arguments of tool calls may be objects or JSON strings; arguments that are null were padding of a table and are left
out. What cannot be rendered, or carries no loss after cutting to length, is dropped and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from noria.core.codec import from_json
from noria.core.errors import UserError
from noria.core.types import Message, Role, Tool, Trajectory
from noria.stages import rows as rows_of
from noria.stages.masking import DEFAULT
from noria.tokens.calls import render_call
from noria.tokens.conversation import Unrenderable, spoken
from noria.tokens.renderer import Renderer
from noria.trainers.rows import Row

ROLES = get_args(Role)
#: Half of a pair: JSON can write it, no tokenizer can read it.
_SURROGATE = re.compile("[\ud800-\udfff]")


def load_rows(
    files: Sequence[str], renderer: Renderer, max_tokens: int, mask_errors: bool, rules: Sequence[str] = DEFAULT
) -> tuple[list[Row], dict[str, int]]:
    """Rows of all files in order, and what was dropped by reason. Rows are cut to `max_tokens`.

    Raises:
        UserError: a file is missing, a line is none of the three forms, or nothing is left to train on.
    """
    rows: list[Row] = []
    dropped: Counter[str] = Counter()
    for name in files:
        for where, line in _lines(Path(name)):
            try:
                row = _row(line, renderer, where, rules if mask_errors else ())
            except Unrenderable:
                dropped["unrenderable"] += 1
                continue
            row = _cut(row, max_tokens)
            if row.mask[1:].any():
                rows.append(row)
            else:
                dropped["without_loss"] += 1
    if files and not rows:
        raise UserError(f"data must leave rows to train on: all of {', '.join(files)} were dropped ({dict(dropped)})")
    return rows, dict(dropped)


def _lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise UserError(
            f"data must name files of JSON lines in UTF-8: {str(path)!r} cannot be read ({said})"
        ) from fault
    out = []
    for number, line in enumerate(text.split("\n"), 1):  # JSON may hold U+2028, at which splitlines would cut
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise UserError(f"{path}:{number} must be JSON: {fault}") from fault
        if not isinstance(found, dict):
            raise UserError(f"{path}:{number} must be an object: got {type(found).__name__}")
        out.append((f"{path}:{number}", found))
    return out


def _row(line: Mapping[str, Any], renderer: Renderer, where: str, rules: Sequence[str]) -> Row:
    if "record" in line and "turns" in line:
        try:
            trajectory = from_json(Trajectory, line)
        except (ValueError, TypeError, KeyError) as fault:
            raise UserError(f"{where} must hold a whole trajectory of a run: {fault}") from fault
        return rows_of.supervised(trajectory, bool(rules), rules)
    if "messages" in line:
        messages = _messages(line["messages"], where)
        trained = [message.role == "assistant" for message in messages]
    elif "prompt" in line and "completion" in line:
        asked, said = (_messages(_as_messages(line[key], role), where) for key, role in _SIDES)
        messages = [*asked, *said]
        trained = [False] * len(asked) + [message.role == "assistant" for message in said]
    else:
        raise UserError(f"{where} must hold messages, prompt and completion, or a trajectory: got {sorted(line)}")
    made = spoken(renderer, messages, _tools(line.get("tools"), where), trained)
    return Row.plain(made.ids, made.mask)


_SIDES = (("prompt", "user"), ("completion", "assistant"))


def _as_messages(value: Any, role: str) -> Any:
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def _messages(values: Any, where: str) -> list[Message]:
    if not isinstance(values, list) or not values:
        raise UserError(f"{where} must hold a list of messages: got {type(values).__name__}")
    out = []
    for value in values:
        if not isinstance(value, dict) or value.get("role") not in ROLES:
            raise UserError(f"{where} must hold messages with a role of {', '.join(ROLES)}: got {value!r}")
        content = "" if value.get("content") is None else value["content"]
        if not isinstance(content, str):
            raise UserError(f"{where} must hold messages of text: got content of type {type(content).__name__}")
        calls = [_call(call, where) for call in _list(value.get("tool_calls"), "tool_calls", where)]
        words = "".join([content, *calls])
        if _SURROGATE.search(words):
            raise UserError(f"{where} must hold messages of text: got half a surrogate pair - write the whole of it")
        out.append(Message(value["role"], words))
    return out


def _list(value: Any, what: str, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise UserError(f"{where} must hold {what} as a list: got {type(value).__name__}")
    return value or []


def _table(value: Any) -> dict[str, Any]:
    """The object that a value is; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _call(value: Any, where: str) -> str:
    function = _table(_table(value).get("function", value))
    arguments = function.get("arguments")
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError as fault:
        raise UserError(f"{where} must hold tool calls whose arguments are JSON: {fault}") from fault
    if not isinstance(function.get("name"), str) or not isinstance(arguments or {}, dict):
        raise UserError(f"{where} must hold tool calls with a name and arguments: got {value!r}")
    given = {key: _text(v) for key, v in (arguments or {}).items() if v is not None}
    return render_call(function["name"], **given)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tools(values: Any, where: str) -> list[Tool]:
    out = []
    for value in _list(values, "tools", where):
        function = _table(_table(value).get("function", value))
        if not isinstance(function.get("name"), str):
            raise UserError(f"{where} must hold tools with a name: got {value!r}")
        schema = {} if function.get("parameters") is None else function["parameters"]
        properties = _table(schema).get("properties") or {}
        if not isinstance(schema, dict) or not isinstance(properties, dict):
            raise UserError(f"{where} must hold tools whose parameters are a JSON schema: got {value!r}")
        parameters = {
            key: (str(_table(kind).get("type", "string")), str(_table(kind).get("description", "")))
            for key, kind in properties.items()
            if kind is not None
        }
        out.append(Tool(function["name"], str(function.get("description") or ""), parameters))
    return out


def _cut(row: Row, max_tokens: int) -> Row:
    return row if len(row) <= max_tokens else Row.plain(row.ids[:max_tokens].tolist(), row.mask[:max_tokens].tolist())
