"""Messages that the ground truth asks for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from noria.envs.bfcl.data import ABSTAIN, RELEVANT, Entry, shown_name
from noria.envs.bfcl.formats import Form
from noria.envs.bfcl.forms_read import written as written_in
from noria.envs.bfcl.matching import Made
from noria.envs.bfcl.reading import written
from noria.envs.bfcl.services import Services, by_name, taken_apart

NOTHING_FITS = "None of these functions does that."
DONE = "That is done."
#: Ways to write an argument that are tried before an entry counts as unsolvable.
_MOST_TRIES = 64


def solution(entry: Entry, solves: Callable[[str], bool], services: Callable[[], Services]) -> list[str]:
    """Messages that solve an entry; where the ground truth can be written in several ways, the first that does."""
    if entry.category in ABSTAIN:
        return [NOTHING_FITS]
    if entry.category in RELEVANT:
        return [written(shown_name(str(entry.functions[0]["name"])), {})]
    if "question" in entry.row and "involved_classes" in entry.row:
        return _turns(entry, services())
    if entry.form is not None:
        return [_in_form(entry, entry.form)]
    ways = [_ways(entry, want) for want in entry.answer]
    tries = ["".join(calls) for calls in itertools.islice(itertools.product(*ways), _MOST_TRIES)]
    return [next((text for text in tries if solves(text)), tries[0])]


def _turns(entry: Entry, services: Services) -> list[str]:
    out = []
    for texts in entry.answer:
        calls = []
        for text in texts:
            name, positional, named = taken_apart(text)
            method = services.method(name)
            arguments = named if method is None else by_name(method, positional, named)
            calls.append(written(name, arguments))
        out += ["".join(calls), DONE] if calls else [DONE]
    return out


def _in_form(entry: Entry, form: Form) -> str:
    """The wanted calls with the first value of each argument."""
    calls: list[Made] = []
    kinds = []
    for want in entry.answer:
        ((name, options),) = want.items()
        described = entry.described(name)["parameters"]
        kinds.append({key: str(each.get("type", "")) for key, each in described["properties"].items()})
        needed = described.get("required", ())
        given = {}
        for key, allowed in options.items():
            if key in described["properties"] and ("" not in allowed or key in needed):
                given[key] = next((_plain(value) for value in allowed if value != ""), "")
        calls.append((name, given))
    return written_in(form, calls, kinds)


def _ways(entry: Entry, want: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[str]:
    """A wanted call with the first value of each argument, and with others where it has some."""
    ((name, options),) = want.items()
    described = entry.described(name)["parameters"]
    required = described.get("required", ())
    given: dict[str, list[Any]] = {}
    for key, allowed in options.items():
        if ("" in allowed and key not in required) or key not in described["properties"]:
            continue
        values = [_plain(value) for value in allowed if value != ""] or [""]
        forms = [list(_literals(entry.language, described["properties"][key], v)) for v in values[:3]]
        given[key] = [form for each in forms for form in each]
    combos = itertools.islice(itertools.product(*given.values()), _MOST_TRIES)
    return [written(shown_name(name), dict(zip(given, combo, strict=True))) for combo in combos]


def _plain(value: Any) -> Any:
    """A value of an answer: options of a dict's keys are chosen, those that may be left out are."""
    if isinstance(value, dict):
        return {k: _plain(v[0] if isinstance(v, list) else v) for k, v in value.items() if _needed(v)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _needed(options: Any) -> bool:
    return not isinstance(options, list) or "" not in options


def _literals(language: str, described: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """Ways to write a value: itself, or literals of another language."""
    if not language:
        yield value
        return
    kind = str(described["type"])
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, bool) or value is None:
        yield json.dumps(value)
    elif isinstance(value, list):
        yield from _listed(language, described, value)
    elif isinstance(value, dict) and language == "Java":
        puts = " ".join(f'put("{k}", {_java(v)});' for k, v in value.items())
        yield f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    elif isinstance(value, dict):
        yield json.dumps(value)
    else:
        yield f"{value}{ {'long': 'L', 'float': 'f'}.get(kind, '') if language == 'Java' else '' }"
        yield str(value)


def _listed(language: str, described: Mapping[str, Any], value: Sequence[Any]) -> Iterator[str]:
    if language == "JavaScript":
        yield json.dumps(list(value))
        yield f"[{', '.join(str(each) for each in value)}]"
        return
    mark = {"long": "L", "float": "f"}.get(str(described.get("items", {}).get("type")), "")
    for items in (", ".join(f"{each}{mark}" for each in value), ", ".join(_java(each) for each in value)):
        is_list = described["type"] == "ArrayList"
        yield f"new ArrayList<>(Arrays.asList({items}))" if is_list else f"new Object[]{{{items}}}"


def _java(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (str, bool)) else str(value)
