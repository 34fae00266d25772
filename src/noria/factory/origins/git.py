"""A git repository: `git+URL` or `git+URL@REVISION`, or a folder that is one; its tree at one commit, no history."""

from __future__ import annotations

import re
from pathlib import Path

from noria.factory.origins.base import Fetched, Unfetched, client, unpack

_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


class Git:
    """The origin."""

    def claims(self, source: str) -> bool:
        """`git+…`, or a folder with `.git`."""
        return source.startswith("git+") or (Path(source).expanduser() / ".git").exists()

    def fetch(self, source: str, into: Path) -> Fetched:
        """The tree of a commit, HEAD unless one is named; what is not committed is left out."""
        url, revision = source.removeprefix("git+"), "HEAD"
        head, at, tail = url.rpartition("@")
        if source.startswith("git+") and at and "/" not in tail and ":" not in tail and _REVISION.fullmatch(tail):
            url, revision = head, tail
        if url.startswith("-"):
            raise Unfetched(f"a URL cannot begin with a dash: {url}")
        local = Path(url).expanduser()
        where = str(local.resolve()) if local.is_dir() else url
        name = re.sub(r"\.git$", "", url.rstrip("/").rpartition("/")[2]) or "repository"
        # A folder is cloned as well: what its own settings would have git run here is left behind.
        clone = into / "clone"
        client(["git", "clone", "--quiet", "--no-checkout", "--no-local", "--", where, str(clone)], into)
        for known in (revision, f"origin/{revision}"):
            try:
                commit = client(["git", "rev-parse", "--verify", f"{known}^{{commit}}"], clone).strip()
                break
            except Unfetched:
                continue
        else:
            raise Unfetched(f"{url} has no revision {revision}")
        tree, packed = into / "tree", into / "packed.tar"
        tree.mkdir()
        # Else what a repository leaves out of its releases, as often its tests, would be left out here.
        (clone / ".git" / "info" / "attributes").write_text("* -export-ignore -export-subst\n", encoding="utf-8")
        client(["git", "archive", "--format=tar", "--output", str(packed), commit], clone)
        unpack(packed, tree)
        return Fetched(local.resolve().name if not source.startswith("git+") else name, tree, commit, clone)


def build() -> Git:
    """The origin."""
    return Git()
