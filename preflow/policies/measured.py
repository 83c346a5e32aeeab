"""What is measured of a trained policy: sampled responses to held-out prompts, and log-probabilities of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from preflow.lm.generate import sample
from preflow.policies.study import Study
from preflow.policies.training import examples_of, log_ratios
from preflow.treatments.goals import GoalText, with_goal

Goals = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How responses are sampled."""

    samples: int
    """Responses to each prompt under each goal."""
    temperature: float
    max_prompt_tokens: int
    max_new_tokens: int
    batch_size: int


def held_out_prompts(rows: pl.DataFrame, *, most: int) -> pl.DataFrame:
    """One prompt of each prompt group of `TreatedPairs`, at most so many of each split.

    Columns split, prompt_group and prompt. Those of test stand first, so that they meet the same chance whether or not
    prompts of another split are asked as well; see `responses`.
    """
    ordered = rows.sort(pl.col("split") != "test", "prompt_group", "pair_id")
    first = ordered.unique("prompt_group", keep="first", maintain_order=True)
    return first.select("split", "prompt_group", "prompt").group_by("split", maintain_order=True).head(most)


def responses(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: pl.DataFrame,
    *,
    goals: Goals,
    text: GoalText,
    sampling: Sampling,
    seed: int,
) -> pl.DataFrame:
    """Responses to every prompt under every goal (None: no goal): `PolicyResponses` without treatment and seed.

    The randomness of a response depends on the seed, its number and the place of its prompt in `prompts`, not on the
    goal or the policy, so that policies are compared under the same chance where they are asked the same prompts.
    """
    asked = prompts.join(pl.DataFrame({"sample": range(sampling.samples)}), how="cross")
    return pl.concat([_under(model, tokenizer, asked, goal, text, sampling, seed) for goal in goals])


def _under(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    asked: pl.DataFrame,
    goal: float | None,
    text: GoalText,
    sampling: Sampling,
    seed: int,
) -> pl.DataFrame:
    plain = asked["prompt"].to_list()
    target = (goal,) * len(text.attributes) if goal is not None else None
    messages = [with_goal(prompt, target, text) for prompt in plain] if target else plain
    said = sample(
        model,
        tokenizer,
        messages,
        max_prompt_tokens=sampling.max_prompt_tokens,
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        seed=seed,
        batch_size=sampling.batch_size,
    )
    return asked.with_columns(goal=pl.lit(goal, dtype=pl.Float64), response=pl.Series(said, dtype=pl.String))


def pair_logprobs(model: PreTrainedModel, study: Study, rows: pl.DataFrame) -> pl.DataFrame:
    """Log-probabilities of both responses of each row under `model` and the start policy, under the row's own prompt.

    `PolicyLogprobs` without treatment and seed.
    """
    examples = examples_of(study, rows)
    ratios = log_ratios(model, examples, max_batch_tokens=study.recipe.max_batch_tokens)
    references = pl.DataFrame(
        [example.reference for example in examples], schema=["ref_logp_chosen", "ref_logp_rejected"], orient="row"
    )
    gained = references.with_columns(
        logp_chosen=pl.col("ref_logp_chosen") + ratios[:, 0], logp_rejected=pl.col("ref_logp_rejected") + ratios[:, 1]
    )
    return rows.select("pair_id", "split", "prompt_group", "score_rejected").hstack(gained)
