"""Carriers as JSON lines: `from_json(Trajectory, to_json(t)) == t`, floats bit by bit.

The codec follows the type hints of the dataclasses in `core.types`. Streams of a token record that repeat
(roles, turns, sources, mask, versions) are stored as runs `[value, count]`.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from noria.core.errors import UserError
from noria.core.types import TokenRecord

T = TypeVar("T")
Decode = Callable[[Any], Any]

#: Fields with a default that files of earlier versions lack.
_LATER = frozenset({("Turn", "whole"), ("Trajectory", "branches"), ("Trajectory", "scaffold")})
_RUNS = ("roles", "turns", "sources", "mask", "versions")


def to_json(carrier: Any) -> Any:
    """Plain JSON data of a carrier (a dataclass instance, or containers and scalars holding some)."""
    if isinstance(carrier, TokenRecord):
        return _record_to_json(carrier)
    if dataclasses.is_dataclass(carrier) and not isinstance(carrier, type):
        return {item.name: to_json(getattr(carrier, item.name)) for item in dataclasses.fields(carrier)}
    if isinstance(carrier, Mapping):
        return {_text_key(key): to_json(value) for key, value in carrier.items()}
    if isinstance(carrier, list | tuple):
        return [to_json(value) for value in carrier]
    if carrier is None or isinstance(carrier, str | int | float | bool):
        return carrier
    raise TypeError(f"cannot be stored as JSON: {type(carrier).__name__}")


def from_json(kind: type[T], data: Any) -> T:
    """The carrier of class `kind` that `to_json` made `data` from.

    Raises:
        ValueError: `data` lacks a field, has one too many, or holds a value of another shape.
    """
    decoded: T = _decoder(cast(Hashable, kind))(data)
    return decoded


def dumps(carrier: Any) -> str:
    """One line of ASCII JSON without the newline."""
    return json.dumps(to_json(carrier), separators=(",", ":"))


def write_jsonl(path: Path, carriers: Iterable[Any]) -> int:
    """Write one line per carrier and return their number; an existing file is replaced."""
    count = 0
    with path.open("w", encoding="ascii") as file:
        for carrier in carriers:
            file.write(dumps(carrier) + "\n")
            count += 1
    return count


def append_jsonl(path: Path, carriers: Iterable[Any]) -> int:
    """Append lines that no other appender splits; a torn last line of a killed process is cut off first."""
    lines = [dumps(carrier) + "\n" for carrier in carriers]
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(_whole(file))
        file.write("".join(lines).encode("ascii"))
    return len(lines)


def read_jsonl(path: Path, kind: type[T]) -> Iterator[T]:
    """The carriers of a file in order. A last line without a newline was torn by a kill and does not count.

    Raises:
        ValueError: a line that is not JSON of `kind`; names the file and line.
    """
    decode = _decoder(cast(Hashable, kind))
    for number, data in _read_lines(path):
        try:
            yield decode(data)
        except (ValueError, TypeError, KeyError) as fault:
            raise ValueError(f"{path} line {number}: not a {kind.__name__}: {fault}") from fault


def read_json(path: Path, fix: str = "remove its folder, and `noria resume` makes the artifact anew") -> Any:
    """What one JSON file of a run holds; None where there is none.

    Raises:
        UserError: the file is damaged; names it and the fix.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise UserError(f"RUN must be whole: {str(path)!r} is damaged ({fault}) - {fix}") from None


def read_json_lines(path: Path) -> list[Any]:
    """Plain JSON of each whole line; [] where the file does not exist."""
    return [data for _, data in _read_lines(path)] if path.exists() else []


def _read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                try:
                    data = json.loads(line)
                except ValueError as fault:
                    raise ValueError(f"{path} line {number}: not JSON: {fault}") from fault
                yield number, data


def _whole(file: Any) -> int:
    """Length in bytes up to and including the last newline."""
    size: int = file.seek(0, 2)
    at = size
    while at > 0:
        start = max(0, at - 65536)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return int(start + found + 1)
        at = start
    return 0


def _text_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a JSON key must be text: got {key!r}")
    return key


def _record_to_json(record: TokenRecord) -> dict[str, Any]:
    out: dict[str, Any] = {"ids": list(record.ids), "logp_mu": list(record.logp_mu)}
    streams = (record.roles, record.turns, record.sources, record.mask, record.versions)
    for name, stream in zip(_RUNS, streams, strict=True):
        out[name] = [[value, sum(1 for _ in run)] for value, run in groupby(stream)]
    return out


def _record_from_json(data: Any) -> TokenRecord:
    streams: dict[str, Any] = {}
    for name in _RUNS:
        flat: list[Any] = []
        for value, count in data[name]:
            flat.extend([value] * count)
        streams[name] = tuple(flat)
    return TokenRecord(ids=tuple(data["ids"]), logp_mu=tuple(map(float, data["logp_mu"])), **streams)


@cache
def _decoder(hint: Any) -> Decode:
    """The function that rebuilds a value of type `hint` from plain JSON."""
    if hint is TokenRecord:
        return _record_from_json
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_decoder(hint)
    if hint is float:
        return _scalar((int, float), float)
    if hint in (int, str, bool):
        return _scalar((hint,), hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return _tuple_decoder(args)
    if origin in (Union, types.UnionType):
        return _optional_decoder(args)
    if origin is Literal:
        return _scalar((str,), str)
    if origin is list:
        item = _decoder(args[0])
        return lambda data: [item(value) for value in data]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        value_of = _decoder(args[1])
        return lambda data: {key: value_of(value) for key, value in data.items()}
    return lambda data: data


def _scalar(accepted: tuple[type, ...], make: Callable[[Any], Any]) -> Decode:
    def decode(data: Any) -> Any:
        if not isinstance(data, accepted) or (isinstance(data, bool) and bool not in accepted):
            raise ValueError(f"expected {accepted[-1].__name__}, got {data!r}")
        return make(data)

    return decode


def _tuple_decoder(args: tuple[Any, ...]) -> Decode:
    if len(args) == 2 and args[1] is Ellipsis:
        item = _decoder(args[0])
        return lambda data: tuple([item(value) for value in data])
    items = [_decoder(arg) for arg in args]
    return lambda data: tuple(item(value) for item, value in zip(items, data, strict=True))


def _optional_decoder(args: tuple[Any, ...]) -> Decode:
    inner = [arg for arg in args if arg is not type(None)]
    if len(inner) != 1 or len(inner) == len(args):
        raise TypeError(f"the codec knows `X | None` only, got {args}")
    decode = _decoder(inner[0])
    return lambda data: None if data is None else decode(data)


def _dataclass_decoder(kind: type[Any]) -> Decode:
    hints = get_type_hints(kind)
    decoders = {item.name: _decoder(hints[item.name]) for item in dataclasses.fields(kind)}

    needed = {name for name in decoders if (kind.__name__, name) not in _LATER}

    def decode(data: Any) -> Any:
        if not isinstance(data, dict) or not needed <= data.keys() <= decoders.keys():
            got = sorted(data) if isinstance(data, dict) else type(data).__name__
            raise ValueError(f"{kind.__name__} must have the fields {sorted(decoders)}: got {got}")
        return kind(**{name: decoders[name](value) for name, value in data.items()})

    return decode
