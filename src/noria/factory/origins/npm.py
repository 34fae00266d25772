"""A package of npm by name: `npm:NAME` or `npm:NAME@VERSION`; its tarball, no script of it runs."""

from __future__ import annotations

import re
from pathlib import Path

from noria.factory.origins.base import Fetched, Unfetched, client
from noria.factory.origins.pypi import unpack

_NAME = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*(@[A-Za-z0-9._+-]+)?")


class Npm:
    """The origin."""

    def claims(self, source: str) -> bool:
        """`npm:…`."""
        return source.startswith("npm:")

    def fetch(self, source: str, into: Path) -> Fetched:
        """The unpacked tarball."""
        name = source[4:]
        if not _NAME.fullmatch(name):
            raise Unfetched(f"a package is named NAME or NAME@VERSION: got {name}")
        client(["npm", "pack", "--silent", "--ignore-scripts", name], into)
        found = sorted(into.glob("*.tgz"))
        if not found:
            raise Unfetched(f"npm gave no tarball of {name}")
        got = unpack(found[0], into)
        bare = re.sub(r"(?<=.)@[^@/]*$", "", name)
        return Fetched(bare.replace("@", "").replace("/", "-"), got.folder, got.revision)


def build() -> Npm:
    """The origin."""
    return Npm()
