"""Makes the dependency layer of a Go repository: modules below `modules`, as the module proxy gives them.

    python _go_layer.py '{"needs": ["example.org/x@v1.2.3"], "go": "/path/of/go"}'

Runs in the layer's folder. `go mod download` fetches and unpacks; it builds nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = Path("modules")


def main() -> None:
    given = json.loads(sys.argv[1])
    MODULES.mkdir()
    (MODULES / ".keep").touch()
    programs = Path("bin")
    programs.mkdir()
    program = programs / "go"
    program.write_text(f'#!/bin/sh\nGOMODCACHE=/deps/modules GOTOOLCHAIN=local exec {given["inside"]}/bin/go "$@"\n')
    program.chmod(0o755)
    if not given["needs"]:
        return
    with tempfile.TemporaryDirectory() as place:
        Path(place, "go.mod").write_text("module needs\n\ngo 1.20\n")
        env = {**os.environ, "GOMODCACHE": os.path.abspath(MODULES), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
        words = [given["go"], "mod", "download", *given["needs"]]
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(" ".join((done.stderr or done.stdout).split())[-400:])


if __name__ == "__main__":
    main()
