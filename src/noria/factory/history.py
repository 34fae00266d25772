"""Commits of a repository's own history, taken back on the tree of today: bugs that somebody once had."""

from __future__ import annotations

from collections.abc import Iterator

from noria.factory.candidate import Candidate, Site, rewrite

OPERATOR = "commit_reverted"
#: Lines that may differ at most.
MOST_LINES = 200


def taken_back(site: Site) -> Iterator[Candidate]:
    """The candidate of each commit that was found."""
    for revert in site.prepared.reverts:
        mutations = []
        for path, text in revert.files:
            source = site.source(path)
            if source is not None and source != text.encode():
                mutations.append(rewrite(OPERATOR, path, source, text.encode(), site.targets(path, source)))
        if mutations and sum(len(each.lines) for each in mutations) <= MOST_LINES:
            yield site.candidate(OPERATOR, mutations, commit=revert.commit)
