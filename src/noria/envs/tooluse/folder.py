"""A folder of made domains: one folder each, whole once it has its name."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from noria.core.codec import from_json
from noria.core.errors import UserError
from noria.envs.tooluse.emit import source_of
from noria.envs.tooluse.spec import Domain
from noria.envs.tooluse.typing_rules import faults_in

SPEC, BACKEND, SCHEMA, GOALS, TESTS = "spec.json", "backend.py", "tools.json", "goals.jsonl", "test_backend.py"
DOMAINS, LOG, REPORT = "domains", "candidates.jsonl", "report.json"


def load_domains(folder: Path) -> list[Domain]:
    """The domains of a folder, in the order of their names.

    A specification is checked and emitted anew, and the backend beside it must be that text: no code is taken from
    the folder.

    Raises:
        UserError: no such folder, or a domain in it is not what was made.
    """
    return list(_loaded(folder.resolve()))


@lru_cache(maxsize=8)
def _loaded(folder: Path) -> tuple[Domain, ...]:
    specs = sorted((folder / DOMAINS).glob(f"*/{SPEC}"))
    if not specs:
        raise UserError(
            f"folder must hold made domains: got {str(folder)!r} - run `noria tasks make tooluse --out FOLDER` first"
        )
    return tuple(load_domain(path.parent) for path in specs)


def load_domain(folder: Path) -> Domain:
    """One domain. Raises UserError as `load_domains`."""
    try:
        domain = from_json(Domain, json.loads((folder / SPEC).read_text(encoding="utf-8")))
        text = (folder / BACKEND).read_text(encoding="utf-8")
    except (OSError, ValueError, TypeError, KeyError) as fault:
        raise UserError(f"folder must hold whole domains: {folder} is damaged ({fault}) - make it anew") from None
    faults = faults_in(domain)
    if faults or source_of(domain) != text:
        why = faults[0] if faults else f"{BACKEND} is not what {SPEC} emits"
        raise UserError(f"folder must hold domains as they were made: {folder}: {why} - make it anew")
    return domain
