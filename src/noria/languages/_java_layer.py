"""Makes the dependency layer of a Java repository: jars of Debian's packages, JUnit 4 first, and our runner compiled.

    python _java_layer.py PACKAGE…

Runs in the layer's folder. Jars that this machine has below /usr/share/java are taken from there where apt gives none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

JARS = Path("jars")
_INSTALLED = Path("/usr/share/java")
_JUNIT = ("junit4.jar", "hamcrest.jar", "hamcrest-core.jar", "hamcrest-library.jar")


def main() -> None:
    JARS.mkdir()
    if (_INSTALLED / "junit4.jar").is_file() and len(sys.argv) == 1:
        for name in _JUNIT:
            if (_INSTALLED / name).is_file():
                shutil.copyfile(_INSTALLED / name, JARS / name)
    else:
        script = str(Path(__file__).with_name("_debian_layer.py"))
        words = [sys.executable, script, "junit4", "libhamcrest-java", *sys.argv[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr.strip()[-300:])
        for jar in Path("unpacked/usr/share/java").rglob("*.jar"):
            if jar.is_file() and not jar.is_symlink():
                shutil.copyfile(jar, JARS / jar.name)
        shutil.rmtree("unpacked")
    source = str(Path(__file__).with_name("_JUnitRunner.java"))
    words = ["javac", "--release", "11", "-cp", "jars/*", "-d", "runner", "-nowarn", source]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"javac: {done.stderr.strip()[-300:]}")


if __name__ == "__main__":
    main()
