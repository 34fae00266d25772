"""Harbor's task folders: the sheet, Dockerfiles without an image, rewards, and folders written and read again."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from noria.core.errors import PolicyError, UserError
from noria.envs import harbor
from noria.envs.harbor import toml
from noria.envs.harbor.admission import admit
from noria.envs.harbor.folder import File, Folder, find_folders, plain_instruction, read_folder, write_folder
from noria.envs.harbor.grading import Graded, read_rewards
from noria.envs.harbor.image import read_image
from noria.envs.harbor.places import inside, links
from noria.envs.harbor.samples import sample
from noria.envs.harbor.schema import read_sheet, unknown_keys


def folder_with(sheet: str, **environment: str) -> Folder:
    files = {"Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n"} | environment
    tests = {"test.sh": File(b"#!/bin/sh\n", True)}
    return Folder(
        "t", read_sheet(sheet, "t/task.toml"), "Do it.\n",
        {name: File(text.encode()) for name, text in files.items()}, tests, {},
    )  # fmt: skip


def test_old_keys_are_renamed_and_unknown_ones_listed() -> None:
    sheet = read_sheet(
        'version = "1.0"\nextra = 1\n[environment]\nmemory = "2G"\nstorage = "10240M"\nallow_internet = false\n'
        'color = "red"\n[[steps]]\nname = "a"\n[steps.agent]\nmood = 1\n',
        "task.toml",
    )
    assert sheet.schema_version == "1.0"
    assert (sheet.environment.memory_mb, sheet.environment.storage_mb) == (2048, 10240)
    assert sheet.environment.network_mode == "no-network"
    assert list(unknown_keys(sheet)) == ["extra", "environment.color", "steps.agent.mood"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent\n", "must be TOML"),
        ('schema_version = "9"', "schema_version"),
        ('[agent]\ntimeout_sec = "soon"', "agent.timeout_sec"),
        ("[verifier]\ntimeout_sec = 0", "verifier.timeout_sec"),
        ('[[steps]]\nname = "a/b"', "steps.0.name"),
        ('[[steps]]\nname = "a"\n[[steps]]\nname = "A"', "steps"),
        ('[task]\nname = "no-org"', "task.name"),
        ('[environment]\nmemory = "lots"', "environment"),
        ('[environment]\nmemory = "1G"\nmemory_mb = 5', "memory_mb must agree"),
        ('[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ncpus = 1', "environment_mode"),
        ('[[artifacts]]\nsource = "/a/../b"', "artifacts"),
        ("[environment]\ncpus = nan", "environment.cpus"),
    ],
)
def test_wrong_values_are_errors_that_name_the_key(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_sheet(text, "task.toml")


def test_toml_is_read_as_it_was_written() -> None:
    data = {
        "s": 'a "b" \\ \n\t é \x00 \x7f 😀', "n": -3, "f": 1e-9, "b": True, "l": [1, "x", {"k": [2]}], "e": [],
        "t": {"a.b": {"": "empty"}, "c": {}}, "m": [{"x": 1, "y": {"z": 2}}, {"x": 2}],
    }  # fmt: skip
    assert tomllib.loads(toml.dumps(data | {"none": None})) == data


def test_a_dockerfile_of_copies_needs_no_image() -> None:
    context = {
        "Dockerfile": "# c\nFROM python:3.12-slim AS base\nENV A=1 B='x y'\nENV C old $A\nWORKDIR /srv\n"
        "WORKDIR sub\nCOPY --chmod=755 run.sh \\\n  tool.sh bin/\nCOPY data /data\nCOPY one.txt two.txt\n"
        'COPY ["with space.txt", "./"]\nCOPY *.csv /csv/\nUSER root\nCMD ["bash"]\n',
        "run.sh": "r", "tool.sh": "t", "data/a/x": "x", "data/y": "y", "one.txt": "1", "with space.txt": "w",
        "p.csv": "p", "q.csv": "q", "data/z.csv": "z",
    }  # fmt: skip
    image = read_image({path: File(text.encode()) for path, text in context.items()})
    assert image.workdir == "/srv/sub"
    assert image.env == {"A": "1", "B": "x y", "C": "old 1"}
    assert {path: file.data.decode() for path, file in image.files.items()} == {
        "/srv/sub/bin/run.sh": "r", "/srv/sub/bin/tool.sh": "t", "/data/a/x": "x", "/data/y": "y",
        "/data/z.csv": "z", "/srv/sub/two.txt": "1", "/srv/sub/with space.txt": "w",
        "/csv/p.csv": "p", "/csv/q.csv": "q",
    }  # fmt: skip
    assert [path for path, file in image.files.items() if file.executable] == [
        "/srv/sub/bin/run.sh", "/srv/sub/bin/tool.sh",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("docker", "said"),
    [
        ("FROM ubuntu\nRUN apt-get update", "RUN apt-get"),
        ("FROM node:20", "FROM node:20"),
        ("FROM ghcr.io/x/python:3", "FROM ghcr"),
        ("FROM python AS a\nFROM python", "several stages"),
        ("FROM python\nCOPY --from=a /x /y", "--from"),
        ("FROM python\nADD https://x/y.txt /app/", "fetched"),
        ("FROM python\nCOPY missing /app/", "lacks"),
        ("FROM python\nCOPY a /etc/x", "folder of the system"),
        ("FROM python\nCOPY a ../../usr/x", "folder of the system"),
        ("FROM python\nCOPY a /workspace/.root/x", "taken"),
        ("FROM python\nCOPY <<E /x\nhi\nE", "text of its own"),
        ("FROM python\nENTRYPOINT sleep 1", "ENTRYPOINT"),
        ("FROM python\nCOPY 'a", "can't be read"),
        ("WORKDIR /app", "no FROM"),
        ("FROM python\nWORKDIR /proc/x", "folder of the system"),
    ],
)
def test_what_takes_an_image_is_refused_with_the_reason(docker: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        read_image({"Dockerfile": File(docker.encode()), "a": File(b"a")})


def test_paths_lie_in_the_workspace() -> None:
    assert inside("/app/./x") == ".root/app/x"
    assert inside("/workspace/x") == "x"
    assert links(["/workspace/x", "/opt/tool/y", "/data/z"]) == (
        ("/app", ".root/app"), ("/data", ".root/data"), ("/logs", ".root/logs"), ("/opt/tool", ".root/opt/tool"),
        ("/solution", ".root/solution"), ("/tests", ".root/tests"),
    )  # fmt: skip
    for path in ("/", "app", "/etc/passwd", "/tmp/x", "/opt/noria/x", "/../etc", "//usr/x"):
        with pytest.raises(PolicyError):
            inside(path)


@pytest.mark.parametrize(
    ("sheet", "environment", "said"),
    [
        ('[environment]\nos = "windows"', {}, "system 'windows'"),
        ("[environment]\ngpus = 1", {}, "accelerators"),
        ('[[environment.mcp_servers]]\nname = "m"\nurl = "http://m"', {}, "MCP servers: m"),
        ('[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.b"]', {}, "the network: .* a.b"),
        ('[environment]\nenv = { K = "${SECRET}" }', {}, "asks for \\${SECRET}"),
        ('[environment]\nenv = { "a b" = "x" }', {}, "can't be set"),
        ("", {"docker-compose.yaml": "x"}, "further containers"),
        ("[verifier.environment]\ncpus = 1", {}, "environment of its own"),
        ('artifacts = ["out.txt"]', {}, "absolute paths"),
        ('[[verifier.collect]]\ncommand = "x"\nservice = "db"', {}, "further container"),
        ('[environment]\nworkdir = "/usr/x"', {}, "folder of the system"),
    ],
)
def test_what_cannot_be_worked_on_here_is_refused(sheet: str, environment: dict[str, str], said: str) -> None:
    found = admit(folder_with(sheet, **environment), {})
    assert found.plan is None
    with pytest.raises(AssertionError, match=said):
        raise AssertionError("; ".join(found.reasons))


def test_variables_come_from_the_options_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the host")
    sheet = '[environment]\nenv = { A = "${SECRET}", B = "${NOT:-other}", C = "x${SECRET}y" }'
    plan = admit(folder_with(sheet), {"SECRET": "given"}).plan
    assert plan is not None and plan.env == {"A": "given", "B": "other", "C": "xgiveny"}


@pytest.mark.parametrize(
    ("as_json", "as_text", "want"),
    [
        (None, "0.5\n", {"reward": 0.5}),
        ('{"reward": 1, "style": 0.25}', "0", {"reward": 1.0, "style": 0.25}),
        (None, None, "left no"),
        (None, "", "no number"),
        (None, "nan", "not finite"),
        (None, "inf", "not finite"),
        (None, "passed", "no number"),
        ("", "1", "reward.json is refused"),
        ("{}", "1", "no object with rewards"),
        ("[1]", "1", "no object with rewards"),
        ("1", "1", "no object with rewards"),
        ('{"reward": "1"}', None, "no number"),
        ('{"reward": NaN}', None, "not finite"),
        ('{"reward": 1e999}', None, "not finite"),
        ('{"reward": ' + "9" * 400 + "}", None, "refused"),
        ("[" * 5000, None, "refused"),
    ],
)
def test_rewards(as_json: str | None, as_text: str | None, want: dict[str, float] | str) -> None:
    got = read_rewards(as_json, as_text)
    if isinstance(want, str):
        assert want in got.fault and not got.rewards
    else:
        assert got == Graded(want)


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    for name in ("total-1", "errors-2", "words-3"):
        made = sample(name)
        write_folder(made, tmp_path / name)
        again = read_folder(tmp_path / name)
        assert again == made and again.digest() == made.digest()
    assert [path.name for path in find_folders(tmp_path)] == ["errors-2", "total-1", "words-3"]
    assert (tmp_path / "total-1/tests/test.sh").stat().st_mode & 0o111
    with pytest.raises(UserError, match="must not hold"):
        write_folder(sample("total-1"), tmp_path / "total-1")


def test_folders_that_are_no_tasks(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found no"):
        find_folders(tmp_path / "nothing")
    write_folder(sample("words-1"), tmp_path / "a")
    (tmp_path / "a/steps/sort/instruction.md").unlink()
    with pytest.raises(UserError, match=r"steps/sort/instruction\.md"):
        read_folder(tmp_path / "a")
    write_folder(sample("total-1"), tmp_path / "b")
    (tmp_path / "b/tests/link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="link"):
        read_folder(tmp_path / "b")


def test_canary_marks_are_not_shown() -> None:
    text = "<!-- the canary GUID 1 -->\n# CANARY two\n\nDo it.\n# canary stays here\n"
    assert plain_instruction(text) == "Do it.\n# canary stays here"


def test_no_history_reaches_a_policy(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_folder(
        folder_with('[[steps]]\nname = "s"\n', **{"repo/a.py": "the bug\n", "repo/x.orig": "the fix\n"}), place
    )
    for name, text in {"instruction.md": "Do it.\n", "tests/test.sh": "#!/bin/sh\n", "workdir/a/b.txt": "b\n"}.items():
        (place / "steps/s" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "steps/s" / name).write_text(text)
    repo = place / "environment/repo"
    (place / "steps/s/workdir/__pycache__").mkdir()
    (place / "steps/s/workdir/__pycache__/b.pyc").write_text("the fix")

    def git(*words: str) -> str:
        who = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(who, cwd=repo, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    (repo / "a.py").write_text("the fix\n")
    git("add", ".")
    git("commit", "-qm", "later")
    (repo / "a.py").write_text("the bug\n")
    (repo / ".git/hooks/link").symlink_to("/etc/passwd")  # what no task may hold does not count where it is not read
    read = read_folder(place)
    assert {name.rpartition("/")[0] for name in read.environment if ".git/" in name} == {
        "repo/.git", "repo/.git/refs/heads", "repo/.git/objects/pack"
    }  # fmt: skip
    assert read.environment["repo/a.py"].data == b"the bug\n" and "repo/x.orig" not in read.environment
    assert set(read.steps["s"].workdir) == {"a/b.txt"}
    found = admit(read, {})
    assert found.plan is not None and found.notes[:2] == [
        "environment/repo: its history is replaced by one commit",
        "may show another state and is left out: 'environment/repo/x.orig', 'steps/s/workdir/__pycache__'",
    ]
    world = harbor.build(harbor.Config(path=str(place)), None)
    assert world.notes() == [("t", "; ".join(found.notes))]
    assert read_folder(place).digest() == read.digest() and harbor.Config().history == "cut"
    write_folder(read, tmp_path / "again")
    assert read_folder(tmp_path / "again").digest() == read.digest()
    (repo / ".git/hooks/link").unlink()
    kept = read_folder(place, keep_history=True)
    assert "repo/.git/HEAD" in kept.environment and "repo/x.orig" in kept.environment and not kept.cut
