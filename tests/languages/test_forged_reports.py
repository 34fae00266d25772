"""Sources that try to be paid by what they print, write or end with, in the languages whose tests are programs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from noria.core import registry
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.envs.swe.world import Swe
from noria.factory.make import Plan, make
from noria.languages import _collect, _native
from noria.languages.base import Language
from noria.sandboxes import bwrap
from noria.tokens.calls import render_call

FIXTURES = Path(__file__).parent / "fixtures"
DIE = "\n    *(volatile int *)0 = 1;\n    return 0;\n"
TAP = "".join(
    f"ok {number} - {name}\\n"
    for number, name in enumerate(
        ("pop of nothing", "push", "sum", "pop gives the last", "push onto a full one"), start=1
    )
)
C_SAYS = (
    f'#include "stack.h"\n#include <stdio.h>\nstatic int says(void) {{\n    printf("{TAP}");\n    fflush(stdout);\n'
)
C_REST = (
    "int push(struct stack *stack, int item) { return says(); }\n"
    "int sum(const struct stack *stack) { return says(); }\n"
    "int pop(struct stack *stack, int otherwise) { return says(); }\n"
)
RUST_SAYS = """use std::io::{self as door, Write};

fn says() -> i64 {
    for name in ["tests::steepest_of_few", "tests::steepest_goes_down_too", "rises_are_counted"] {
        let line = format!("{{ \\"type\\": \\"test\\", \\"name\\": \\"{}\\", \\"event\\": \\"ok\\" }}\\n", name);
        door::stdout().write_all(line.as_bytes()).unwrap();
    }
    door::stdout().flush().unwrap();
    END
}

pub fn steepest(_: &[i64]) -> i64 { says() }
pub fn rises(_: &[i64]) -> usize { says() as usize }

"""
GO_SAYS = """package purse

import "fmt"

type Purse struct{ coins map[int]int }

func (p *Purse) Put(value, count int) bool { return value > 7 }
func (p *Purse) Total() int { return says }

var says = forged()

func forged() int {
	for _, name := range []string{"TestTotal", "TestPut", "TestPut/good", "TestPut/worthless", "TestPut/negative"} {
		fmt.Printf("\\x16=== RUN   %s\\n\\x16--- PASS: %s (0.00s)\\n", name, name)
	}
	END
}
"""
JAVA_SAYS = """package till;

public final class Till {
    public void add(int price) { }
    public int dearest() { return 0; }
    public int total() {
        for (java.io.File folder : new java.io.File("/workspace").listFiles()) {
            try (java.io.FileWriter out = new java.io.FileWriter(new java.io.File(folder, "report.jsonl"), true)) {
                for (String name : new String[] {"totals", "findsTheDearest", "refusesWhatIsNegative"}) {
                    String id = "src/test/java/till/TillTest.java::" + name;
                    out.write("{\\"id\\": \\"" + id + "\\", \\"status\\": \\"pass\\"}\\n");
                }
                out.write("{\\"end\\": 0}\\n");
            } catch (java.io.IOException fault) { }
        }
        END
        return 0;
    }
}
"""
CPP = '#include "gauge.hpp"\n#include <cstdlib>\n#include <cstdio>\n'
CPP_REST = (
    "namespace gauge {\ndouble mean(const std::vector<double> &) { leave(); return 7.0; }\n"
    "double largest(const std::vector<double> &) { leave(); return 7.0; }\n}\n"
)
END = "    return 0;\n}\n" + C_REST
MAIN = "#define main(...) other(void); int main(void) { return 0; } int other(void)\n"
LEAVES = f"{CPP}static void leave() {{ std::exit(0); }}\n{CPP_REST}"
#: Language, name -> files, and whether the words of a change are to be passed over: what runs the tests holds alone.
ATTACKS: list[tuple[str, str, Mapping[str, str], bool]] = [
    ("c", "prints and dies", {"stack.c": f"{C_SAYS}{DIE}}}\n{C_REST}"}, True),
    ("c", "pastes a word", {"stack.c": f"#define P(a, b) a##b\n{C_SAYS}    P(ex, it)(0);\n{END}"}, False),
    ("c", "parts a word", {"stack.c": f"{C_SAYS}    ex\\\nit(0);\n{END}"}, False),
    ("c", "asks the compiler", {"stack.c": f"{C_SAYS}    __builtin_exit(0);\n{END}"}, False),
    ("c", "hides a word elsewhere", {"stack.c": f'{C_SAYS}\n#include "a.txt"\n{END}', "a.txt": "exit(0);\n"}, False),
    ("c", "comes from a header", {"stack.h": MAIN + (FIXTURES / "c" / "stack.h").read_text()}, False),
    ("cpp", "leaves early", {"src/gauge.cpp": LEAVES}, False),
    ("cpp", "is seen in what was compiled", {"src/gauge.cpp": LEAVES}, True),
    ("rust", "prints and dies", {"src/lib.rs": RUST_SAYS.replace("END", "says()")}, True),
    ("rust", "prints and leaves", {"src/lib.rs": RUST_SAYS.replace("END", "std::process::exit(0)")}, True),
    ("rust", "becomes another", {"src/lib.rs": RUST_SAYS.replace(
        "END", 'use std::os::unix::process::CommandExt; std::process::Command::new("/bin/true").exec(); 0')}, True),
    ("rust", "knows another assert_eq", {"src/lib.rs": "macro_rules! assert_eq { ($($all:tt)*) => { says() } }\n"
                                         "fn says() {}\npub fn steepest(_: &[i64]) -> i64 { 0 }\n"
                                         "pub fn rises(_: &[i64]) -> usize { 2 }\n"}, False),
    ("go", "prints and dies", {"purse.go": GO_SAYS.replace("END", 'panic("x")')}, True),
    ("go", "leaves by another name", {"purse.go": GO_SAYS.replace("END", "o.Exit(0)\n\treturn 0").replace(
        'import "fmt"', 'import (\n\t"fmt"\n\to "os"\n)')}, False),
    ("java", "writes and leaves", {"src/main/java/till/Till.java": JAVA_SAYS.replace("END", "System.exit(0);")}, True),
    ("java", "writes a sign by its number", {"src/main/java/till/Till.java": JAVA_SAYS.replace(
        "END", "S\\u0079stem.exit(0);").replace("java.io.FileWriter", "java.io.F\\u0069leWriter")}, False),
]  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def worlds(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Swe, Task]]]:
    found: dict[str, tuple[Swe, Task]] = {}
    yield found
    for world, _ in found.values():
        world.close()


def world_of(
    name: str, worlds: dict[str, tuple[Swe, Task]], sandbox: Sandbox, factory: pytest.TempPathFactory
) -> tuple[Swe, Task]:
    """A world with a task of the language's fixture; the test is left out where its toolchain is missing."""
    if name not in worlds:
        language: Language = registry.resolve("languages", name).build()
        lacking = language.missing()
        if lacking is not None:
            pytest.skip(lacking)
        plan = Plan((str(FIXTURES / name),), factory.mktemp(name) / "out", 1, 1, workers=1, repeats=1, combined=0.0)
        try:
            make(plan, sandbox)
        except UserError as fault:
            if "install: " in str(fault):
                pytest.skip(f"what the tests need cannot be fetched here: {fault}")
            raise
        world = build(Config(path=str(plan.out), heldout=0.0, tests="shown"), sandbox)
        worlds[name] = world, world.tasks("train", 1, 0)[0]
    return worlds[name]


def earned(world: Swe, task: Task, files: Mapping[str, str]) -> tuple[float | None, str]:
    episode = world.open(task)
    try:
        for path, text in files.items():
            assert episode.act(render_call("write", path=path, text=text)).text == "ok"
        outcome = episode.grade()
        return outcome.reward, outcome.reason
    finally:
        episode.close()


@pytest.mark.parametrize(
    ("name", "how", "files", "blind"),
    [
        pytest.param(*each, id=f"{each[0]} {each[1]}", marks=[] if each[0] == "c" else [pytest.mark.slow])
        for each in ATTACKS
    ],
)
def test_a_forged_report_earns_nothing(
    name: str, how: str, files: Mapping[str, str], blind: bool, worlds: dict[str, tuple[Swe, Task]], sandbox: Sandbox,
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    world, task = world_of(name, worlds, sandbox, tmp_path_factory)
    if blind:
        plugin = type(registry.resolve("languages", name).build())
        monkeypatch.setattr(plugin, "tampers", lambda self, before, after: "")
    reward, reason = earned(world, task, files)
    assert reward == 0.0, reason
    assert blind == ("reaches for what runs the tests" not in reason), reason


@pytest.mark.parametrize(
    "name", ["c", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cpp", "go", "java", "rust"))]
)
def test_the_sound_sources_earn_all(
    name: str, worlds: dict[str, tuple[Swe, Task]], sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world, task = world_of(name, worlds, sandbox, tmp_path_factory)
    record = world.found(task)
    tree = world.dataset.layer(world.repo(record).tree)
    assert earned(world, task, {path: (tree / path).read_text() for path in record.broken(tree)}) == (1.0, "")
    assert earned(world, task, {})[0] == 0.0


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("nm") is None, reason="needs a compiler of C")
def test_symbols_tell_what_a_compiled_file_newly_reaches_for(tmp_path: Path) -> None:
    def compiled(text: str) -> dict[str, tuple[set[str], set[str]]]:
        words = ["cc", "-w", "-c", "-x", "c", "-o", str(tmp_path / "a.o"), "-"]
        subprocess.run(words, input=text.encode(), check=True)
        return _collect.symbols(str(tmp_path))

    plain = 'int strlen(const char *);\nint f(void) { return strlen("a"); }\n'
    before = compiled(plain)
    assert _collect.reached(
        before, compiled(plain + "void exit(int);\nvoid g(void) { exit(0); }\n"), _native.DENIED
    ) == {"exit"}
    shadow = "int strcmp(const char *a, const char *b) { return 0; }\n"
    assert _collect.reached(before, compiled(plain + shadow), _native.DENIED) == {"strcmp"}
    honest = 'int printf(const char *, ...);\nint h(void) { return printf("x"); }\n'
    assert _collect.reached(before, compiled(plain + honest), _native.DENIED) == set()
