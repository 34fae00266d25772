"""Data files, line by line, into conversations and trajectories; needs no torch, so that `noria check` reads them too.

    {"messages": [{"role": …, "content": …, "tool_calls": […], "weight": 0 or 1}, …], "tools": […]}
    {"prompt": "…" or messages, "completion": "…" or messages}
    a line of a run's trajectories.jsonl, or an ATIF trajectory (`stages.atif`)

Files are JSON lines; a `.json` file holds one object or a list of them, a `.parquet` file a row each, in which nested
values may be JSON texts. Arguments of tool calls may be objects or JSON strings; arguments that are null were padding
of a table and are left out. An assistant's message of weight 0 carries no loss, as in OpenAI's data for fine-tuning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from noria.core.codec import from_json
from noria.core.errors import UserError
from noria.core.types import Message, Role, Tool, Trajectory
from noria.stages import atif
from noria.tokens.calls import render_call

ROLES = get_args(Role)
#: Half of a pair: JSON can write it, no tokenizer can read it.
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Columns of a table that hold something nested.
_NESTED = ("messages", "tools", "prompt", "completion", "steps", "agent", "turns", "record", "task", "outcome", "extra")
_SIDES = (("prompt", "user"), ("completion", "assistant"))
#: Bad lines that one message tells.
TOLD = 5


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages and tools; the assistant's messages with `trained` on carry loss. `trained` is as long as `messages`."""

    messages: list[Message]
    tools: list[Tool]
    trained: list[bool]


Line = Conversation | Trajectory


def read_file(path: Path) -> Iterator[tuple[str, Line]]:
    """Every line of a file with its place, as file:line.

    Raises:
        UserError: the file cannot be read, or a line is none of the forms; names the place.
    """
    for where, entry in _entries(path):
        yield where, _line(entry, where)


def check_file(path: Path, field: str) -> None:
    """Read a file to its end and keep nothing.

    Raises:
        UserError: the file cannot be read, has nothing in it, or has bad lines; names the first of these.
    """
    faults: list[str] = []
    count = 0
    for where, entry in _entries(path, field):
        count += 1
        try:
            _line(entry, where)
        except UserError as fault:
            faults.append(str(fault))
    if faults:
        more = f"\n{field}: {len(faults) - TOLD} more bad lines in {str(path)!r}" if len(faults) > TOLD else ""
        raise UserError("\n".join(f"{field}: {fault}" for fault in faults[:TOLD]) + more)
    if not count:
        raise UserError(f"{field} must name files with something in them: {str(path)!r} is empty - leave it out")


def _entries(path: Path, field: str = "data") -> Iterator[tuple[str, Any]]:
    """What stands in a file by place: text of a line, or data."""
    try:
        if path.suffix == ".parquet":
            yield from _rows(path, field)
        elif path.suffix == ".json":
            found = _parsed(path.read_text(encoding="utf-8-sig"), str(path))
            for number, each in enumerate(found if isinstance(found, list) else [found], 1):
                yield f"{path}:{number}" if isinstance(found, list) else str(path), each
        else:
            with path.open("rb") as file:  # JSON may hold U+2028, at which splitlines would cut
                for number, line in enumerate(file, 1):
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    if text.strip():
                        yield f"{path}:{number}", text
    except (OSError, UnicodeDecodeError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise UserError(
            f"{field} must name files of JSON lines in UTF-8: {str(path)!r} cannot be read ({said}) - correct the path"
        ) from fault


def _rows(path: Path, field: str) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as fault:
        raise UserError(
            f"{field}: {str(path)!r} needs the package 'pyarrow', which is missing - "
            'run `pip install "noria[parquet]"`, or give JSON lines'
        ) from fault
    try:
        file = parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=256):
            for row in batch.to_pylist():
                number += 1
                where = f"{path}:{number}"
                given = {key: value for key, value in row.items() if value is not None}
                yield where, {key: _nested(key, value, where) for key, value in given.items()}
    except ArrowException as fault:
        said = str(fault).partition("\n")[0]
        raise UserError(
            f"{field} must name whole files: {str(path)!r} cannot be read ({said}) - copy it again"
        ) from fault


def _nested(key: str, value: Any, where: str) -> Any:
    """A value of a table: JSON in a text where something nested is meant."""
    if not isinstance(value, str) or key not in _NESTED or value.lstrip()[:1] not in ("[", "{"):
        return value
    side = key in ("prompt", "completion")
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        if side:
            return value  # words that begin with a bracket
        raise UserError(f"{where} must hold {key} as JSON: got {value[:40]!r}") from None
    messages = isinstance(found, list) and all(isinstance(each, dict) and "role" in each for each in found)
    return found if messages or not side else value


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise UserError(f"{where} must be JSON: {fault}") from fault


def _line(entry: Any, where: str) -> Line:
    found = _parsed(entry, where) if isinstance(entry, str) else entry
    if not isinstance(found, dict):
        raise UserError(f"{where} must be an object: got {type(found).__name__}")
    if "record" in found and "turns" in found:
        return _trajectory(found, where)
    if "steps" in found and "schema_version" in found:
        whole = atif.of_noria(found)
        return _conversation_of(found, where) if whole is None else whole
    if "messages" in found:
        messages = _messages(found["messages"], where)
        trained = [
            message.role == "assistant" and _weight(given, where)
            for message, given in zip(messages, found["messages"], strict=True)
        ]
    elif "prompt" in found and "completion" in found:
        asked, said = (_messages(_as_messages(found[key], role), where) for key, role in _SIDES)
        messages = [*asked, *said]
        trained = [False] * len(asked) + [message.role == "assistant" for message in said]
    else:
        raise UserError(
            f"{where} must hold messages, prompt and completion, or a trajectory: got {sorted(map(str, found))}"
        )
    return Conversation(messages, _tools(found.get("tools"), where), trained)


def _trajectory(found: Mapping[str, Any], where: str) -> Trajectory:
    try:
        return from_json(Trajectory, found)
    except (ValueError, TypeError, KeyError) as fault:
        raise UserError(f"{where} must hold a whole trajectory of a run: {fault}") from fault


def _conversation_of(found: Mapping[str, Any], where: str) -> Conversation:
    """The conversation of an ATIF trajectory that somebody else wrote, or changed."""
    try:
        messages, tools, trained = atif.conversation(found)
    except ValueError as fault:
        raise UserError(f"{where} must hold an ATIF trajectory: {fault}") from fault
    return Conversation(_messages(messages, where), _tools(tools, where), trained)


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


def _weight(message: Mapping[str, Any], where: str) -> bool:
    """Whether a message carries loss, as far as it says so itself."""
    weight = message.get("weight")
    if weight not in (None, 0, 1):
        raise UserError(f"{where} must hold messages of weight 0 or 1: got {weight!r} - write 0 for no loss")
    return weight != 0


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
