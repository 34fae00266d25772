"""Parts of the factory: journals, layers, origins, and what Python repositories tell."""

from __future__ import annotations

import hmac
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from small_repos import lay, shapes

from noria.factory.journal import Journal
from noria.factory.layers import Store, Unfit, copy_tree, digest_of
from noria.factory.origins import debian, folder, git, npm, pypi
from noria.factory.origins.base import Unfetched
from noria.languages._lines import unsealed
from noria.languages.base import Unusable
from noria.languages.python import build


def test_a_torn_line_of_a_journal_is_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path, {"seed": 1})
    journal.note("a", {"reason": "x"})
    journal.close()
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"key": "b", "rea')
    journal = Journal(tmp_path, {"seed": 1})
    assert set(journal.known) == {"a"}
    journal.note("b", {"reason": "y"})
    journal.close()
    assert set(Journal(tmp_path, {"seed": 1}).known) == {"a", "b"}


def test_trees_leave_out_histories_caches_and_links_that_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    shapes(root)
    lay(root, {".git/HEAD": "x", "node_modules/x.js": "x", "run.sh": "#!/bin/sh\n"})
    (root / "run.sh").chmod(0o700)
    (root / "inner").symlink_to("shapes/areas.py")
    (root / "outer").symlink_to("/etc/passwd")
    (root / "upper").symlink_to("../secret")
    lay(tmp_path, {"secret": "s"})
    copy_tree(root, tmp_path / "copy", ("__pycache__",))
    names = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert names == [
        "inner",
        "run.sh",
        "shapes",
        "shapes/__init__.py",
        "shapes/areas.py",
        "tests",
        "tests/test_areas.py",
    ]
    assert (tmp_path / "copy" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_a_tree_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noria.factory.layers.MOST_FILES", 2)
    with pytest.raises(Unfit, match="too large"):
        copy_tree(Path(shapes(tmp_path / "repo")), tmp_path / "copy", ())


def test_a_layer_is_stored_once_under_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = []
    for _ in range(2):
        with store.building() as place:
            lay(place, {"a/b.txt": "b", "c.txt": "c"})
            digests.append(store.keep(place, {"kind": "source"}))
    assert digests[0] == digests[1] == digest_of(store.root / digests[0])[0]
    assert sorted(path.name for path in store.root.iterdir()) == [digests[0], f"{digests[0]}.json"]
    (store.root / digests[0] / "c.txt").chmod(0o755)
    assert digest_of(store.root / digests[0])[0] != digests[0]


def test_the_layout_of_a_repository(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    shapes(root)
    lay(root, {"pyproject.toml": '[project]\nname = "Shapes.Of"\nversion = "1.2"\ndependencies = ["attrs>=20"]\n',
               "tests/conftest.py": "import yaml\n", "setup.py": "", "docs/x.py": ""})  # fmt: skip
    found = build().detect(root)
    assert found is not None
    assert found.name == "Shapes.Of" and found.sources == ("shapes/__init__.py", "shapes/areas.py")
    assert found.tests == ("tests/conftest.py", "tests/test_areas.py")
    assert found.settings == ("pyproject.toml", "setup.py") and found.needs == ("pytest", "attrs>=20", "PyYAML")
    python = build()
    steering = (
        "conftest.py",
        "tests/data.txt",
        "json.py",
        "pytest/__init__.py",
        "setup.cfg",
        "x.pth",
        "shapes/conftest.py",
    )
    assert [path for path in steering if not python.steers(found, path)] == []
    assert not any(
        python.steers(found, path) for path in ("shapes/areas.py", "shapes/new.py", "README.md", "data.json")
    )


def test_repositories_without_tests_or_of_the_runner_are_unusable(tmp_path: Path) -> None:
    assert build().detect(Path(lay(tmp_path / "c", {"main.c": ""}))) is None
    with pytest.raises(Unusable, match="no tests"):
        build().detect(Path(lay(tmp_path / "a", {"a.py": ""})))
    with pytest.raises(Unusable, match="no sources"):
        build().detect(Path(lay(tmp_path / "b", {"tests/test_a.py": ""})))
    with pytest.raises(Unusable, match="part of the test runner"):
        build().detect(Path(lay(tmp_path / "d", {"pluggy/__init__.py": "", "tests/test_a.py": ""})))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys\nsys.modules['_pytest.runner']", "_pytest.runner, sys.modules"),
        ("import sys as s\nm = s\n", "sys"),
        ("import logging\nlogging.sys.modules", "logging.sys"),
        ("from .compat import sys as s\ns.modules", "sys.modules"),
        ("from sys import _getframe as g", "sys._getframe"),
        ("import json\njson.dumps = len", "json.dumps ="),
        ("import json.encoder as e\ndel e.JSONEncoder.encode", "json.encoder.encode ="),
        ("import hmac\nsetattr(hmac, 'new', len)", "setattr(hmac)"),
        ("from importlib import import_module as i\ni('x')\ni(a + b)", "import_module"),
        ("import importlib\nimportlib.import_module('sys'), __import__(a)", "__import__, import_module"),
        ("def f(e, test):\n    return e.tb_frame.f_back, test.__globals__", "__globals__, f_back, tb_frame"),
        ("def f(x):\n    return getattr(x, '__subclasses__'), exec('1'), open('/proc/self/mem')",
         "/proc/self/mem, __subclasses__, exec"),
        ("import gc, inspect\ngc.get_objects(), inspect.stack()", "gc.get_objects, inspect.stack"),
        ("import runpy\nfrom importlib.util import spec_from_file_location as s\ns('a', 'b.txt').loader.exec_module(1)",
         "exec_module, importlib.util.spec_from_file_location, runpy"),
        ("import pytest\nimport os\nx = os.environ.get('PYTEST_CURRENT_TEST')", "PYTEST_CURRENT_TEST, pytest"),
    ],
)  # fmt: skip
def test_code_that_reaches_for_the_runner_is_named(code: str, words: str) -> None:
    assert build().tampers("x = 1\n", code) == words
    assert build().tampers(code, f"{code}\nx = 2\n") == ""


def test_code_that_speaks_or_ends_is_not() -> None:
    honest = (
        "import atexit, gc, importlib.metadata, inspect, os, signal, sys\n\n\nclass Shelf:\n    def __init__(self):\n"
        "        self.__dict__['x'] = inspect.signature(len)\n\n    def leave(self):\n        # sys.modules, eval()\n"
        "        print('unittest', sys.argv, os.environ['HOME'], file=sys.stderr)\n        atexit.register(print)\n"
        "        gc.collect()\n        signal.signal(signal.SIGINT, signal.SIG_IGN)\n        sys.exit(os._exit(1))\n"
    )
    assert build().tampers("", "def f(gc):\n    return gc\n") == ""
    assert build().tampers("", honest) == "" and build().tampers("", "def (") == ""


def test_a_sealed_report_holds_what_its_runner_wrote_alone() -> None:
    key = b"k"

    def line(number: int, text: str) -> bytes:
        return hmac.new(key, f"{number}:{text}".encode(), "sha256").hexdigest().encode() + b" " + text.encode()

    told = [line(0, '{"id": "a", "status": "fail"}'), line(1, '{"end": 1}')]
    assert unsealed(b"\n".join(told) + b"\n", key) == b'{"id": "a", "status": "fail"}\n{"end": 1}'
    planted = [b'{"id": "a", "status": "pass"}', told[0], told[0], line(7, "{}"), told[1]]
    assert unsealed(b"\n".join(planted), key) == b'{"id": "a", "status": "fail"}\n{"end": 1}'
    assert unsealed(told[1], key) == b"" and unsealed(b"\n".join(told), b"other") == b""


def test_a_commit_is_taken_without_its_history(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    shapes(root)
    words = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*words, *command], check=True)
    (root / "shapes" / "areas.py").write_text("later\n")
    (tmp_path / "into").mkdir()
    assert git.build().claims(str(root)) and not git.build().claims(str(tmp_path))
    found = git.build().fetch(str(root), tmp_path / "into")
    assert found.name == "repo" and len(found.revision) == 40
    assert "later" not in (found.folder / "shapes" / "areas.py").read_text() and not (found.folder / ".git").exists()
    with pytest.raises(Unfetched, match="cannot begin with a dash"):
        git.build().fetch("git+--upload-pack=x", tmp_path / "into")


def test_an_archive_is_unpacked_and_cannot_lead_out(tmp_path: Path) -> None:
    for name, inner in (("sound-1.0.tar.gz", "sound-1.0/a.py"), ("unsound-1.0.tar.gz", "../a.py")):
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            about = tarfile.TarInfo(inner)
            about.size = 1
            archive.addfile(about, io.BytesIO(b"1"))
        (tmp_path / name[:3]).mkdir()
    found = pypi.build().fetch(str(tmp_path / "sound-1.0.tar.gz"), tmp_path / "sou")
    assert found.name == "sound" and (found.folder / "a.py").read_text() == "1" and found.revision.startswith("sha256:")
    with pytest.raises(Unfetched, match="cannot be unpacked"):
        pypi.build().fetch(str(tmp_path / "unsound-1.0.tar.gz"), tmp_path / "uns")


def test_pip_says_where_packages_are_where_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "_said", lambda *words: "https://index.example/simple" if words[0] == "-c" else "")
    for key in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(key, raising=False)
    assert pypi._indexes() == ["https://index.example/simple"]
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///a file:///b")
    assert pypi._indexes() == ["https://index.example/simple", "file:///a", "file:///b"]
    monkeypatch.undo()
    assert pypi._said("-c", pypi._DEFAULT).startswith("https://") and pypi._said("-c", "1/0") == ""


def test_an_index_of_this_machine_gives_the_newest_sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "simple" / "sound"
    page.mkdir(parents=True)
    for version in ("1.9", "1.10", "2.0rc1"):
        with tarfile.open(page / f"sound-{version}.tar.gz", "w:gz") as archive:
            about = tarfile.TarInfo(f"sound-{version}/VERSION")
            about.size = len(version)
            archive.addfile(about, io.BytesIO(version.encode()))
    links = [f'<a href="sound-{version}.tar.gz">x</a>' for version in ("1.9", "1.10", "2.0rc1")]
    (page / "index.html").write_text("\n".join([*links, '<a href="sound-3-py3-none-any.whl">x</a>']))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "other").as_uri())
    for source, version in (("pypi:Sound", "1.10"), ("pypi:sound==2.0rc1", "2.0rc1")):
        into = tmp_path / version
        into.mkdir()
        assert (pypi.build().fetch(source, into).folder / "VERSION").read_text() == version
    with pytest.raises(Unfetched, match="no sdist"):
        pypi.build().fetch("pypi:sound==9", tmp_path / "1.10")
    with pytest.raises(Unfetched, match="NAME or NAME==VERSION"):
        pypi.build().fetch("pypi:--index-url=x", tmp_path / "1.10")


def test_a_debian_source_comes_without_its_packaging(tmp_path: Path) -> None:
    root = lay(tmp_path / "x-1.0", {"debian/control": "Source: x\n", "debian/changelog": "x (1.0-2) unstable\n",
                                    "debian/patches/fix.patch": "p", "x.c": "c"})  # fmt: skip
    (tmp_path / "into").mkdir()
    assert debian.build().claims(root) and debian.build().claims("debian:any")
    found = debian.build().fetch(f"debian:{root}", tmp_path / "into")
    assert (found.name, found.revision) == ("x", "1.0-2")
    assert [path.name for path in found.folder.iterdir()] == ["x.c"]


def test_names_of_packages_are_no_options(tmp_path: Path) -> None:
    assert npm.build().claims("npm:minimist") and not folder.build().claims("minimist")
    with pytest.raises(Unfetched, match="NAME or NAME@VERSION"):
        npm.build().fetch("npm:--registry=x", tmp_path)
