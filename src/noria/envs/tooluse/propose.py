"""Specifications that a chat model proposes, as JSON in the types of `spec`; what holds for drawn ones holds for them.

A proposal is read strictly: a key too many, a value of another type, a word that is no name, a tool whose verb does
not say its kind is a reason to drop it. What passes goes on to the factory's own checks: types on both sides of every
rule, the static check of the emitted code, calls that must go through and calls that must not, goals by search.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field, ValidationError

from noria.core.codec import from_json, to_json
from noria.core.errors import EngineError, UserError
from noria.core.remote import ServerConfig, connect, read_key
from noria.envs.tooluse import spec
from noria.envs.tooluse.candidates import Refused
from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.spec import Domain
from noria.envs.tooluse.themes import PLACES_OF_DOMAINS, kinds_by_verb, settings
from noria.envs.tooluse.typing_rules import LEAST_TOOLS, MOST_TOOLS, faults_in

if TYPE_CHECKING:
    import openai

UNREADABLE, STRANGE = "not a specification", "words or sizes that do not fit"
_WORD = re.compile(r"[a-z][a-z0-9_]{0,23}")
_TITLE = re.compile(r"[A-Za-z][A-Za-z0-9 -]{0,39}")
_MOST_TABLES, _MOST_FIELDS, _MOST_PARTS, _MOST_NUMBER = 6, 10, 8, 999
#: As the drawn ones have; a search tries every combination of their values.
_MOST_PARAMS = 4
_MOST_CHARS, _CASE_CHARS = 60_000, 200
#: Candidates of the seed among which the shortest sound one is shown as an example.
_EXAMPLES = 40
_SYSTEM = f"""You design small stateful services for tests of tool use. Answer with one JSON object and nothing else.

Keys: title, tables, operations, limits, packs. 2 to 4 tables, {LEAST_TOOLS} to {MOST_TOOLS} operations.
table: name, noun, letter (one capital), fields, grows (true only where operations make new rows).
field: name, kind (enum with values, int with low and high, ref with table and optional).
operation: name, kind, doc, table, params, checks, effects. Its name is a verb, _ and a noun; the verb says the kind:
{{verbs}}
list has no parameter, get one id, find and count one parameter named like a field; none of these has checks or effects.
param: name, kind (id with table, int with low and high and measures "table.field", enum with values).
check: test, says. Tests compare sums: book.state == 'open', count(books: shelf=shelf) < shelf.room. A path starts at a
parameter that is an id, and may follow one reference. says is plain words, with terms in braces.
effect: "book.shelf = shelf", "bin.stock = bin.stock - amount", or "new loans: book=book, state='placed'", every field.
limit: at most owner.cap rows of table point with ref to one row of owner. limits and packs may be [].
Every operation must be possible in some state, and every rule refuse something."""


class ProposeConfig(ServerConfig):
    """Which server proposes, and how."""

    timeout_s: float = Field(default=600.0, gt=0, description="longest silence of the server during one request")
    max_retries: int = Field(default=3, ge=0, le=100, description="further requests after a failed one")
    max_output_tokens: int = Field(default=4096, ge=256, description="length of a proposal")
    temperature: float = Field(default=1.0, ge=0, le=2, description="sampling temperature of a proposal")


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Text


class _Completion(BaseModel):
    """What is needed of a server's answer; servers differ in the rest."""

    choices: list[_Choice] = Field(min_length=1)


class Proposed:
    """See the module: a `candidates.Source` behind a server."""

    foreign = True

    def __init__(self, config: ProposeConfig) -> None:
        self._config = config
        self._client: openai.OpenAI = connect(config, read_key(config), config.max_retries)
        self.settings: Mapping[str, Any] = {"proposed_by": config.model, "server": config.base_url}

    def label(self, seed: int, number: int) -> str:
        """A name that no drawn domain has."""
        return f"proposed-{seed}-{number}"

    def domain(self, seed: int, number: int) -> Domain:
        """What the model proposes under this number; each is asked for once.

        Raises:
            Refused: it is no specification, or one that does not fit.
            EngineError: no answer within the retries.
            UserError: the server refuses the key, or knows neither the address nor the model.
        """
        return read(self._asked(topic_of(seed, number), seed * 1_000_003 + number), self.label(seed, number))

    def _asked(self, topic: str, seed: int) -> str:
        import openai

        config = self._config
        messages = [{"role": "system", "content": system()}, {"role": "user", "content": topic}]
        try:
            reply = self._client.chat.completions.with_raw_response.create(
                model=config.model, messages=cast(Any, messages), max_tokens=config.max_output_tokens,
                temperature=config.temperature, seed=seed,
            )  # fmt: skip
        except openai.APIStatusError as fault:
            if fault.status_code in (401, 403, 404):
                raise UserError(
                    f"--propose must name a server that answers: {config.base_url} says {fault.status_code} to model "
                    f"{config.model!r} - check --propose, --model and --api-key-env"
                ) from fault
            said = " ".join(str(fault.message).split())[:300]
            raise EngineError(f"status {fault.status_code} from the server that proposes: {said}") from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} from the server that proposes") from fault
        try:
            return _Completion.model_validate_json(reply.text).choices[0].message.content or ""
        except ValidationError as fault:
            raise EngineError(f"the server's answer is not a chat completion: {reply.text[:60]!r}") from fault


def topic_of(seed: int, number: int) -> str:
    """What the candidate of a number shall be about."""
    rng = random.Random(f"tooluse:propose:{seed}:{number}")
    place, setting = rng.choice(PLACES_OF_DOMAINS), rng.choice(settings()).name.replace("_", " ")
    return f"A service: the {place} {setting}. Its rules shall differ from those of the example."


def system() -> str:
    """The instructions, with the verbs that name kinds, and an example."""
    verbs: dict[str, list[str]] = {}
    for verb, kind in kinds_by_verb().items():
        verbs.setdefault(kind, []).append(verb)
    lines = "\n".join(f"{kind}: {', '.join(names)}" for kind, names in verbs.items())
    return f"{_SYSTEM.format(verbs=lines)}\n\nExample:\n{example()}"


def example() -> str:
    """The shortest of the first sound domains of seed 0, without what has its default."""
    found = (draw_domain(0, number) for number in range(_EXAMPLES))
    texts = [json.dumps(_plain(to_json(d), Domain), separators=(",", ":")) for d in found if not faults_in(d)]
    return min(texts, key=len)


def read(text: str, name: str) -> Domain:
    """The domain that an answer holds, under this name. Raises Refused."""
    body = text.rpartition("</think>")[2]
    start, end = body.find("{"), body.rfind("}")
    if start < 0 or end < start or len(body) > _MOST_CHARS:
        raise Refused(UNREADABLE, f"no JSON object in {len(body)} characters")
    try:
        data = json.loads(body[start : end + 1])
        domain = from_json(Domain, _filled({**data, "name": name}, Domain))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise Refused(UNREADABLE, ascii(str(fault))[1:-1][:_CASE_CHARS]) from None
    if odd := next(strange_in(domain), ""):
        raise Refused(STRANGE, ascii(odd)[1:-1][:_CASE_CHARS])
    return domain


def strange_in(domain: Domain) -> Iterator[str]:
    """What no drawn domain has, and `typing_rules` therefore does not look for."""
    if not _TITLE.fullmatch(domain.title):
        yield f"title {domain.title!r} must be a few words"
    if not 1 <= len(domain.tables) <= _MOST_TABLES:
        yield f"{len(domain.tables)} tables, expected 1 to {_MOST_TABLES}"
    for table in domain.tables:
        if not (len(table.letter) == 1 and table.letter.isascii() and table.letter.isupper()):
            yield f"letter {table.letter!r} of {table.name} must be one capital"
        if not 1 <= len(table.fields) <= _MOST_FIELDS:
            yield f"{len(table.fields)} fields of {table.name}, expected 1 to {_MOST_FIELDS}"
        yield from _wordy(table.name, table.noun)
        for field in table.fields:
            yield from _valued(f"{table.name}.{field.name}", field, ("enum", "int", "ref"))
    for operation in domain.operations:
        yield from _odd(operation)
    for limit in domain.limits:
        yield from _wordy(limit.table, limit.ref, limit.owner, limit.cap)
    for pack in domain.packs:
        yield from _wordy(pack.table, pack.field, pack.unit, pack.pack)
        table_of = domain.table.get(pack.table)
        if table_of is None or table_of.field(pack.field) is None or not 2 <= pack.size <= _MOST_NUMBER:
            yield f"a pack of {pack.table}.{pack.field} counts nothing"


def _odd(operation: spec.Operation) -> Iterator[str]:
    verb, _, rest = operation.name.partition("_")
    if not rest or kinds_by_verb().get(verb) != operation.kind:
        yield f"the verb of {operation.name} does not say the kind {operation.kind}"
    if len(operation.params) > _MOST_PARAMS:
        yield f"{operation.name} has more than {_MOST_PARAMS} parameters"
    if max(len(operation.checks), len(operation.effects)) > _MOST_PARTS:
        yield f"{operation.name} has more than {_MOST_PARTS} checks or effects"
    for param in operation.params:
        yield from _valued(f"{param.name} of {operation.name}", param, ("id", "int", "enum"))
        if param.measures and param.measures.count(".") != 1:
            yield f"{param.name} of {operation.name} must measure a table.field"
    if not operation.reads:
        if not operation.effects:
            yield f"{operation.name} changes nothing"
        return
    kinds = [param.kind for param in operation.params]
    fits = {"list": not kinds, "get": kinds == ["id"]}.get(operation.kind, len(kinds) == 1 and kinds != ["int"])
    if operation.checks or operation.effects or not fits:
        yield f"{operation.name} must take what a {operation.kind} takes, without checks and effects"


def _valued(name: str, thing: spec.Field | spec.Param, kinds: tuple[str, ...]) -> Iterator[str]:
    if thing.kind not in kinds:
        yield f"{name} is of the kind {thing.kind!r}, expected {', '.join(kinds)}"
    if thing.kind == "enum" and not (2 <= len(set(thing.values)) == len(thing.values) <= _MOST_PARTS):
        yield f"{name} must have 2 to {_MOST_PARTS} values, each once"
    if not 0 <= thing.low <= thing.high <= _MOST_NUMBER:
        yield f"{name} must lie in 0 to {_MOST_NUMBER}"
    yield from _wordy(thing.name, *thing.values, *([thing.table] if thing.table else []))


def _wordy(*words: str) -> Iterator[str]:
    for word in words:
        if not _WORD.fullmatch(word):
            yield f"{word!r} must be a word of small letters"


def _filled(data: Any, kind: type) -> Any:
    """The data with the defaults of all records that leave them out."""
    out = dict(data)
    for field in dataclasses.fields(kind):
        if field.name in out:
            item = _ITEMS.get((kind, field.name))
            out[field.name] = [_filled(each, item) for each in out[field.name]] if item else out[field.name]
        elif field.default is not dataclasses.MISSING:
            out[field.name] = to_json(field.default)
    return out


def _plain(data: Any, kind: type) -> Any:
    """The data without its name and without what has its default."""
    out = {}
    for field in dataclasses.fields(kind):
        value = data[field.name]
        item = _ITEMS.get((kind, field.name))
        default = None if field.default is dataclasses.MISSING else to_json(field.default)
        if (kind, field.name) != (Domain, "name") and value != default:
            out[field.name] = [_plain(each, item) for each in value] if item else value
    return out


#: The record that a list of another record holds.
_ITEMS: Mapping[tuple[type, str], type] = {
    (Domain, "tables"): spec.Table, (Domain, "operations"): spec.Operation, (Domain, "limits"): spec.Limit,
    (Domain, "packs"): spec.Pack, (spec.Table, "fields"): spec.Field, (spec.Operation, "params"): spec.Param,
    (spec.Operation, "checks"): spec.Check,
}  # fmt: skip
