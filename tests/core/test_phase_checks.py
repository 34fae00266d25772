"""What cannot be right is refused before anything runs, by a message that names the field and the fix."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from noria.core import recipe as recipes
from noria.core.errors import UserError

BASE = """
name = "r"
teachers.wise = { type = "privileged" }
teachers.slow = { type = "ema" }
teachers.careful = { type = "scripted", strategy = "careful" }
env = { ledger = { type = "ledger", tasks = 4 } }
"""
TWICE = 'use = { a = { type = "dtdd" }, b = { type = "dtdd" } }, loss = { ce = {} }'
TARGET = 'use = { l = { type = "linear", target = "clippd", end = 0.0 } }'
DISCOUNT = 'loss = { k1_pg = { kl_discount = 0.5, ratio = "sequence_mean" } }'
MIXED = "loss = { mixture_kl = { weight = 0.3 } }"
CURRICULUM = 'task_source = {{ type = "curriculum", end = {} }}, difficulty = {{}}'
WATCHED = 'use = { l = { type = "latch", target = "clipped", metric = "validation/solved", above = 0.5 } }'
K = 'signal = "teacher_k1", route = "slow"'
T, R, J = 'signal = "teacher", route = "slow"', 'signal = "group_mean"', 'signal = "joint", route = "slow"'


def load(tmp_path: Path, phase: str, more: str = "") -> recipes.Recipe:
    file = tmp_path / "r.toml"
    file.write_text(f"{BASE}{more}\n[phase]\np = {{ {phase} }}\n", encoding="utf-8")
    return recipes.load([file])


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (f"{T}, loss = {{ k1 = {{}} }}", ["loss.k1 is refused", "k1_pg"]),
        (f"{T}, loss = {{ k3 = {{}} }}", ["loss.k3 is refused", "iw_k3"]),
        (f"{T}, loss = {{ mse = {{}} }}", ["loss.mse is refused", "mse_logits"]),
        (f"{T}, loss = {{ clipped = {{}} }}", ["loss.clipped needs an advantage", "k1_pg"]),
        (f"{R}, loss = {{ reverse_kl = {{}} }}", ["loss.reverse_kl needs a teacher", 'signal = "teacher"']),
        (f"{R}, use = {{ dtdd = {{}} }}", ["use.dtdd needs a teacher"]),
        (f"{T}, use = {{ overlong = {{ max_tokens = 9, buffer_tokens = 3 }} }}", ["use.overlong shapes rewards"]),
        (f"{R}, use = {{ icepop = {{}} }}", ["use.icepop", "tis_cap = 2.0", "set tis_cap = 0"]),
        (f"{T}, use = {{ role_credit = {{}} }}", ["use.role_credit weighs reinforcement", "remove it"]),
        (f"{R}, use = {{ tis = {{}} }}", ["use.tis", "set tis_cap"]),
        (f"{R}, use = {{ group_std = {{}} }}", ["use.group_std", "set signal"]),
        (f"{T}, use = {{ dropout = {{}} }}", ["loss.k1_pg", "use.dropout", "reverse_kl"]),
        (f"{T}, use = {{ dtdd = {{}} }}", ["use.dtdd", "add loss.ce"]),
        (f"{T}, use = {{ srcl = {{}} }}", ["use.srcl", "add loss.ce"]),
        (f"{K}, loss = {{ clipped = {{}}, ce = {{}} }}, use = {{ dtdd = {{}} }}", ["loss.clipped", "use loss.k1_pg"]),
        (f"{K}, loss = {{ cispo = {{}}, ce = {{}} }}, use = {{ srcl = {{}} }}", ["loss.cispo", "use.srcl"]),
        (f"{T}, {TWICE}", ["one signal", "'takeover'"]),
        (f"{R}, {TARGET}", ["target", "'clippd'", "did you mean 'clipped'"]),
        (f"{R}, use = {{ icepops = {{}} }}, tis_cap = 0", ["icepops", "did you mean 'icepop'"]),
        (f"{R}, use = {{ icepop = {{ lo = 1 }} }}, tis_cap = 0", ["'lo'", "did you mean 'low'"]),
        (f"{T}, {DISCOUNT}", ["kl_discount", 'ratio = "token"']),
        (f"{T}, teacher_weights = {{ wise = 1.0 }}", ["teacher_weights", "'wise'", "'slow'"]),
        (f"{T}, teacher_weights = {{ slow = 0.0 }}", ["teacher_weights.slow must be > 0"]),
        ('signal = "teacher", route = { ledger = "careful" }', ["route.ledger", "cannot score tokens"]),
        ('signal = "teacher", route = { bank = "slow" }', ["none for 'ledger'", "'bank'"]),
        ('signal = "joint", route = "slow", alpha = 0.0, beta = 0.0', ["alpha", "beta", "must not both be 0"]),
        (f"{T}, loss = {{ mixture_kl = {{}} }}", ["loss.mixture_kl mixes", 'add auxiliary = { model = "weak" }']),
        (f'{T}, auxiliary = {{ model = "weak" }}', ["auxiliary is trained by no loss", "add loss.mixture_kl"]),
        (f"{R}, loss = {{ mixture_kl = {{}} }}", ["loss.mixture_kl needs a teacher"]),
        (f'{T}, {MIXED}, auxiliary = {{ model = "weak", rate = 1.0 }}', ["unknown key 'rate'", "phase.p.auxiliary"]),
        (f'{T}, {MIXED}, auxiliary = {{ model = "weak", lr = -1.0 }}', ["phase.p.auxiliary.lr must be"]),
        (f"{T}, {MIXED}, auxiliary = {{}}", ["phase.p.auxiliary.model must be given"]),
        ('signal = "reverse_kl", route = "slow"', ["signal must be one of", "rloo", "a dotted name"]),
        ('signal = "group_sdt"', ["signal must be one of", "did you mean 'group_std'"]),
        ('signal = "overlong"', ["phase.p.signal must be one of", "'overlong'"]),
        ('signal = "nobody.module"', ["signal must name an advantage", "Python cannot find"]),
        ('signal = "noria.signals.overlong"', ["signal must name an advantage", "slot 'reward'", 'SLOT = "advantage"']),
        ('signal = "group_std", advantage = { ddofs = 1 }', ["'ddofs'", "phase.p.advantage", "did you mean 'ddof'"]),
        ('signal = "group_std", advantage = { ddof = 2 }', ["phase.p.advantage.ddof", "got 2"]),
        ('signal = "group_mean", advantage = { ddof = 1 }', ["unknown key 'ddof'", "phase.p.advantage"]),
        (f'{R}, advantage = {{ type = "rloo" }}', ["advantage.type must be left out", 'signal = "rloo"']),
        (f'{J}, advantage = "group_men"', ["advantage must name an advantage", "did you mean 'group_mean'"]),
        (f'{J}, advantage = "hmpo"', ["advantage must name an advantage", "slot 'reward'"]),
        (f"{J}, advantage = {{ ddof = 1 }}", ["unknown key 'ddof'", "phase.p.advantage"]),
        (f"{R}, actors = 0", ["phase.p.actors"]),
        (f"{R}, max_response = -1", ["phase.p.max_response"]),
        (f"{R}, max_logp_diff = -0.1", ["phase.p.max_logp_diff"]),
        (f"{R}, use = {{ rloo = {{}} }}", ["use.rloo must not be an advantage"]),
        (f"{R}, use = {{ dynamic = {{ max_refills = 1 }} }}", ["it has a field of its own - set max_refills"]),
        (f'{R}, task_source = "turn"', ["phase.p.task_source", "did you mean 'turns'"]),
        (f'{R}, task_source = "nobody.module"', ["phase.p.task_source", "Python cannot find"]),
        (f'{R}, task_source = "curriculum"', ["orders tasks by their pass rate", "add difficulty = {}"]),
        (f'{R}, task_source = {{ type = "turns", start = 0.5 }}', ["unknown key 'start'"]),
        (f'{R}, task_source = {{ start = 0.5 }}', ["phase.p.task_source", "write task_source = "]),
        (f"{R}, {CURRICULUM.format(0.9)}", ["phase.p.task_source", "end must be <= start"]),
        ('signal = "group_std", use = { pprs = { terminal = "zero" } }', ["use.pprs", "use group_mean or rloo"]),
        (f'{J}, advantage = "group_std", use = {{ pprs = {{ terminal = "zero" }} }}', ["which 'group_std' rescales"]),
        (f"{R}, use = {{ pprs = {{}} }}", ["phase.p.use.pprs.terminal must be given"]),
        (f"{R}, use = {{ hmpo = {{}}, two_stage = {{}} }}", ["use.hmpo and use.two_stage", "two phases"]),
        (f'{R}, use = {{ s = {{ type = "two_stage" }}, h = {{ type = "hmpo" }} }}', ["use.s and use.h", "undo"]),
        (f"{R}, validation = {{ step = 1 }}", ["unknown key 'step'", "phase.p.validation"]),
        (f"{R}, {WATCHED}", ["use.l.metric is measured by a validation", "add validation = {}"]),
        (f'{R}, loss = {{ clipped = {{ aggregate = "tokens" }} }}', ["phase.p.loss.clipped", "did you mean 'token'"]),
    ],
)  # fmt: skip
def test_each_is_refused(tmp_path: Path, phase: str, words: list[str]) -> None:
    with pytest.raises(UserError) as fault:
        load(tmp_path, phase)
    assert all(word in str(fault.value) for word in words), str(fault.value)


@pytest.mark.parametrize("key", ["top_p", "top_k", "min_p"])
@pytest.mark.parametrize(
    "place",
    [
        f"{R}, {{}}", f"{T}, {{}}", f"{J}, {{}}", 'signal = "hmpo", {}', 'signal = "teacher_k1", route = "slow", {}',
        "rollout", "student.engine", "eval", "hint",
    ],
)  # fmt: skip
def test_a_sampler_that_cuts_the_support_is_refused(tmp_path: Path, key: str, place: str) -> None:
    """Rollouts come from pi itself: under a cut support importance ratios are of another distribution."""
    table = "phase.p" if "signal" in place else place
    phase, more = (place.format(f"{key} = 0.9"), "") if "signal" in place else (R, f"{place} = {{ {key} = 0.9 }}")
    with pytest.raises(UserError) as fault:
        load(tmp_path, phase, more)
    assert f"{table}.{key} is refused" in str(fault.value) and "use temperature" in str(fault.value)


@pytest.mark.parametrize(
    "phase",
    [
        f"{T}, loss = {{ reverse_kl = {{}}, jsd = {{ beta = 0.1 }} }}, use = {{ dropout = {{ rate = 0.2 }} }}",
        f"{R}, tis_cap = 0, use = {{ icepop = {{}}, role_credit = {{ reasoning = 0.5 }} }}",
        'signal = "joint", route = { ledger = "wise" }, use = { f = { type = "linear", target = "alpha", end = 0.0 } }',
        f"{R}, difficulty = {{ rollouts = 8 }}",
        f"{R}, {CURRICULUM.format(0.1)}",
        f"{R}, {WATCHED}, validation = {{ every = 2 }}",
        f'{J}, use = {{ pprs = {{ terminal = "progress" }} }}',
        f"{R}, use = {{ overlong = {{ max_tokens = 9, buffer_tokens = 3 }}, two_stage = {{}} }}",
        f'{R}, loss = {{ clipped = {{ aggregate = {{ type = "constant", constant_tokens = 8 }} }} }}',
        f'{T}, {MIXED}, auxiliary = {{ model = "weak", lr = 0.0 }}',
        f'{T}, {MIXED}, auxiliary = {{ model = "builtin:tiny" }}',
    ],
)
def test_what_is_right_is_accepted_and_its_defaults_are_filled(tmp_path: Path, phase: str) -> None:
    recipe = load(tmp_path, phase)
    assert recipes.from_json(recipe.resolved_json()).fingerprint() == recipe.fingerprint()
    for name, table in recipe.phase["p"].use.items():  # type: ignore[union-attr]
        assert set(table.options) == set(type(table.config(name)).model_fields)


def test_a_teacher_with_another_vocabulary_is_refused(tmp_path: Path, tiny_folder: Path) -> None:
    text = (tiny_folder / "tokenizer.json").read_text(encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").write_text(text, encoding="utf-8")
    more = f'[teachers.far]\ntype = "frozen"\npath = "{other}"\n'
    assert load(tmp_path, 'signal = "teacher", route = "far"', more)
    data = json.loads(text)
    vocab = data["model"]["vocab"]
    first, second = list(vocab)[-2:]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    (other / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UserError, match="teachers.far.path must hold a model of the student's vocabulary"):
        load(tmp_path, 'signal = "teacher", route = "far"', more)
    with pytest.raises(UserError, match="phase.p.auxiliary.model must hold a model of the student's vocabulary"):
        load(tmp_path, f'{T}, {MIXED}, auxiliary = {{ model = "{other}" }}')


def test_two_policies_need_the_trainer_that_can_train_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'phase\.p\.auxiliary needs student\.trainer\.type = "local"'):
        load(tmp_path, f'{T}, {MIXED}, auxiliary = {{ model = "weak" }}', 'student.trainer.type = "my.trainer"\n')


OWN = """
from noria.signals.base import SignalConfig, over_known

SLOT = "advantage"


class Config(SignalConfig):
    share: float = 1.0


def build(config):
    return lambda rewards: over_known(rewards, lambda values: config.share * (values - values.max()))
"""


@pytest.mark.parametrize(
    "phase", ['signal = "{}", advantage = {{ share = 0.5 }}', 'signal = "joint", route = "slow", {}']
)
def test_an_advantage_of_the_users_own_is_found_by_its_dotted_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    from noria.core.recipe_phases import JointPhase, RlPhase, advantage_of

    (tmp_path / "own_parts").mkdir()
    (tmp_path / "own_parts" / "best.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own_parts", "own_parts.best"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    dotted = "own_parts.best"
    joint = f'advantage = {{ type = "{dotted}", share = 0.5 }}'
    recipe = load(tmp_path, phase.format(joint if "joint" in phase else dotted))
    assert recipes.from_json(recipe.resolved_json()).fingerprint() == recipe.fingerprint()
    found = recipe.phase["p"]
    assert isinstance(found, RlPhase | JointPhase) and advantage_of(found) == dotted
    assert found.advantage.options == {"share": 0.5}
    with pytest.raises(UserError, match=r"unknown key 'shares' in \[phase.p.advantage\]"):
        load(
            tmp_path,
            phase.replace("share", "shares").format(joint.replace("share", "shares") if "joint" in phase else dotted),
        )


def test_options_of_an_advantage_are_filled_and_an_unset_one_has_its_defaults(tmp_path: Path) -> None:
    def options(phase: str) -> dict[str, object]:
        return load(tmp_path, phase).phase["p"].advantage.options  # type: ignore[union-attr]

    assert options('signal = "group_std", advantage = { ddof = 1 }') == {"ddof": 1, "eps": 1e-6}
    assert options('signal = "group_std"') == {"ddof": 0, "eps": 1e-6}
    assert options(f'{J}, advantage = {{ type = "group_std", eps = 0.5 }}') == {"ddof": 0, "eps": 0.5}
    assert options(f'{J}, advantage = "rloo"') == options(R) == {}


def test_no_more_workers_sample_than_there_are(tmp_path: Path) -> None:
    executor = 'executor = { type = "local", workers = 2 }'
    assert load(tmp_path, f"{R}, actors = 2", executor)
    with pytest.raises(UserError, match=r"phase\.p\.actors must not exceed executor\.workers: got 3 and 2"):
        load(tmp_path, f"{R}, actors = 3", executor)
