"""Kill -9 at any moment of a phase, then resume: nothing is trained twice, left out, or trained differently."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from survival.driver import PHASE, Order

from noria.core import recipe as recipes
from noria.core.codec import read_json_lines
from noria.core.store import Run
from noria.tokens.renderer import Renderer

STEPS, PROMPTS, ROLLOUTS = 8, 2, 4
PATIENCE_S = 600
#: Makes the end of a message about as likely at each token as all else of five.
END_WEIGHT = 2.3
RECIPE = """
name = "toss"
seed = {seed}
executor = {{ type = "local", workers = 1, start = "fork" }}
student = {{ model = "{model}", engine = {{ type = "embedded", slots = 8, max_tokens = 64, prefill_rows = 4 }} }}
rollout = {{ max_turns = 1, max_new_tokens = 10, max_tokens = 64 }}
eval = {{ max_tokens = 64 }}
[env]
coin = {{ type = "survival.coin", tasks = 4 }}
[phase.toss]
signal = "group_mean"
steps = {steps}
prompts_per_step = {prompts}
rollouts_per_prompt = {rollouts}
minibatches = 2
max_refills = 1
max_staleness = {staleness}
lr = 1e-2
[phase.sft]
signal = "curated"
steps = 34
tokens_per_step = 30
lr = 1e-2
"""


def tiny_model(folder: Path, like: Path, seed: int) -> Path:
    """A random Qwen3 of one layer with the built-in tokenizer, which ends about every fifth message at each token."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    vocab, (end, *_) = json.loads((like / "config.json").read_text())["vocab_size"], Renderer.load(like).end_ids
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocab, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        intermediate_size=24, tie_word_embeddings=False, max_position_embeddings=64, attn_implementation="sdpa",
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_()
        model.model.embed_tokens.weight[:, 0] = 4.0
        model.lm_head.weight.normal_(std=0.5)
        model.lm_head.weight[end, 0] = END_WEIGHT
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(like / name, folder / name)
    return folder


class Driver:
    """The process that phases are forked from."""

    def __init__(self, model: Path) -> None:
        here = Path(__file__).parent
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(here)}
        command = [sys.executable, "-m", "survival.driver", str(model)]
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=here.parent
        )

    def start(self, order: Order) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(vars(order)) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def end(self) -> int:
        """The exit status of what was started."""
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def finish(self, order: Order) -> None:
        self.start(order)
        status = self.end()
        output = Path(order.run) / "output.txt"
        assert status == 0, output.read_text()[-3000:] if status != 2 else (Path(order.run) / "fault.txt").read_text()

    def fail(self, order: Order) -> str:
        """What a phase that is refused says."""
        self.start(order)
        assert self.end() == 2
        return (Path(order.run) / "fault.txt").read_text()


@pytest.fixture(scope="module")
def driver(model: Path) -> Iterator[Driver]:
    made = Driver(model)
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"), tiny_folder, 0)


def new_run(folder: Path, model: Path, staleness: int = 0, **changes: Any) -> Run:
    """A run folder for one phase."""
    folder.mkdir(parents=True, exist_ok=True)
    text = RECIPE.format(model=model, seed=5, steps=STEPS, prompts=PROMPTS, rollouts=ROLLOUTS, staleness=staleness)
    (folder / "toss.toml").write_text(text, encoding="utf-8")
    recipe = recipes.load([folder / "toss.toml"], [f"{key}={value}" for key, value in changes.items()])
    return Run.create(folder / "runs", recipe)


def weights(run: Run, phase: str = PHASE) -> bytes:
    return (run.folder(f"round-1/{phase}") / "model.safetensors").read_bytes()


def groups(run: Run) -> list[list[Any]]:
    found: list[list[Any]] = json.loads((run.folder(f"round-1/{PHASE}") / "groups.json").read_text())
    return found


def steps(run: Run, keys: tuple[str, ...] = ()) -> list[Any]:
    """The rows of metrics.jsonl without times."""
    return [
        {key: value for key, value in row.items() if key != "t" and not key.startswith("time/")}
        for row in read_json_lines(run.path / "metrics.jsonl")
    ]


@pytest.fixture(scope="module")
def undisturbed(driver: Driver, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = new_run(tmp_path_factory.mktemp("undisturbed"), model)
    driver.finish(Order(str(run.path)))
    return run


def whole(run: Run, limit: int = 0) -> None:
    """Every prompt was trained exactly once over the epoch, every step told once, nothing of the making left."""
    consumed = groups(run)
    assert [group for group, _ in consumed] == list(range(len(consumed)))
    assert len({task for _, task in consumed}) == len(consumed) >= STEPS * PROMPTS
    told = steps(run)
    assert [row["step"] for row in told] == list(range(1, STEPS + 1))
    assert sum(row["groups"] for row in told) == len(consumed)
    assert all(row["staleness/max"] <= limit for row in told)
    assert run.done(f"round-1/{PHASE}") and not run.damaged(f"round-1/{PHASE}")
    assert not list(run.path.glob("**/*.partial")) and not list(run.path.glob("**/*state.*"))


def test_an_undisturbed_phase_is_whole(undisturbed: Run) -> None:
    whole(undisturbed)
    assert len({row["grad_norm"] for row in steps(undisturbed)}) == STEPS  # every step trained something


def killed_at_random(driver: Driver, make: Any, check: Any, moments: int, seed: int) -> None:
    """Kill phases at `moments` random moments in all; each is resumed until it is whole, and checked."""
    draw, kills, longest = random.Random(seed), 0, 0.05
    while kills < moments:
        run: Run = make()
        while True:
            began = time.monotonic()
            pid = driver.start(Order(str(run.path)))
            delay = draw.uniform(0, longest)
            while kills < moments and time.monotonic() - began < delay and alive(pid):
                time.sleep(0.002)
            if kills < moments and alive(pid):
                os.kill(pid, signal.SIGKILL)
            status = driver.end()
            if status == -signal.SIGKILL:
                kills += 1
                # Until phases get done now and then, the moments are too early.
                longest *= 1.3
                continue
            assert status == 0, (run.path / "output.txt").read_text()[-3000:]
            longest = max(0.05, 0.5 * (time.monotonic() - began))
            check(run)
            break


def alive(pid: int) -> bool:
    """Whether the process still runs; its driver reaps it as soon as it ends."""
    return Path(f"/proc/{pid}").exists()


def check_synchronous(undisturbed: Run) -> Any:
    def check(run: Run) -> None:
        whole(run)
        assert groups(run) == groups(undisturbed)
        assert steps(run) == steps(undisturbed)
        assert weights(run) == weights(undisturbed)

    return check


def makers(folder: Path, model: Path, staleness: int) -> Any:
    numbers = iter(range(1000))
    return lambda: new_run(folder / str(next(numbers)), model, staleness)


def test_a_synchronous_phase_killed_at_random_moments_ends_with_the_same_bits(
    driver: Driver, undisturbed: Run, model: Path, tmp_path: Path
) -> None:
    killed_at_random(driver, makers(tmp_path, model, 0), check_synchronous(undisturbed), 5, seed=1)


def test_an_asynchronous_phase_killed_at_random_moments_trains_every_prompt_once(
    driver: Driver, model: Path, tmp_path: Path
) -> None:
    killed_at_random(driver, makers(tmp_path, model, 2), lambda run: whole(run, limit=2), 5, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 2])
def test_fifty_random_moments(driver: Driver, undisturbed: Run, model: Path, tmp_path: Path, staleness: int) -> None:
    check = (lambda run: whole(run, limit=2)) if staleness else check_synchronous(undisturbed)
    killed_at_random(driver, makers(tmp_path, model, staleness), check, 50, seed=3 + staleness)


def killed(driver: Driver, order: Order) -> None:
    driver.start(order)
    assert driver.end() == -signal.SIGKILL


def test_death_inside_a_save_and_while_the_artifact_is_sealed(
    driver: Driver, undisturbed: Run, model: Path, tmp_path: Path
) -> None:
    """A save flushes the file, renames it and flushes the folder: 3 writes a step. Then the artifact is sealed."""
    run = new_run(tmp_path, model)
    state = run.path / f"round-1/{PHASE}.partial/state.pt"
    killed(driver, Order(str(run.path), die_at=1))
    assert not state.exists() and (state.parent / ".state.pt.tmp").exists()
    killed(driver, Order(str(run.path), die_at=2))  # written, not renamed
    assert not state.exists() and not (run.path / "metrics.jsonl").exists()
    killed(driver, Order(str(run.path), die_at=3))  # renamed, and the metrics of the step not told yet
    assert state.exists() and not (run.path / "metrics.jsonl").exists()
    killed(driver, Order(str(run.path), die_at=4))
    assert [row["step"] for row in steps(run)] == [1, 2]
    left = STEPS - 2
    for writes in (3 * left + 2, 8, 9, 10, 11, 12, 13, 14, 15, 16):  # files, manifest, folder
        driver.start(Order(str(run.path), die_at=writes))
        if driver.end() == 0:
            break
    else:
        raise AssertionError("sealing takes fewer writes than that")
    check_synchronous(undisturbed)(run)


def test_a_supervised_phase_goes_on_with_the_same_bits(driver: Driver, model: Path, tmp_path: Path) -> None:
    calm, run = new_run(tmp_path / "calm", model), new_run(tmp_path / "killed", model)
    driver.finish(Order(str(calm.path), "sft"))
    killed(driver, Order(str(run.path), "sft", die_at=5))
    assert [row["step"] for row in steps(run)] == list(range(1, 20))  # of which 11 to 19 are not saved
    killed(driver, Order(str(run.path), "sft", die_at=3))  # once these are taken back
    assert [row["step"] for row in steps(run)] == list(range(1, 11))
    killed(driver, Order(str(run.path), "sft", die_at=3))  # step 20 is saved and not told
    assert [row["step"] for row in steps(run)] == list(range(1, 20))
    driver.finish(Order(str(run.path), "sft"))
    assert steps(run) == steps(calm) and [row["step"] for row in steps(run)] == list(range(1, 35))
    assert weights(run, "sft") == weights(calm, "sft")


def test_another_model_other_data_and_a_damaged_state_are_refused(
    driver: Driver, undisturbed: Run, model: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    run = new_run(tmp_path, model)
    killed(driver, Order(str(run.path), die_at=8))
    state, recipe = run.path / f"round-1/{PHASE}.partial/state.pt", run.path / "recipe.json"
    other = tiny_model(tmp_path / "other", tiny_folder, 1)
    said = driver.fail(Order(str(run.path), model=str(other)))
    assert said.startswith(f"UserError: round-1/{PHASE} must go on with the model and the data that it began with")
    assert "another model" in said and "other data" not in said and f"delete {state}" in said
    text = recipe.read_text()
    recipe.write_text(text.replace('"heads"', '"tails"'))
    said = driver.fail(Order(str(run.path)))
    assert "other data" in said and "another model" not in said
    recipe.write_text(text.replace(f'"rollouts_per_prompt": {ROLLOUTS}', '"rollouts_per_prompt": 2'))
    assert "other data" in driver.fail(Order(str(run.path)))
    recipe.write_text(text)
    whole_state = state.read_bytes()
    state.write_bytes(whole_state[: len(whole_state) // 2])
    said = driver.fail(Order(str(run.path)))
    assert f"{state} must be a whole state" in said and f"delete {state}" in said
    state.write_bytes(whole_state)
    driver.finish(Order(str(run.path)))
    check_synchronous(undisturbed)(run)


def test_a_step_that_is_not_finite_keeps_the_state_before_it(driver: Driver, model: Path, tmp_path: Path) -> None:
    blown = {"phase.toss.use.blow": f'{{type = "survival.blow", after = {PROMPTS * ROLLOUTS + 2}}}'}
    run = new_run(tmp_path, model, **blown)
    said = driver.fail(Order(str(run.path)))
    assert said.startswith(f"BadStep: round-1/{PHASE} step 2: a step must be finite: ")
    assert "loss/clipped" in said and "the rows' weight is not (rows " in said
    assert "; groups 4 (coin-train-" in said and said.endswith("); the state after step 1 is kept")
    assert [row["step"] for row in steps(run)] == [1]
    before = (run.path / f"round-1/{PHASE}.partial/state.pt").read_bytes()
    assert driver.fail(Order(str(run.path))) == said  # and once more, from there
    assert (run.path / f"round-1/{PHASE}.partial/state.pt").read_bytes() == before
