"""JavaScript: packages of npm whose tests run under Node, with node:test, tape, mocha or plain assertions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from noria.core.protocols import ExecResult
from noria.languages import _files, _node
from noria.languages.base import SEALED, WORKSPACE, Layout, Status, Step, Unusable


class JavaScript(_node.Node):
    """The plug-in. A file of tests is a process: those that fail are run with the others of their file."""

    name = "javascript"
    suffixes = (".js", ".cjs", ".mjs", ".jsx")
    #: What was built of the sources would show the fix.
    caches = (*_node.Node.caches, "dist", "umd", "*.min.js", "*.min.mjs", "*.js.map")

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        package = _node.about(root)
        if package is None:
            return None
        scripts = [path for path in _files.ending(_files.files(root), self.suffixes) if not path.endswith(".min.js")]
        tests = [path for path in scripts if _node.is_test(path)]
        sources = [path for path in scripts if path not in tests and "config" not in Path(path).name]
        if not scripts:
            return None
        texts = {path: _files.text(root, path) for path in scripts}
        kinds = _node.kinds(texts, tests, package, False)
        if not kinds:
            raise _node.no_tests(package)
        if not sources:
            raise Unusable("it has no sources: nothing but tests and what is left out as built or as an example")
        wanted = _node.needs([texts[path] for path in (*sources, *tests)], package, _node.more(kinds))
        name = str(package.get("name", root.name))
        facts = {"kinds": json.dumps(kinds), "package": name, SEALED: "1"}
        settings = [path for path in _files.files(root) if Path(path).name in _node.SETTINGS]
        return Layout(
            self.name, name, tuple(sources), tuple(tests), tuple(settings), wanted, _node.HIDDEN,
            tuple(sorted(facts.items())),
        )  # fmt: skip

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """See `Language`."""
        return self.run(layout, tests, report, False, WORKSPACE)

    def coverage(self, layout: Layout, report: str) -> Step:
        """See `Covering`: by V8 itself, so that it costs little."""
        return self.run(layout, None, report, True, WORKSPACE)

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        return self.status(reports)


def build() -> JavaScript:
    """The plug-in."""
    return JavaScript()
