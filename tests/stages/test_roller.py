"""The roller in real worlds: scripted policies, limits, sick worlds, and continuations from the middle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stage_helpers import engine_of

from noria.core.errors import SandboxError
from noria.core.types import EDITED, Hint, Observation, Outcome
from noria.envs.ledger.world import Config, LedgerEpisode, LedgerWorld
from noria.stages.roller import Job, Limits, Roller, with_attempt
from noria.tokens.calls import render_call


class SickEpisode(LedgerEpisode):
    """Its machine fails at the second message."""

    def act(self, message: str) -> Observation:
        if "get" not in message:
            raise SandboxError("no room left")
        return super().act(message)


class SickLedger(LedgerWorld):
    """Opens episodes that fail."""

    def open(self, task):
        whole = super().open(task)
        return SickEpisode(task, whole._ledger, whole._goal)


class UngradedEpisode(LedgerEpisode):
    """Nobody gets to grade it."""

    def grade(self) -> Outcome:
        raise TimeoutError("the grader took too long")


class UngradedLedger(LedgerWorld):
    """Opens episodes that cannot be graded."""

    def open(self, task):
        whole = super().open(task)
        return UngradedEpisode(task, whole._ledger, whole._goal)


def finish(roller: Roller, jobs: list[Job]) -> dict[str, object]:
    roller.submit(jobs)
    found = {}
    while roller.pending:
        for trajectory in roller.step():
            assert trajectory.id not in found
            found[trajectory.id] = trajectory
    return found


def test_an_expert_solves_its_task(scripted, tasks, renderer):
    for task in tasks["ledger"]:
        t = scripted.play(Job("a", task, 1, "careful", source="teacher:careful"))
        assert t.solved and t.stop == "done" and t.outcome.reward == 1.0
        assert t.source == "teacher:careful" and not any(t.record.mask)
        assert set(t.record.versions) == {-1}
        for k, turn in enumerate(t.turns):
            ids = t.record.ids[turn.token_start : turn.token_end]
            assert renderer.decode(ids) == turn.message and ids[-1] in renderer.end_ids
            span = slice(turn.token_start, turn.token_end)
            assert set(t.record.turns[span]) == {k} and set(t.record.sources[span]) == {"teacher:careful"}
        assert t.turns[-1].observation == ""


def test_the_record_is_the_conversation(scripted, tasks, renderer):
    t = scripted.play(Job("a", tasks["ledger"][0], 1, "careful"))
    messages = [{"role": "system", "content": t.task.system}, {"role": "user", "content": t.task.prompt}]
    messages += [{"role": m.role, "content": m.content} for m in t.messages]
    from noria.tokens.renderer import tool_schema

    want = renderer.tokenizer.apply_chat_template(
        messages, tools=[tool_schema(tool) for tool in t.task.tools], tokenize=True, return_dict=False
    )
    assert list(t.record.ids) == list(want)


def test_a_script_is_recited(scripted, tasks, worlds):
    task = tasks["ledger"][3]
    script = tuple(worlds["ledger"].reference(task))
    t = scripted.play(Job("a", task, 0, script=script))
    assert t.solved and [turn.message for turn in t.turns] == list(script)
    # Without its last words nobody submits: nothing is said until the turns are used up.
    t = scripted.play(Job("a", task, 0, script=script[:-1]))
    assert t.stop == "turn_limit" and len(t.turns) == Limits().max_turns
    assert [turn.message for turn in t.turns[len(script) - 1 :]] == [""] * (Limits().max_turns - len(script) + 1)


def test_limits_end_an_episode_that_is_graded_as_it_stands(worlds, renderer, tasks):
    task, script = tasks["ledger"][0], tuple(worlds["ledger"].reference(tasks["ledger"][0]))
    short = Roller(worlds, renderer, None, Limits(max_turns=2), 1)
    t = short.play(Job("a", task, 0, script=script))
    assert (t.stop, len(t.turns), t.outcome.reward) == ("turn_limit", 2, 0.0)
    prompt = len(renderer.prompt(task).ids)
    narrow = Roller(worlds, renderer, None, Limits(max_tokens=prompt + 30), 1)
    t = narrow.play(Job("a", task, 0, script=script))
    assert t.stop == "token_limit" and t.outcome.reward == 0.0 and len(t.record) < prompt + 30
    # The work was done before the limit struck: what counts is the state, not the last word.
    done = Roller(worlds, renderer, None, Limits(max_turns=len(script) - 1), 1)
    t = done.play(Job("a", task, 0, script=script))
    assert t.stop == "turn_limit" and t.solved


@pytest.mark.parametrize("engine", [False, True])
def test_a_fault_of_the_world_is_unknown_and_never_zero(renderer, tasks, taught, engine):
    world, task = SickLedger(Config()), tasks["ledger"][0]
    roller = Roller({"ledger": world}, renderer, engine_of(taught, renderer, 0.05), Limits(), 2)
    job = Job("a", task, 0) if engine else Job("a", task, 0, "careful")
    t = finish(roller, [job])["a"]
    assert t.outcome == Outcome.unknown("SandboxError: no room left")
    assert t.outcome.reward is None and not t.solved and t.stop == "sandbox"
    assert roller.pending == 0 and roller.engine.free == 8


def test_a_grader_that_fails_is_unknown(renderer, tasks):
    roller = Roller({"ledger": UngradedLedger(Config())}, renderer, None, Limits(), 1)
    t = roller.play(Job("a", tasks["ledger"][0], 0, "careful"))
    assert t.stop == "done" and t.turns and t.outcome == Outcome.unknown("TimeoutError: the grader took too long")


def test_the_engine_recites_what_the_model_learnt(worlds, renderer, taught):
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 0.05), Limits(), 8)
    found = finish(roller, [Job(lesson.id, lesson.task, 7) for lesson in taught.lessons])
    for lesson in taught.lessons:
        t = found[lesson.id]
        assert t.solved and [turn.message for turn in t.turns] == [turn.message for turn in lesson.turns]
        assert t.record.ids == lesson.record.ids and t.record.roles == lesson.record.roles
        assert t.record.turns == lesson.record.turns
        for turn in t.turns:
            assert all(t.record.mask[turn.token_start : turn.token_end])
        assert t.record.action_tokens == sum(turn.token_end - turn.token_start for turn in t.turns)
        assert set(t.record.sources) == {"student"}


def test_a_right_trajectory_is_solved_again_from_each_of_its_points(worlds, renderer, taught):
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 0.05), Limits(), 8)
    jobs = []
    for lesson in taught.lessons:
        for k in range(len(lesson.turns) + 1):
            jobs.append(Job(f"{lesson.id}@{k}", lesson.task, 9, start=lesson, start_turn=k))
    found = finish(roller, jobs)
    assert len(found) == len(jobs)
    for job in jobs:
        t, start = found[job.id], job.start
        assert t.solved, job.id
        last = job.start_turn == len(start.turns)
        cut = len(start.record) if last else start.turns[job.start_turn].token_start
        assert (
            t.record.ids[:cut] == start.record.ids[:cut] and t.turns[: job.start_turn] == start.turns[: job.start_turn]
        )
        assert not any(t.record.mask[:cut]) and all(t.record.mask[cut : t.turns[job.start_turn].token_end])
        assert t.record.sources[:cut] == start.record.sources[:cut]
        assert t.record.turns[cut] == job.start_turn


def test_the_beginning_of_a_rollout_counts_as_an_experts_in_its_continuation(worlds, renderer, taught):
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 0.05), Limits(), 8)
    first = finish(roller, [Job("a", taught.lessons[0].task, 1)])["a"]
    again = finish(roller, [Job("b", first.task, 2, start=first, start_turn=2)])["b"]
    cut = first.turns[2].token_start
    for t in range(cut):
        assert again.record.sources[t] == ("expert" if first.record.mask[t] else "student")
    assert again.record.ids == first.record.ids and again.record.action_tokens < first.record.action_tokens


def test_a_turn_can_be_continued_from_inside(worlds, renderer, taught):
    lesson = taught.lessons[-1]  # arithmetic: one turn
    (turn,) = lesson.turns
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 0.05), Limits(), 8)
    middle = (turn.token_start + turn.token_end) // 2
    jobs = [Job(str(at), lesson.task, 4, start=lesson, start_token=at) for at in (turn.token_start + 1, middle)]
    for at, t in finish(roller, jobs).items():
        assert t.solved and t.turns[0].message == turn.message
        assert (t.turns[0].token_start, t.turns[0].token_end) == (turn.token_start, turn.token_end)
        assert t.record.mask == tuple(int(k >= int(at)) for k in range(len(t.record)))
        assert t.record.roles == lesson.record.roles and set(t.record.turns[turn.token_start :]) == {0}


def test_a_replay_that_diverges_is_unknown(worlds, renderer, taught):
    lesson = taught.lessons[0]
    other = replace(lesson.turns[0], message=render_call("list"))
    bent = replace(lesson, id="bent", turns=(other, *lesson.turns[1:]))
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(), 8)
    t = finish(roller, [Job("a", lesson.task, 0, start=bent, start_turn=1)])["a"]
    assert not t.outcome.known and "diverged" in t.outcome.reason and t.stop == "sandbox"


def test_a_hint_stands_in_the_prompt_and_begins_the_thought(worlds, renderer, taught, tasks):
    hint = Hint(tasks["ledger"][0].id, "List first.", "List first.")
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(max_new_tokens=6), 8)
    t = finish(roller, [Job("a", tasks["ledger"][0], 0, hint=hint)])["a"]
    begun = len(renderer.prompt(t.task, "List first.").ids)
    given = renderer.encode("<think>List first.")
    assert t.hint == "List first." and t.turns[0].message.startswith("<think>List first.")
    assert t.record.ids[begun : begun + len(given)] == given
    assert set(t.record.sources[begun : begun + len(given)]) == {EDITED}
    sampled = begun + len(given)
    assert not any(t.record.mask[:sampled]) and all(t.record.mask[sampled : t.turns[0].token_end])
    assert t.turns[0].token_start == begun and set(t.record.turns[begun : t.turns[0].token_end]) == {0}
    assert 1 <= t.turns[0].token_end - sampled <= 6


def test_rollouts_do_not_depend_on_their_neighbours(worlds, renderer, taught, tasks):
    jobs = [Job(f"{w}/{i}", tasks[w][i], 100 + i) for w in tasks for i in range(4)]
    many = finish(Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(max_turns=3), 8), jobs)
    few = finish(Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(max_turns=3), 2), jobs[::-1])
    for job in jobs:
        assert many[job.id].record.ids == few[job.id].record.ids and many[job.id].outcome == few[job.id].outcome


def test_no_rollout_is_longer_than_its_limit(worlds, renderer, taught, tasks):
    """The engine has room for more; the limit of the episode counts."""
    limits = Limits(max_turns=8, max_new_tokens=50, max_tokens=140)
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.5), limits, 8)
    found = finish(roller, [Job(f"{i}", tasks["ledger"][i], i) for i in range(8)])
    assert max(len(t.record) for t in found.values()) <= 140
    cut = [t for t in found.values() if t.stop == "token_limit"]
    assert cut and all(t.outcome.known for t in cut)


@pytest.mark.parametrize("most", [1, 12, 30])
def test_a_rollout_generates_no_more_than_its_response_may_have(worlds, renderer, taught, tasks, most):
    jobs = [Job(f"{i}", tasks["ledger"][i], i, max_response=most) for i in range(4)]
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(max_new_tokens=20), 8)
    found = finish(roller, jobs)
    for t in found.values():
        assert 0 < t.record.action_tokens <= most and t.outcome.known
        assert (t.stop == "token_limit") == (t.record.action_tokens == most)
        assert sum(turn.token_end - turn.token_start for turn in t.turns) == t.record.action_tokens
    assert any(t.stop == "token_limit" for t in found.values())


def test_what_an_expert_said_before_is_no_part_of_the_response(worlds, renderer, taught):
    lesson = next(t for t in taught.lessons if len(t.turns) > 2)
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 0.05), Limits(), 8)
    rest = sum(turn.token_end - turn.token_start for turn in lesson.turns[1:])
    jobs = [
        Job(f"{most}", lesson.task, 7, start=lesson, start_turn=1, max_response=most) for most in (rest - 1, rest, 999)
    ]
    cut, whole, free = (finish(roller, jobs)[job.id] for job in jobs)
    assert cut.stop == "token_limit" and cut.record.action_tokens == rest - 1
    assert whole.record.ids == free.record.ids and whole.solved and whole.record.action_tokens == rest


def test_clearing_frees_every_slot(worlds, renderer, taught, tasks):
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.0), Limits(), 4)
    roller.submit([Job(f"{i}", tasks["ledger"][i], i) for i in range(7)])
    roller.step()
    assert roller.pending == 7 and roller.engine.free == 4
    roller.clear()
    assert roller.pending == 0 and roller.engine.free == 8
    t = finish(roller, [Job("x", taught.lessons[0].task, 0, "careful")])["x"]
    assert t.solved


def test_an_engine_without_room_gives_an_unknown_outcome(worlds, renderer, taught, tasks):
    engine = engine_of(taught, renderer, 1.0, max_tokens=32)  # shorter than any prompt of the ledger
    roller = Roller(worlds, renderer, engine, Limits(), 4)
    found = finish(roller, [Job(f"{i}", tasks["ledger"][i], i) for i in range(3)])
    assert {t.stop for t in found.values()} == {"engine"} and roller.pending == 0
    assert all("no room to generate" in t.outcome.reason for t in found.values())


def test_another_attempt_has_another_seed(tasks):
    job = Job("a", tasks["ledger"][0], 5)
    assert with_attempt(job, 0) == job
    assert {with_attempt(job, k).id for k in range(3)} == {"a"}
    assert len({with_attempt(job, k).seed for k in range(3)}) == 3
