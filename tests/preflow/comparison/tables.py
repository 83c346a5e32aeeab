"""Tables of a comparison whose truth is known, for the tests of the comparison and of its report section."""

import numpy as np
import polars as pl

from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.policies.schemas import PolicyLogprobs

GOALS = (4.0, 7.0, 10.0)


def group(i):
    return f"{i:032x}"


def judged_rows(treatment, scores, *, goal=None, split="test", words=None, judge="gold"):
    """Responses of one policy: scores [prompt, seed, sample]."""
    scores = np.asarray(scores, dtype=float)
    words = np.full(scores.shape, 20) if words is None else np.asarray(words)
    return [
        {
            "treatment": treatment, "seed": seed, "split": split, "prompt_group": group(prompt),
            "prompt": [{"role": "user", "content": f"prompt {prompt}"}], "goal": goal, "sample": sample,
            "response": "said", "gold": None, "reward": None, judge: float(score), "words": int(words[place]),
        }
        for place, score in np.ndenumerate(scores)
        for prompt, seed, sample in [place]
    ]  # fmt: skip


def judged(*parts):
    rows = [row for part in parts for row in part]
    return JudgedResponses.validate(pl.DataFrame(rows, schema=JudgedResponses.create_empty().schema), cast=True)


def world(effects, *, prompts=60, seeds=2, samples=2, seed=0):
    """Policies whose mean score is 5 plus their effect, on prompts that differ more than policies do."""
    rng = np.random.default_rng(seed)
    easy = rng.normal(5, 1.5, (prompts, 1, 1))
    shape = (prompts, seeds, samples)
    return judged(*(judged_rows(name, easy + effect + rng.normal(0, 1, shape)) for name, effect in effects.items()))


def goal_world(*, best_on_validation=7.0, best_on_test=10.0, seed=0):
    """`reward_augmented` asked for GOALS, its best goal not the same on the two splits; `untreated` asked too."""
    rng = np.random.default_rng(seed)
    shape = (24, 2, 1)
    parts = [judged_rows("untreated", rng.normal(5, 1, shape))]
    for split, best in (("validation", best_on_validation), ("test", best_on_test)):
        for goal in GOALS:
            mean = goal / 2 + 3 * (goal == best)
            parts.append(judged_rows("reward_augmented", rng.normal(mean, 1, shape), goal=goal, split=split))
            parts.append(judged_rows("untreated", rng.normal(5, 1, shape), goal=goal, split=split))
    return judged(*parts)


def logprobs(drift_rejected, *, pairs=80, seeds=2, seed=0):
    """Policies whose good rejected responses drift by the given mean and whose chosen ones do not drift on average.

    Two pairs a prompt; the first half is of train and the second of test, every other rejected response is good.
    """
    rng = np.random.default_rng(seed)
    rows = [
        {
            "treatment": name, "seed": s, "pair_id": group(pair), "split": "train" if pair < pairs // 2 else "test",
            "prompt_group": group(pair // 2), "score_rejected": 8.0 if pair % 2 else 2.0,
            "logp_chosen": -50 + rng.normal(), "logp_rejected": -60 + mean + rng.normal(),
            "ref_logp_chosen": -50.0, "ref_logp_rejected": -60.0,
        }
        for name, mean in drift_rejected.items()
        for s in range(seeds)
        for pair in range(pairs)
    ]  # fmt: skip
    return PolicyLogprobs.validate(pl.DataFrame(rows, schema=PolicyLogprobs.create_empty().schema), cast=True)


def no_logprobs():
    return PolicyLogprobs.create_empty()


def no_verdicts():
    return EndpointVerdicts.create_empty()


def verdicts(wins, *, treatment="reward_augmented", baseline="untreated"):
    """Verdicts of one seed and sample, `wins` one a prompt: 1, 0.5 or 0."""
    orders = {1.0: ("treatment", "treatment"), 0.5: ("treatment", "baseline"), 0.0: ("baseline", "baseline")}
    rows = [
        {
            "treatment": treatment, "baseline": baseline, "seed": 0, "prompt_group": group(i), "sample": 0,
            "first_order": orders[win][0], "second_order": orders[win][1], "win": win,
        }
        for i, win in enumerate(wins)
    ]  # fmt: skip
    return EndpointVerdicts.validate(pl.DataFrame(rows, schema=EndpointVerdicts.create_empty().schema), cast=True)
