"""The same token ids through TRL's trainer: the same reference log-probabilities, loss and gradients."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from accelerate import PartialState
from datasets import Dataset

from preflow.lm.chat import Encoded
from preflow.lm.reference import reference_logprobs
from preflow.lm.trainer import Example, collate, pair_logprobs, with_reference
from preflow.objectives import dpo, ipo, robust_dpo, sft, simpo
from preflow.store import ArrayStore
from tests.preflow.lm.conftest import make_model, random_responses

pytest.importorskip("trl")

# TRL's `sigmoid` no longer takes label smoothing, so smoothed DPO is checked by hand in test_objectives.py.
OBJECTIVES = {
    "sigmoid": partial(dpo, beta=0.2, label_smoothing=0.0),
    "robust": partial(robust_dpo, beta=0.2, label_smoothing=0.1),
    "ipo": partial(ipo, beta=0.2),
    "sft": sft,
}


@pytest.fixture(scope="module")
def pairs():
    prompts, answers = random_responses(6, seed=1), random_responses(6, seed=2)
    return [
        (p, Encoded(p.ids[: p.prompt_length] + a.ids, p.prompt_length)) for p, a in zip(prompts, answers, strict=True)
    ]


@pytest.fixture
def trl_trainer(tokenizer, pairs, tmp_path, monkeypatch):
    """TRL's trainer on the very token ids; its own tokenisation is left out."""
    from trl import DPOConfig, DPOTrainer

    monkeypatch.setattr(DPOTrainer, "_prepare_dataset", lambda self, dataset, *args: dataset)
    columns = {
        "prompt_ids": [list(c.ids[: c.prompt_length]) for c, _ in pairs],
        "chosen_ids": [list(c.ids[c.prompt_length :]) for c, _ in pairs],
        "rejected_ids": [list(r.ids[r.prompt_length :]) for _, r in pairs],
    }

    def trainer(**settings):
        arguments = DPOConfig(
            output_dir=str(tmp_path / "trl"),
            max_length=None,
            report_to="none",
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            per_device_train_batch_size=len(pairs),
            train_sampling_strategy="sequential",
            **settings,
        )
        return DPOTrainer(
            model=make_model(seed=0, vocabulary=len(tokenizer)),
            ref_model=make_model(seed=1, vocabulary=len(tokenizer)),
            args=arguments,
            processing_class=tokenizer,
            train_dataset=Dataset.from_dict(columns),
        )

    return trainer


@pytest.mark.filterwarnings("ignore")  # TRL's own
@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradients_are_trls(name, trl_trainer, tokenizer, pairs, tmp_path):
    smoothing = {"label_smoothing": 0.1} if name == "robust" else {}
    trainer = trl_trainer(loss_type=[name], beta=0.2, **smoothing)
    inputs = next(iter(trainer.get_train_dataloader()))
    model, reference = (make_model(seed=seed, vocabulary=len(tokenizer)) for seed in (0, 1))
    examples = with_reference(pairs, reference, "r", ArrayStore(tmp_path / "store"), max_batch_tokens=100)
    batch = collate(examples)
    assert torch.equal(batch["input_ids"] * inputs["attention_mask"], inputs["input_ids"] * inputs["attention_mask"])

    theirs = trainer.compute_loss(trainer.model, inputs)
    ours = OBJECTIVES[name](pair_logprobs(model, **batch)).mean()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    theirs.backward()
    ours.backward()
    gradients = [(a.grad, b.grad) for a, b in zip(model.parameters(), trainer.model.parameters(), strict=True)]
    assert all(a.abs().max() > 0 for a, _ in gradients)
    for a, b in gradients:
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_reference_logprobs_are_trls(trl_trainer, tokenizer, pairs, tmp_path):
    trainer = trl_trainer(precompute_ref_log_probs=True)
    reference = make_model(seed=1, vocabulary=len(tokenizer))
    for side, column in ((0, "ref_chosen_logps"), (1, "ref_rejected_logps")):
        rows = [pair[side] for pair in pairs]
        ours = reference_logprobs(reference, "r", rows, ArrayStore(tmp_path / "store"), max_batch_tokens=100).tokens
        assert [v.sum() for v in ours] == pytest.approx(trainer.train_dataset[column], abs=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_simpo_is_trls(pairs):
    from trl.experimental.cpo import CPOTrainer

    batch = pair_logprobs(make_model(seed=0), **collate([Example(*pair) for pair in pairs]))
    settings = {"alpha": 0.0, "beta": 2.0, "simpo_gamma": 1.0, "label_smoothing": 0.0, "loss_type": "simpo"}
    trainer = SimpleNamespace(accelerator=PartialState(), **settings)
    means = batch.chosen / batch.chosen_tokens, batch.rejected / batch.rejected_tokens
    theirs = CPOTrainer.cpo_loss(trainer, *means)[0]
    torch.testing.assert_close(simpo(batch, beta=2.0, target_margin=1.0), theirs)
