"""A Python sdist by name: `pypi:NAME` or `pypi:NAME==VERSION`, or an archive of this machine."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from noria.factory.origins import base
from noria.factory.origins.base import FETCH_S, Fetched, Unfetched, digest_of

#: Prints where pip looks unless it was set up otherwise.
_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
#: The form of an index's page.
_ACCEPT = {"Accept": "text/html"}
MOST_BYTES = 256 << 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9._+!-]+)?")


class Pypi:
    """The origin."""

    def claims(self, source: str) -> bool:
        """`pypi:…`, or a file that ends as sdists do."""
        return source.startswith("pypi:") or source.endswith((".tar.gz", ".tgz"))

    def fetch(self, source: str, into: Path) -> Fetched:
        """The unpacked sdist; nothing of it is built."""
        archive = Path(source).expanduser() if not source.startswith("pypi:") else self._download(source[5:], into)
        if not archive.is_file():
            raise Unfetched(f"there is no file {source}")
        return unpack(archive, into)

    def _download(self, name: str, into: Path) -> Path:
        """The newest sdist, or that of a version. pip would run the package's own code to learn its metadata."""
        if not _NAME.fullmatch(name):
            raise Unfetched(f"a project is named NAME or NAME==VERSION: got {name}")
        project, _, version = name.partition("==")
        found: dict[tuple[Any, ...], str] = {}
        faults: list[str] = []
        for index in _indexes():
            page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', project).lower()}/"
            try:
                listed = _get(f"{page}index.html" if page.startswith("file:") else page).decode("utf-8", "replace")
            except OSError as fault:
                faults.append(str(fault)[:100])
                continue
            for link in re.findall(r'href="([^"]+)"', listed):
                url = urllib.parse.urljoin(page, html.unescape(link))
                got = _version(url, project)
                if got is not None and (not version or got == version):
                    found.setdefault(_order(got), url)
        if not found:
            raise Unfetched(f"{name} has no sdist at the package index{f' ({faults[0]})' if faults else ''}")
        url, _, digest = found[max(found)].partition("#sha256=")
        place = into / urllib.parse.unquote(url.rpartition("/")[2])
        try:
            place.write_bytes(_get(url))
        except OSError as fault:
            raise Unfetched(f"{name} could not be downloaded: {str(fault)[:200]}") from fault
        if digest and digest_of(place) != digest:
            raise Unfetched(f"{name} is not what the package index promised: its digest differs")
        return place


def _indexes() -> list[str]:
    """The package indexes that pip is set up with, or the one that it knows itself; none where there is no pip."""
    found: list[str] = []
    for key in ("index-url", "extra-index-url"):
        given = os.environ.get(f"PIP_{key.upper().replace('-', '_')}", "")
        for where in (f"install.{key}", f"global.{key}"):
            given = given or _said("-m", "pip", "config", "get", where)
        if key == "index-url":
            given = given or _said("-c", _DEFAULT)
        found += given.split()
    return found


def _said(*words: str) -> str:
    """What this Python prints on being run so; nothing where it fails."""
    try:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _get(url: str) -> bytes:
    """What lies at a URL. Raises OSError."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=_ACCEPT), timeout=FETCH_S) as answer:
        data: bytes = answer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"more than {MOST_BYTES >> 20} MiB")
    return data


def _version(url: str, project: str) -> str | None:
    """The version of an sdist of the project, None where the link is something else."""
    file = urllib.parse.unquote(url.partition("#")[0].rpartition("/")[2])
    name, _, version = file.removesuffix(".tar.gz").rpartition("-")
    same = re.sub(r"[-_.]+", "-", name).lower() == re.sub(r"[-_.]+", "-", project).lower()
    return version if file.endswith(".tar.gz") and same and re.fullmatch(r"[0-9][0-9A-Za-z.+!]*", version) else None


def _order(version: str) -> tuple[Any, ...]:
    """Releases after what comes before a release, then by their numbers (PEP 440, as far as releases need it)."""
    plain = re.fullmatch(r"[0-9.]+(\.?post[0-9]+)?", version) is not None
    return (plain, tuple(int(part) for part in re.findall(r"[0-9]+", version)), version)


def unpack(archive: Path, into: Path) -> Fetched:
    """The one folder that an archive holds. Raises Unfetched where it is unsound or leads outside."""
    tree = into / "tree"
    tree.mkdir(exist_ok=True)
    try:
        base.unpack(archive, tree)
    except Unfetched as fault:
        raise Unfetched(f"{archive.name}: {fault}") from fault
    inner = [path for path in tree.iterdir() if path.is_dir()]
    folder = inner[0] if len(inner) == 1 else tree
    name = re.sub(r"-\d[^-]*$", "", re.sub(r"\.(tar\.gz|tgz)$", "", archive.name))
    return Fetched(name, folder, f"sha256:{digest_of(archive)}")


def build() -> Pypi:
    """The origin."""
    return Pypi()
