"""Makes the dependency layer of a Rust repository: crates as sources, and `cargo` on its path.

    python _rust_layer.py '{"needs": ["memchr = \\"2\\"", …], "names": ["memchr"], "without": "strsim"}'

Runs in the layer's folder. `cargo vendor` fetches crates where their registry can be reached; otherwise Debian's
packages of their sources are unpacked. No build script runs here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VENDOR = Path("vendor")
#: Crates come from the layer.
_HERE = """--config 'source.crates-io.replace-with="layer"' --config 'source.layer.directory="/deps/vendor"' """


def main() -> None:
    given = json.loads(sys.argv[1])
    VENDOR.mkdir()
    if given["needs"] and not _vendored(given["needs"]):
        _debian(given["names"])
    for folder in VENDOR.glob(f"{given['without']}*"):
        if folder.name.removeprefix(given["without"])[:2].lstrip("-").isdigit() or folder.name == given["without"]:
            shutil.rmtree(folder)
    (VENDOR / ".keep").touch()
    programs = Path("bin")
    programs.mkdir()
    toolchain = given["toolchain"]
    for name in ("cargo", "rustc", "rustdoc"):
        words = _HERE if name == "cargo" else ""
        _program(programs / name, f'#!/bin/sh\nPATH="{toolchain}:$PATH" exec {toolchain}/{name} {words}"$@"\n')


def _program(place: Path, text: str) -> None:
    place.write_text(text)
    place.chmod(0o755)


def _vendored(needs: list[str]) -> bool:
    """Whether cargo could fetch all of them."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "src").mkdir()
        Path(place, "src", "lib.rs").touch()
        head = '[package]\nname = "needs"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n'
        Path(place, "Cargo.toml").write_text(head + "\n".join(needs) + "\n")
        words = ["cargo", "vendor", "--quiet", "--versioned-dirs", os.path.abspath(VENDOR)]
        env = {**os.environ, "CARGO_NET_RETRY": "0", "CARGO_HTTP_TIMEOUT": "20"}
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        return done.returncode == 0


def _debian(names: list[str]) -> None:
    packages = [f"librust-{name.replace('_', '-').lower()}-dev" for name in names]
    script = str(Path(__file__).with_name("_debian_layer.py"))
    done = subprocess.run([sys.executable, script, *packages], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"neither the registry of crates nor Debian gave {', '.join(names)}: {done.stderr.strip()[:300]}")
    for folder in Path("unpacked/usr/share/cargo/registry").glob("*"):
        shutil.move(str(folder), str(VENDOR / folder.name))
    shutil.rmtree("unpacked")


if __name__ == "__main__":
    main()
