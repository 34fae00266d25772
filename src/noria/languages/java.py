"""Java: sources that javac compiles by itself, and tests of JUnit 4 or 3. No build tool runs."""

from __future__ import annotations

import glob
import math
import re
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from noria.core.protocols import ExecResult
from noria.languages import _files
from noria.languages._lines import NAME, Lines, unsealed
from noria.languages._reach import reached
from noria.languages.base import DEPS, GIVEN, SEALED, SLOWEST, Layout, Status, Step, Unusable

SUITE_S, TEST_S = 600.0, 30.0
BUILD = ".noria-classes"
_SETTINGS = frozenset(
    {"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "build.xml", "module-info.java"}
)
#: Where sources and tests lie: the first pair of which both are there.
_ROOTS = (("src/main/java", "src/test/java"), ("src/java", "src/test"), ("src", "test"), ("src", "tests"))
_PACKAGE = re.compile(r"(?m)^\s*package\s+([\w.]+)\s*;")
_TESTED = re.compile(r"@(org\.junit\.)?Test\b|extends\s+\w*TestCase\b")
_ABSTRACT = re.compile(r"(?m)^\s*(public\s+)?abstract\s+(public\s+)?class\b")
_FIVE = re.compile(r"import\s+(static\s+)?org\.junit\.jupiter\b|import\s+org\.testng\b")
#: Start of an imported name -> the Debian package that has it.
_PACKAGES = {
    "org.apache.commons.lang3": "libcommons-lang3-java", "org.apache.commons.io": "libcommons-io-java",
    "org.apache.commons.codec": "libcommons-codec-java", "com.google.common": "libguava-java",
    "org.apache.commons.collections4": "libcommons-collections4-java", "org.slf4j": "libslf4j-java",
}  # fmt: skip
_REACHING = re.compile(
    r"\b(org\.junit|junit\.framework|System\.(?:exit|setOut|setErr)|Runtime|ProcessBuilder|"
    r"java\.lang\.(?:reflect|instrument|invoke|management)|setAccessible|Unsafe|sun\.misc|StackTrace\w*|StackWalker|"
    r"getAllStackTraces|ThreadGroup|ClassLoader|SecurityManager|addShutdownHook|FileOutputStream|FileWriter|RandomAccessFile|"
    r"java\.nio\.file|native|_JUnitRunner|"
    # classes of a package come before those that its tests import by a star, and before those of java.lang
    r"(?:class|interface|enum|record)\s+(?:Assert|Assume|TestCase|Test|Before|After|Rule|Object|String|Math|Objects|Arrays|"
    r"Integer|Long|Double|Boolean|Character|Throwable))\b"
)
_ESCAPE = re.compile(r"\\u+([0-9a-fA-F]{4})")


class Java(Lines):
    """The plug-in. A changed source is compiled with all others; tests are compiled once."""

    name = "java"
    suffixes = (".java",)
    watched = suffixes
    key = ".key"
    caches = ("*.class", "target", ".gradle")
    built = (f"{BUILD}/",)

    def missing(self) -> str | None:
        """See `Language`."""
        lacking = [program for program in ("javac", "java") if shutil.which(program) is None]
        if lacking:
            return f"{lacking[0]} is missing: install a JDK, 11 or newer"
        if shutil.which("apt-get") is None and not Path("/usr/share/java/junit4.jar").is_file():
            return "JUnit 4 is missing: put junit4.jar and hamcrest.jar below /usr/share/java"
        return None

    def shows(self, deps: Path) -> tuple[tuple[str, str], ...]:
        """See `Showing`: Debian keeps the settings of its JDKs below /etc."""
        return tuple((path, path) for path in sorted(glob.glob("/etc/java-*-openjdk")))

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        java = _files.ending(_files.files(root), self.suffixes)
        if not java:
            return None
        base = next(
            (pair for pair in _ROOTS if all(any(path.startswith(f"{each}/") for path in java) for each in pair)), None
        )
        if base is None:
            raise Unusable("it has no tests: none of src/main/java with src/test/java, or src with test")
        tests = tuple(path for path in _files.files(root) if path.startswith(f"{base[1]}/"))
        sources = tuple(path for path in java if path.startswith(f"{base[0]}/") and path not in tests)
        sources = tuple(path for path in sources if Path(path).name not in (*_SETTINGS, "package-info.java"))
        texts = {path: _files.text(root, path) for path in (*sources, *tests) if path.endswith(".java")}
        classes = [
            path
            for path in tests
            if path in texts and _TESTED.search(texts[path]) and not _ABSTRACT.search(texts[path])
        ]
        if any(_FIVE.search(text) for text in texts.values()):
            raise Unusable("its tests run under JUnit 5 or TestNG: JUnit 4 and 3 are known")
        if not classes:
            raise Unusable("it has no tests of JUnit 4 or 3")
        if not sources:
            raise Unusable(f"it has no sources below {base[0]}")
        imported = "\n".join(texts.values())
        own = {found[1] for path in sources if (found := _PACKAGE.search(texts[path])) is not None}
        foreign = {key: name for key, name in _PACKAGES.items() if not any(each.startswith(key) for each in own)}
        needs = sorted(
            package
            for start, package in foreign.items()
            if re.search(rf"import\s+(static\s+)?{re.escape(start)}\.", imported)
        )
        facts = {"main": base[0], "test": base[1], "classes": "\n".join(classes), SEALED: "1"}
        settings = tuple(path for path in _files.files(root) if Path(path).name in _SETTINGS)
        hidden = ("/usr/share/java", "/usr/share/maven-repo")
        return Layout(
            self.name, root.name, sources, tests, settings, tuple(needs), hidden, tuple(sorted(facts.items()))
        )

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_java_layer`."""
        script = str(Path(__file__).with_name("_java_layer.py"))
        return (Step((sys.executable, script, *layout.needs), 600.0, place="outside"),)

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """Compile what has changed since the classes were made, and run the classes that hold the chosen tests."""
        main, test = layout.fact("main"), layout.fact("test")
        jars, light = f"{DEPS}/jars/*", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m"
        javac = f"javac {' '.join(f'-J{word}' for word in light.split())} -proc:none -nowarn -encoding UTF-8 -g"
        said = "> /tmp/said 2>&1 || { grep -m 5 'error:' /tmp/said >&2; exit 3; }"
        path = shlex.quote(
            f"{DEPS}/runner:{jars}:{BUILD}/test:{BUILD}/main:{test}:src/test/resources:src/main/resources:{main}"
        )
        limit_s = max(5, math.ceil(float(layout.fact(SLOWEST, str(TEST_S)))))
        words = "\n".join([
            f"""made() {{ [ -f {BUILD}/$1.list ] && find "$2" -name '*.java' | sort | cmp -s - {BUILD}/$1.list && """
            f"""[ -z "$(find "$2" -name '*.java' -newer {BUILD}/$1.list)" ]; }}""",
            f"mkdir -p {BUILD}",
            """listed() { find "$1" -name '*.java' ! -name module-info.java -printf '"%p"\\n'; }""",
            f"if ! made main {main}; then rm -rf {BUILD}/main; listed {main} > /tmp/list",
            f"{javac} -cp {shlex.quote(jars)} -d {BUILD}/main @/tmp/list {said}",
            f"find {main} -name '*.java' | sort > {BUILD}/main.list; fi",
            f"if ! made test {test}; then rm -rf {BUILD}/test; listed {test} > /tmp/list",
            f"{javac} -cp {shlex.quote(f'{BUILD}/main:{jars}')} -d {BUILD}/test @/tmp/list {said}",
            f"find {test} -name '*.java' | sort > {BUILD}/test.list; fi",
            f"exec java {light} -cp {path} _JUnitRunner {report}/{NAME} {limit_s} {report}/{GIVEN} > /dev/null",
        ])  # fmt: skip
        env = (("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("PATH", "/usr/local/bin:/usr/bin:/bin"))
        return Step(("sh", "-c", words), SUITE_S, env, given=self._chosen(layout, tests))

    def _chosen(self, layout: Layout, tests: Sequence[str] | None) -> str:
        """Lines for the runner: file, class, and the methods that are wanted where not all are."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for test in tests or ():
            path, _, name = test.partition("::")
            wanted[path].add(re.sub(r"#\d+$", "", name))
        found: list[str] = []
        for path in layout.fact("classes").split("\n"):
            if tests is None or path in wanted:
                inside = path.removeprefix(f"{layout.fact('test')}/").removesuffix(".java").replace("/", ".")
                found.append("\t".join([path, inside, *sorted(wanted.get(path, ()))]))
        return "\n".join(found)

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, what steers the build, and classes that lie about."""
        known = path in layout.tests or path in layout.settings
        below = path.startswith((f"{layout.fact('test')}/", BUILD, "src/test/")) or path.endswith((".class", ".jar"))
        return known or below or Path(path).name in _SETTINGS

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`: a sign may be written by its number."""
        before, after = (_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) for text in (before, after))
        return ", ".join(sorted(reached(_REACHING, before, after)))

    def seals(self, layout: Layout) -> bool:
        """See `Sealing`."""
        return bool(layout.fact(SEALED))

    def unsealed(self, reports: Mapping[str, bytes], key: bytes) -> Mapping[str, bytes]:
        """See `Sealing`."""
        return {path: unsealed(data, key) for path, data in reports.items()}

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        return self.status(reports)


def build() -> Java:
    """The plug-in."""
    return Java()
