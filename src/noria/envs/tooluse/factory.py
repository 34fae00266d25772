"""The factory: candidates are drawn, emitted, tested in the sandbox and given goals; what fails is dropped.

    OUT/make.json              the seed and the options that the folder was begun with
    OUT/domains/NAME/          spec.json, backend.py, tools.json, test_backend.py, goals.jsonl
    OUT/candidates.jsonl       one line per candidate, kept or dropped, in order
    OUT/report.json            sums over those lines, written last

A domain's folder gets its name when it is whole, and its line in the list comes after that: whoever goes on after a
kill begins with the first candidate that has no line.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from noria.core.codec import append_jsonl, dumps, read_json_lines, to_json
from noria.core.errors import SandboxError, UserError, boundary
from noria.core.lock import hold
from noria.core.protocols import Sandbox
from noria.core.remote import ServerConfig
from noria.core.store import sync_folder, write_atomically
from noria.envs.tooluse.candidates import Drawn, Refused, Source
from noria.envs.tooluse.emit import source_of
from noria.envs.tooluse.folder import BACKEND, DOMAINS, GOALS, LOG, REPORT, SCHEMA, SPEC, TESTS
from noria.envs.tooluse.goals import Dropped
from noria.envs.tooluse.probes import Probes, missing, probe, silent_checks, tests_of
from noria.envs.tooluse.spec import Domain, signature
from noria.envs.tooluse.static import faults_in_source
from noria.envs.tooluse.tasks import Knobs, draw_task, is_unseen
from noria.envs.tooluse.typing_rules import faults_in

SETTINGS = "make.json"
_TEST_TIMEOUT_S = 5.0
_PARTIAL = ".partial"
#: A sandbox that died is asked again this often before the command ends.
_ASKED = 3
#: Candidates per domain that was asked for.
_MOST_CANDIDATES = 20


@dataclass(frozen=True, slots=True)
class Options:
    """How many goals a domain is given, how few drop it, and how many draws it has for them."""

    goals: int = 8
    least_goals: int = 4
    goal_draws: int = 60
    budget: int = 500


def make(
    out: Path, count: int, seed: int, sandbox: Sandbox, advance: Callable[[int], None] = lambda kept: None,
    server: ServerConfig | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Make `count` domains in the folder `out`, going on with what is there; returns the report.

    `advance` is told after each candidate how many are kept. With a server its model proposes the candidates.

    Raises:
        UserError: the folder was begun with another seed, or another process works on it.
        SandboxError: the sandbox failed again and again.
        EngineError: the server did not answer; what was made is there.
    """
    options, source = Options(), _source(server)
    (out / DOMAINS).mkdir(parents=True, exist_ok=True)
    with hold(out / "lock", f"folder {out}"):
        _settle(out, seed, options, source)
        for torn in (out / DOMAINS).glob(f"*{_PARTIAL}"):
            shutil.rmtree(torn)
        lines = read_json_lines(out / LOG)
        kept = [line for line in lines if line["kept"]]
        schemas = {line[key]: line["name"] for line in kept for key in ("schema", "shape")}
        advance(len(kept))
        for number in range(len(lines), _MOST_CANDIDATES * count + 100):
            if len(kept) >= count:
                break
            line = _candidate(out, seed, number, sandbox, options, schemas, source)
            append_jsonl(out / LOG, [line])
            lines.append(line)
            if line["kept"]:
                kept.append(line)
                schemas |= {line["schema"]: line["name"], line["shape"]: line["name"]}
            advance(len(kept))
        report = {**report_of(lines, seed), **source.settings}
        write_atomically(out / REPORT, json.dumps(report, indent=1) + "\n")
    return report


def report_of(lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Sums over candidates."""
    kept = [line for line in lines if line["kept"]]
    names = [name for line in kept for name in line["signatures"]]
    lengths: Counter[str] = Counter()
    drops: Counter[str] = Counter()
    for line in lines:
        lengths.update(line.get("lengths", {}))
        drops.update(line.get("goal_drops", {}))
    goals = sum(line["goals"] for line in kept)
    several = sum(line["several"] for line in kept)
    return {
        "seed": seed,
        "candidates": len(lines),
        "domains": len(kept),
        "unseen": sum(line["unseen"] for line in kept),
        "tools": len(names),
        "tools_per_domain": [min(map(len, (k["signatures"] for k in kept)), default=0),
                             max(map(len, (k["signatures"] for k in kept)), default=0)],
        "distinct_signatures": len(set(names)),
        "distinct_schemas": len({line["schema"] for line in kept}),
        "distinct_shapes": len({line["shape"] for line in kept}),
        "tests": dict(sum((Counter(line["tests"]) for line in kept), Counter())),
        "dropped": dict(Counter(line["reason"] for line in lines if not line["kept"]).most_common()),
        "goals": goals,
        "goals_with_several_paths": several,
        "goals_by_length": dict(sorted(lengths.items())),
        "goals_dropped": dict(drops.most_common()),
    }  # fmt: skip


def _source(server: ServerConfig | None) -> Source:
    if server is None:
        return Drawn()
    from noria.envs.tooluse.propose import ProposeConfig, Proposed

    return Proposed(ProposeConfig(base_url=server.base_url, model=server.model, api_key_env=server.api_key_env))


def _settle(out: Path, seed: int, options: Options, source: Source) -> None:
    """Hold the folder to what it was begun with."""
    path = out / SETTINGS
    now = {"seed": seed, **asdict(options), **source.settings}
    if not path.is_file():
        write_atomically(path, json.dumps(now) + "\n")
    elif json.loads(path.read_text(encoding="utf-8")) != now:
        raise UserError(
            "--out must be a new folder or one that was begun with the same seed, version and model: "
            f"got {str(out)!r} - name another folder"
        )


def _candidate(
    out: Path, seed: int, number: int, sandbox: Sandbox, options: Options, schemas: Mapping[str, str], source: Source
) -> dict[str, Any]:
    """Build one candidate; its line for the list."""
    line: dict[str, Any] = {"number": number, "name": source.label(seed, number), "kept": False}
    drops: Counter[str] = Counter()
    try:
        domain = source.domain(seed, number)
        if same := schemas.get(domain.schema) or schemas.get(domain.shape):
            raise Refused("same schema", f"as {same}")

        def work() -> tuple[Probes, list[dict[str, Any]]]:
            return _tested(domain, seed, sandbox), _goals(domain, seed, options, drops)

        found, goals = boundary(work, _odd) if source.foreign else work()
        if len(goals) < options.least_goals:
            raise Refused("too few goals", f"{len(goals)} in {options.goal_draws} draws")
    except Refused as refused:
        return line | {"reason": refused.reason, "case": refused.case, "goal_drops": dict(drops)}
    _write(out, domain, found, goals)
    return line | {
        "kept": True,
        "unseen": is_unseen(domain),
        "schema": domain.schema,
        "shape": domain.shape,
        "signatures": [signature(operation) for operation in domain.operations],
        "goals": len(goals),
        "several": sum(goal["data"]["paths"] > 1 for goal in goals),
        "lengths": dict(Counter(str(goal["data"]["length"]) for goal in goals)),
        "goal_drops": dict(drops),
        "tests": {
            "positive": sum(map(len, found.positive.values())),
            "negative": len(found.negative),
            "silent_checks": len(silent_checks(domain, found)),
        },
    }


def _odd(fault: BaseException) -> NoReturn:
    """What a foreign specification meets that no drawn one does is a reason to drop it, not the end of the command."""
    if isinstance(fault, Refused | SandboxError | OSError):
        raise fault
    raise Refused("cannot be built", f"{type(fault).__name__}: {ascii(str(fault))[1:-1]}"[:200])


def _tested(domain: Domain, seed: int, sandbox: Sandbox) -> Probes:
    """Types, code and tool calls of a candidate. Raises Refused."""
    if faults := faults_in(domain):
        raise Refused("badly typed or sized", faults[0])
    if faults := faults_in_source(source_of(domain), [operation.name for operation in domain.operations]):
        raise Refused("code not allowed", faults[0])
    found = probe(domain, seed)
    if faults := missing(domain, found):
        raise Refused("inexecutable tool", faults[0])
    files = {BACKEND: source_of(domain), TESTS: tests_of(domain, found)}
    for attempt in range(_ASKED):
        try:
            report = sandbox.test(files, TESTS, _TEST_TIMEOUT_S)
            break
        except SandboxError:
            if attempt == _ASKED - 1:
                raise
    if not report.passed:
        wrong = [f"{name}: {said}" for name, said in report.results.items() if said != "pass"]
        raise Refused("backend is not as specified", (report.error or wrong[0])[:200])
    return found


def _goals(domain: Domain, seed: int, options: Options, drops: Counter[str]) -> list[dict[str, Any]]:
    """Tasks that prove what can be asked in the domain; counts what was dropped and why."""
    knobs = Knobs(budget=options.budget, asks=4)
    goals: list[dict[str, Any]] = []
    for draw in range(options.goal_draws):
        if len(goals) == options.goals:
            break
        rng = random.Random(f"tooluse:goal:{seed}:{domain.name}:{draw}")
        try:
            task = draw_task(domain, rng, "unseen", knobs)
        except Dropped as dropped:
            drops[str(dropped)] += 1
            continue
        if task is not None:
            goals.append(to_json(task))
    return goals


def _write(out: Path, domain: Domain, found: Probes, goals: list[dict[str, Any]]) -> None:
    """The domain's folder, whole or not at all."""
    target = out / DOMAINS / domain.name
    partial = target.with_name(target.name + _PARTIAL)
    partial.mkdir()
    texts = {
        SPEC: dumps(domain),
        BACKEND: source_of(domain),
        SCHEMA: json.dumps(schema_of(domain), indent=1),
        TESTS: tests_of(domain, found),
        GOALS: "".join(dumps(goal) + "\n" for goal in goals).rstrip("\n"),
    }
    for name, text in texts.items():
        with (partial / name).open("w", encoding="utf-8") as file:
            file.write(text if name == BACKEND else text + "\n")
            file.flush()
            os.fsync(file.fileno())
    if target.exists():  # whole, but its line was lost
        shutil.rmtree(target)
    os.replace(partial, target)
    sync_folder(target.parent)


def schema_of(domain: Domain) -> list[dict[str, Any]]:
    """The tools as JSON schemas of functions."""
    found = []
    for operation in domain.operations:
        properties: dict[str, Any] = {}
        for param in operation.params:
            if param.kind == "int":
                properties[param.name] = {"type": "integer", "minimum": param.low, "maximum": param.high}
            elif param.kind == "enum":
                properties[param.name] = {"type": "string", "enum": list(param.values)}
            else:
                table = domain.table[param.table]
                properties[param.name] = {
                    "type": "string", "pattern": f"^{table.letter}[0-9]+$", "description": f"id of a {table.noun}",
                }  # fmt: skip
        parameters = {
            "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
        }  # fmt: skip
        function = {"name": operation.name, "description": operation.doc, "parameters": parameters}
        found.append({"type": "function", "function": function})
    return found
