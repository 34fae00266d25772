"""TypeScript: packages of npm whose tests are TypeScript, turned into JavaScript file by file and run under Node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from noria.core.protocols import ExecResult
from noria.languages import _files, _node
from noria.languages.base import DEPS, SEALED, WORKSPACE, Layout, Status, Step

#: Where the JavaScript lies during a run.
COMPILED = "/tmp/compiled"


class TypeScript(_node.Node):
    """The plug-in. Types are not checked: a mistake shows only where it changes what runs."""

    name = "typescript"
    suffixes = (".ts", ".tsx", ".mts", ".cts")
    #: What was built of the sources would show the fix.
    caches = (*_node.Node.caches, "dist", "lib", "esm", "cjs", "es", "umd", "build")

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        package = _node.about(root)
        if package is None:
            return None
        found = _files.files(root)
        scripts = [path for path in _files.ending(found, self.suffixes) if ".d." not in Path(path).name]
        sources = [path for path in scripts if not _node.is_test(path) and "config" not in Path(path).name]
        if not sources:
            return None
        endings = (*self.suffixes, ".js", ".cjs", ".mjs")
        tests = [path for path in _files.ending(found, endings) if _node.is_test(path)]
        texts = {path: _files.text(root, path) for path in (*sources, *tests)}
        kinds = _node.kinds(texts, tests, package, True)
        if not kinds:
            raise _node.no_tests(package)
        wanted = _node.needs(list(texts.values()), package, ["typescript", *_node.more(kinds)])
        # The 5.x compiler is the last that is itself JavaScript.
        needs = tuple("typescript@5" if each.partition("@")[0] == "typescript" else each for each in wanted)
        name = str(package.get("name", root.name))
        facts = {"kinds": json.dumps(kinds), "package": name, SEALED: "1"}
        settings = [path for path in found if Path(path).name in _node.SETTINGS]
        return Layout(
            self.name, name, tuple(sources), tuple(tests), tuple(settings), needs, _node.HIDDEN,
            tuple(sorted(facts.items())),
        )  # fmt: skip

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """Compile all, and run the files that hold the chosen tests."""
        step = self.run(layout, tests, report, False, COMPILED)
        compile_ = shlex.join(["node", f"{DEPS}/_node_compile.cjs", WORKSPACE, COMPILED])
        return Step(("sh", "-c", f"{compile_} && exec {shlex.join(step.argv)}"), step.timeout_s, step.env)

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        return self.status(reports)


def build() -> TypeScript:
    """The plug-in."""
    return TypeScript()
