"""What the trainer sees of a batch: the logits of the two verdicts and of nothing else."""

import pytest
import torch

from preflow.generative_reward.forward import VERDICT, VerdictLogits, verdict_objective
from preflow.generative_reward.judge import verdict_tokens
from preflow.generative_reward.losses import verdict_loss
from preflow.generative_reward.training import verdict_examples
from preflow.lm.trainer import collate
from preflow.objectives import soft_label_loss
from preflow.world.keyed import JUDGE_OF_KEYS
from tests.preflow.generative_reward.conftest import SMOOTHING, labels

OBJECTIVE = verdict_objective(**SMOOTHING)


def batch_of(judge, rows):
    return collate(verdict_examples(judge.policy, JUDGE_OF_KEYS, rows, max_prompt_tokens=24))


@pytest.mark.claim("gram-3")
def test_no_other_token_counts(judge, record_claim):
    batch = batch_of(judge, labels(0, 16))
    tokens = list(verdict_tokens(judge.tokenizer, JUDGE_OF_KEYS))
    others = [i for i in range(judge.model.config.vocab_size) if i not in tokens]
    losses = [OBJECTIVE(VERDICT.pairs(judge.model, **batch))]
    for shift in (100.0, -100.0):
        for moved in (others, others[::2], others[:1]):
            losses.append(with_moved_logits(judge.model, batch, moved, shift))
    moved_verdict = with_moved_logits(judge.model, batch, tokens[:1], 100.0)
    change = max(float((losses[0] - other).abs().max().detach()) for other in losses[1:])
    record_claim(f"loss changed by {change:g} in {len(losses) - 1} ways to move them", change == 0)
    assert len(others) > 70
    assert change == 0
    assert not torch.equal(losses[0], moved_verdict), "the same hand moves a verdict's logit"


def with_moved_logits(model, batch, tokens, shift):
    def moved(_, __, logits):
        logits = logits.clone()
        logits[..., tokens] += shift
        return logits

    handle = model.get_output_embeddings().register_forward_hook(moved)
    try:
        return OBJECTIVE(VERDICT.pairs(model, **batch))
    finally:
        handle.remove()


def test_the_logits_are_those_of_the_whole_model(judge):
    rows = labels(0, 6)
    batch = batch_of(judge, rows)
    found = VERDICT.pairs(judge.model, **batch)
    with torch.no_grad():
        everything = judge.model(input_ids=batch["input_ids"]).logits
    first, second = verdict_tokens(judge.tokenizer, JUDGE_OF_KEYS)
    at = batch["predicts"][:12].int().argmax(1)
    said = everything[torch.arange(12), at][:, [first, second]]
    torch.testing.assert_close(found.winner, torch.stack([said[0::2, 0], said[1::2, 1]], 1).ravel())
    torch.testing.assert_close(found.loser, torch.stack([said[0::2, 1], said[1::2, 0]], 1).ravel())


def test_a_share_of_votes_is_the_expected_loss():
    generator = torch.Generator().manual_seed(0)
    winner, loser, share = torch.randn(3, 5, generator=generator)
    share = share.sigmoid()
    logits, who = torch.stack([winner, loser], 1), torch.zeros(5, dtype=torch.int64)
    losses = [verdict_loss(logits, each, **SMOOTHING) for each in (who, 1 - who)]
    found = soft_label_loss(OBJECTIVE, VerdictLogits(winner, loser, share))
    torch.testing.assert_close(found, share * losses[0] + (1 - share) * losses[1])
    torch.testing.assert_close(VerdictLogits(winner, loser, share).swapped().share, 1 - share)


def test_logits_of_two_shapes_are_refused():
    with pytest.raises(ValueError, match=r"both must be \[B\]"):
        VerdictLogits(torch.zeros(3), torch.zeros(3, 1))
