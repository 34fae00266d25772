"""All families by name, by domain, and those that only the split `unseen` has."""

from __future__ import annotations

from collections.abc import Mapping

from noria.envs.claw import analysis, databases, documents, refactors, scripts
from noria.envs.claw.job import Family

DOMAINS: Mapping[str, Mapping[str, Family]] = {
    "documents": documents.FAMILIES,
    "databases": databases.FAMILIES,
    "analysis": analysis.FAMILIES,
    "scripts": scripts.FAMILIES,
    "refactors": refactors.FAMILIES,
}
FAMILIES: Mapping[str, Family] = {name: make for domain in DOMAINS.values() for name, make in domain.items()}
#: Families that neither training nor held-out tasks use.
UNSEEN = frozenset(("collect_todos", "drop_orphans", "largest_rise", "extract_constant"))
