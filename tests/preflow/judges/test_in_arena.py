"""A style-biased judge in an arena with divisive prompts, and the ranking with and without them."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau, ttest_1samp
from sklearn.linear_model import LogisticRegression

from preflow.divergence.classes import agreement_classes
from preflow.judges.audit import judge_audit
from preflow.judges.rankings import ranking, system_matches, without_divisive
from tests.preflow.judges.arena import draw_arena

HOW = {"bootstrap": 2000, "seed": 0}
WORLDS = 20
N = 1500


def measured(seed, *, style_bias=1.5):
    """Winner rates, the diverging share before and after, and Kendall's tau with the truth before and after.

    Which pairs will diverge is predicted by a model fitted on the votes of the first half; the second half is judged.
    """
    arena = draw_arena(2 * N, seed=seed, style_bias=style_bias)
    classes = agreement_classes(arena.comparisons, arena.votes, careless=[])
    order = arena.comparisons.select("pair_id").collect()["pair_id"]
    diverging = (
        order.to_frame().join(classes, on="pair_id", maintain_order="left")["agreement_class"].to_numpy() == "diverging"
    )
    model = LogisticRegression().fit(arena.features[:N], diverging[:N])
    score = model.predict_proba(arena.features[N:])[:, 1]
    judged = arena.verdicts[N:]
    weights = without_divisive(pl.DataFrame({"prompt_group": judged["pair_id"], "score": score}), share=0.1, weight=0.0)
    kept = weights.filter(pl.col("weight") > 0)["prompt_group"]
    matches = system_matches(arena.comparisons, judged)
    audit = judge_audit(arena.comparisons, classes.lazy(), judged, **HOW)
    left = order[N:].is_in(kept.implode()).to_numpy()
    return {
        "difference": audit["diverging_minus_preference"]["estimate"],
        "shares": (diverging[N:].mean(), diverging[N:][left].mean()),
        "tau": [tau(ranking(matches, given, **HOW), arena.quality) for given in (None, weights)],
    }


def tau(ranked, quality):
    names = [row["system"] for row in ranked]
    return kendalltau([row["rating"] for row in ranked], [quality[name] for name in names]).statistic


@pytest.mark.full
@pytest.mark.claim("div-11")
def test_a_style_biased_judge_names_winners_where_people_differ(record_claim):
    found = [measured(seed) for seed in range(WORLDS)]
    difference = np.array([one["difference"] for one in found])
    before, after = np.array([one["shares"] for one in found]).T
    gain = np.diff([one["tau"] for one in found], axis=1)[:, 0]
    p = ttest_1samp(gain, 0, alternative="greater").pvalue
    cut = 1 - after.mean() / before.mean()
    taus = np.mean([one["tau"] for one in found], axis=0)
    holds = abs(difference.mean()) <= 0.05 and cut >= 0.3 and p < 0.05
    record_claim(
        f"winner rate on diverging minus agreed {difference.mean():+.3f} "
        f"(farthest {difference[np.abs(difference).argmax()]:+.3f}); "
        f"diverging share {before.mean():.3f} to {after.mean():.3f} (-{cut:.0%}); "
        f"tau with the truth {taus[0]:.2f} to {taus[1]:.2f} "
        f"(p = {p:.0e})",
        holds=bool(holds),
        seeds=WORLDS,
    )
    assert holds


def test_a_judge_without_style_bias_gains_nothing():
    gain = [np.subtract(*measured(seed, style_bias=0.0)["tau"][::-1]) for seed in range(4)]
    assert abs(np.mean(gain)) <= 0.05
