"""Training on toy data: it learns what it is told, repeats to the bit, keeps a curriculum and survives kill -9."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from preflow.lm.checkpoints import OtherRunError, checkpoints
from preflow.lm.logprobs import response_logprobs
from preflow.lm.reference import weights_key
from preflow.lm.trainer import Example, PolicyTrainer, collate, train, with_reference
from preflow.objectives import dpo, ipo, robust_dpo, sft, simpo
from preflow.store import ArrayStore
from tests.preflow.lm.conftest import make_model, random_responses

SETTINGS = {
    "steps": 12,
    "batch_size": 8,
    "micro_batch_size": 8,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "warmup_share": 0.1,
    "order": "shuffled",
    "seed": 0,
    "bf16": False,
    "log_steps": 4,
}
DPO = partial(dpo, beta=0.1, label_smoothing=0.0)


@pytest.fixture
def examples(model, tmp_path):
    sides = random_responses(48, seed=1)
    pairs = list(zip(sides[::2], sides[1::2], strict=True))
    return with_reference(pairs, model, "w", ArrayStore(tmp_path / "reference"), max_batch_tokens=400)


def summed(model, sides):
    return np.array([values.sum() for values in response_logprobs(model, sides, max_batch_tokens=400)])


def test_starts_at_ln_2(model, examples):
    history = train(model, examples, DPO, **SETTINGS | {"steps": 1, "log_steps": 1}).history
    assert history[0]["loss"] == pytest.approx(np.log(2), abs=1e-4)
    assert history[0]["margin"] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    "objective",
    [
        DPO,
        partial(dpo, beta=0.1, label_smoothing=0.2),
        partial(robust_dpo, beta=0.1, label_smoothing=0.2),
        partial(ipo, beta=0.5),
        partial(simpo, beta=2.0, target_margin=0.5),
    ],
)
def test_chosen_gains_on_rejected(model, examples, objective):
    """The sign test: every objective moves the policy towards chosen, and the metrics say so."""
    before = summed(model, [x.chosen for x in examples]) - summed(model, [x.rejected for x in examples])
    trained = train(model, examples, objective, **SETTINGS)
    after = summed(trained.model, [x.chosen for x in examples]) - summed(trained.model, [x.rejected for x in examples])
    assert (after > before).mean() > 0.9
    assert trained.history[-1]["margin"] > 1
    assert trained.history[-1]["accuracy"] > 0.8
    assert [row["step"] for row in trained.history] == [4, 8, 12]


def test_label_smoothing_reaches_the_training(examples):
    weights = {
        weights_key(train(make_model(0), examples, partial(dpo, beta=0.1, label_smoothing=e), **SETTINGS).model)
        for e in (0.0, 0.3)
    }
    assert len(weights) == 2


def shared(examples, *shares):
    """The examples with these shares, in turn."""
    return [replace(x, share=shares[n % len(shares)]) for n, x in enumerate(examples)]


def test_a_share_of_one_trains_the_same_policy_to_the_bit_and_none_counts_as_one(examples):
    given = {"none": examples, "one": shared(examples, 1.0), "some": shared(examples, 1.0, None)}
    keys = {name: weights_key(train(make_model(0), rows, DPO, **SETTINGS).model) for name, rows in given.items()}
    assert len(set(keys.values())) == 1
    assert weights_key(train(make_model(0), shared(examples, 0.8), DPO, **SETTINGS).model) not in keys.values()


def test_a_share_of_four_fifths_trains_as_label_smoothing_of_one_fifth_does(examples):
    soft = train(make_model(0), shared(examples, 0.8), DPO, **SETTINGS).history
    smoothed = train(make_model(0), examples, partial(dpo, beta=0.1, label_smoothing=0.2), **SETTINGS).history
    for one, other in zip(soft, smoothed, strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_pairs_with_even_votes_get_no_margin_and_agreed_ones_a_large_one(examples):
    even = train(make_model(0), shared(examples, 0.5), DPO, **SETTINGS).history[-1]["margin"]
    agreed = train(make_model(0), shared(examples, 1.0), DPO, **SETTINGS).history[-1]["margin"]
    assert agreed > 1
    assert abs(even) < 0.2 * agreed
    mixed = train(make_model(0), shared(examples, 0.5, 1.0), DPO, **SETTINGS | {"steps": 40}).model
    learned = summed(mixed, [x.chosen for x in examples]) - summed(mixed, [x.rejected for x in examples])
    margin = learned - [x.reference[0] - x.reference[1] for x in examples]
    assert abs(margin[::2].mean()) < 0.3 * margin[1::2].mean()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(examples, share):
    with pytest.raises(ValueError, match=r"share of the votes for chosen must lie in \[0, 1\]"):
        replace(examples[0], share=share)


def test_a_share_with_nothing_to_share_is_refused(examples):
    for lacking in ({"rejected": None, "reference": None}, {"votes": (1.0, 2.0)}):
        with pytest.raises(ValueError, match="a share needs a rejected response, and no votes beside it"):
            replace(examples[0], share=0.5, **lacking)


def test_sft_raises_the_likelihood(model):
    lone = [Example(side) for side in random_responses(24, seed=2)]
    history = train(model, lone, sft, **SETTINGS | {"steps": 40}).history
    assert history[0]["loss"] > 3.5
    assert history[-1]["loss"] < 3


@pytest.mark.parametrize("order", ["shuffled", "by_length", "given"])
def test_same_arguments_give_the_same_bytes(examples, order):
    torch.manual_seed(1)
    one = train(make_model(0), examples, DPO, **SETTINGS | {"order": order})
    torch.manual_seed(2)  # the caller's random state plays no part
    two = train(make_model(0), examples, DPO, **SETTINGS | {"order": order})
    assert weights_key(one.model) == weights_key(two.model)
    assert one.history == two.history


def test_training_leaves_the_random_state_alone(model, examples):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(model, examples, DPO, **SETTINGS | {"steps": 1})
    assert torch.equal(before, torch.get_rng_state())


def test_micro_batches_give_the_same_update(examples):
    whole = train(make_model(0), examples, DPO, **SETTINGS | {"steps": 3})
    parts = train(make_model(0), examples, DPO, **SETTINGS | {"steps": 3, "micro_batch_size": 2})
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


def test_curriculum_order_is_kept(model, examples, monkeypatch):
    seen = []

    def watch(self, model, inputs, *args, loss=PolicyTrainer.compute_loss, **kwargs):
        seen.extend(inputs["reference"][0].tolist())
        return loss(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(PolicyTrainer, "compute_loss", watch)
    train(model, examples, DPO, **SETTINGS | {"order": "given", "steps": 3})
    np.testing.assert_allclose(seen, [x.reference[0] for x in examples], rtol=1e-6)


def test_batch_holds_the_same_pairs_in_any_order(model, examples):
    batch, swapped = collate(examples[:4]), collate(examples[3::-1])
    assert torch.equal(batch["reference"], swapped["reference"].flip(1))


@pytest.mark.parametrize("position", [0, 5])
@pytest.mark.parametrize("field", ["rejected", "reference", "votes"])
def test_half_given_columns_are_refused(model, examples, field, position):
    """Wherever the gap is: nothing depends on which row comes first."""
    examples = [replace(x, votes=(1.0, 2.0)) for x in examples] if field == "votes" else examples
    examples[position] = replace(examples[position], **{field: None})
    with pytest.raises(ValueError, match=f"23 of 24 examples have `{field}`"):
        train(model, examples, DPO, **SETTINGS)


def test_refusals_name_the_remedy(model, examples):
    with pytest.raises(ValueError, match="batch_size 8 is no multiple of micro_batch_size"):
        train(model, examples, DPO, **SETTINGS | {"micro_batch_size": 3})
    with pytest.raises(ValueError, match="must be a multiple of log_steps"):
        train(model, examples, DPO, **SETTINGS, checkpoint_steps=3)
    with pytest.raises(ValueError, match="0 examples"):
        train(model, [], DPO, **SETTINGS)
    with pytest.raises(FloatingPointError, match="the loss is nan by step 1"):
        train(model, examples, lambda pairs: pairs.chosen * torch.nan, **SETTINGS | {"log_steps": 1})


def test_probe_sees_the_model_on_its_way(model, examples):
    seen = {}
    trained = train(
        model, examples, DPO, **SETTINGS, probe=lambda step, m: seen.update({step: weights_key(m)}), probe_steps=[3, 12]
    )
    assert list(seen) == [3, 12]
    assert seen[12] == weights_key(trained.model) != seen[3]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft 0.21 asks transformers 5.24
def test_lora_trains_and_comes_back_as_a_plain_model(model, examples):
    embedding = model.get_input_embeddings().weight.detach().clone()
    before = weights_key(model)
    names = list(model.state_dict())
    settings = SETTINGS | {"learning_rate": 1e-2, "steps": 40}
    trained = train(model, examples, DPO, **settings, lora_rank=4)
    assert list(trained.model.state_dict()) == names
    assert torch.equal(embedding, trained.model.get_input_embeddings().weight)
    assert weights_key(trained.model) != before
    assert trained.history[-1]["margin"] > 1
    again = train(make_model(0), examples, DPO, **settings, lora_rank=4)
    assert weights_key(again.model) == weights_key(trained.model)


def test_bfloat16_learns_and_gives_back_a_float32_model(model, examples):
    trained = train(model, examples, DPO, **SETTINGS | {"bf16": True})
    assert trained.history[-1]["margin"] > 1
    plain = make_model(0)
    plain.load_state_dict(trained.model.state_dict())
    ids = torch.tensor([[2, 8, 9]])
    assert torch.equal(trained.model(ids).logits, plain(ids).logits)  # no autocast is left behind


# Checkpoints

RESUMABLE = SETTINGS | {"log_steps": 3, "checkpoint_steps": 3}


@pytest.fixture
def run(examples, tmp_path):
    """Train from the same start in a folder; the weights' key and history, or None if it was to fail after `until`."""
    folder = tmp_path / "run"

    def run(*, until=None, **changed):
        def stop(step, _):
            raise KeyboardInterrupt

        settings = RESUMABLE | {"folder": folder} | changed
        probe = {"probe": stop, "probe_steps": [until]} if until else {}
        try:
            trained = train(make_model(0), examples, DPO, **settings, **probe)
        except KeyboardInterrupt:
            return None
        return weights_key(trained.model), trained.history

    run.folder = folder
    return run


@pytest.fixture
def undisturbed(examples):
    trained = train(make_model(0), examples, DPO, **SETTINGS | {"log_steps": 3})
    return weights_key(trained.model), trained.history


def damage(path):
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def test_resumed_run_equals_an_undisturbed_one(run, undisturbed):
    assert run(until=8) is None
    assert [path.name for path in checkpoints(run.folder)] == ["checkpoint-6", "checkpoint-3"]
    assert run() == undisturbed


def test_truncated_newest_checkpoint_is_passed_over(run, undisturbed):
    run(until=8)
    damage(checkpoints(run.folder)[0])
    seen = []
    assert run(probe=lambda step, _: seen.append(step), probe_steps=range(13)) == undisturbed
    assert seen == list(range(4, 13))


def test_unsealed_and_altered_checkpoints_are_passed_over(run, undisturbed):
    run(until=8)
    newest, older = checkpoints(run.folder)
    (newest / "seal.json").unlink()
    optimizer = older / "optimizer.pt"
    data = bytearray(optimizer.read_bytes())
    data[len(data) // 2] ^= 1
    optimizer.write_bytes(data)
    assert run() == undisturbed


def test_only_the_newest_two_are_kept_and_nothing_else_is_left(run):
    run()
    assert sorted(path.name for path in run.folder.iterdir() if any(path.iterdir())) == [
        "checkpoint-12",
        "checkpoint-9",
    ]


def test_finished_run_is_not_trained_again(run):
    first = run()
    seen = []
    assert run(probe=lambda step, _: seen.append(step), probe_steps=range(13)) == first
    assert seen == []


@pytest.mark.parametrize("changed", [{"learning_rate": 1e-3}, {"seed": 1}, {"steps": 15}])
def test_checkpoint_of_another_run_is_refused(run, changed):
    run(until=8)
    with pytest.raises(OtherRunError, match="other data, weights or settings"):
        run(**changed)


def test_checkpoint_of_other_shares_is_refused(run, examples):
    run(until=8)
    with pytest.raises(OtherRunError, match="other data, weights or settings"):
        train(make_model(0), shared(examples, 0.8), DPO, **RESUMABLE, folder=run.folder)


KILLED = """
import os, signal, sys
from pathlib import Path
from preflow.lm import trainer
from tests.preflow.lm.test_trainer import RESUMABLE, make_model, random_responses
from preflow.objectives import sft
def publish(aside, folder, run, publish=trainer.publish):
    if aside.name == "checkpoint-6":
        os.kill(os.getpid(), signal.SIGKILL)  # all files are written, the seal is not
    publish(aside, folder, run)
if sys.argv[2] == "kill":
    trainer.publish = publish
lone = [trainer.Example(side) for side in random_responses(24, seed=2)]
settings = RESUMABLE | {"folder": Path(sys.argv[1])}
print(trainer.weights_key(trainer.train(make_model(0), lone, sft, **settings).model))
"""


def test_kill_9_while_a_checkpoint_is_written(tmp_path):
    def process(how):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "run"), how]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": "."}
        )

    killed = process("kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["checkpoint-3"]
    lone = [Example(side) for side in random_responses(24, seed=2)]
    whole = weights_key(train(make_model(0), lone, sft, **SETTINGS).model)
    resumed = process("go on")
    assert resumed.stdout.strip() == whole, resumed.stderr
