"""The tables of a distillation."""

import dataframely as dy
import polars as pl

VERDICTS = ("teacher_hacking", "over_fit", "bad_teacher", "none")
SPLITS = ("oracle", "distillation", "validation")


def _regime() -> dy.String:
    return dy.String(primary_key=True, min_length=1, description="Name of the regime.")


def _seed() -> dy.Int64:
    return dy.Int64(primary_key=True, min=0, description="Of the oracle, its data, the models and the training.")


class OracleData(dy.Schema):
    """One row per prompt, with the oracle's response to it."""

    seed = _seed()
    row = dy.Int64(primary_key=True, min=0, description="Place among the prompts of the split.")
    split = dy.Enum(
        SPLITS,
        primary_key=True,
        description="Supervised training on the oracle's responses; distillation; measurement.",
    )
    prompt = dy.String(min_length=1, description="Text of the prompt; in the small language its vector, as JSON.")
    response = dy.String(
        nullable=True, description="The oracle's, as text; in the small language its tokens. Null: there is no oracle."
    )


class DistilCurve(dy.Schema):
    """One row per checkpoint of a run: distances of the student, in nats a response."""

    regime = _regime()
    seed = _seed()
    update = dy.Int64(primary_key=True, min=0, description="Updates made; 0 is the start.")
    golden = dy.Float64(nullable=True, min=0, description="KL(oracle || student), held-out prompts; null: no oracle.")
    proxy = dy.Float64(min=0, description="KL(teacher || student) on held-out prompts.")
    train_proxy = dy.Float64(min=0, description="KL(teacher || student) in the updates since the last checkpoint.")


class DistilEpochs(dy.Schema):
    """One row per time that a run drew its responses: once offline, else once a pass over the prompts."""

    regime = _regime()
    seed = _seed()
    epoch = dy.Int64(primary_key=True, min=0, description="Pass over the prompts, from 0.")
    responses = dy.String(regex="^[0-9a-f]{32}$", description="Digest of all responses in order.")
    new = dy.Float64(min=0, max=1, description="Share of responses that their prompt did not have the time before.")
    distinct_responses = dy.Float64(min=0, max=1, description="Share of responses that differ from all before.")
    distinct_2 = dy.Float64(min=0, max=1, description="Distinct bigrams over all bigrams of the responses.")
    overlap_2 = dy.Float64(min=0, max=1, description="Share of a response's bigrams in others to its prompt, mean.")


class DistilRuns(dy.Schema):
    """One row per run: what its curves say. Without an oracle what needs golden distances is null."""

    regime = _regime()
    seed = _seed()
    verdict = dy.Enum(VERDICTS, nullable=True, description="See preflow.distil.verdicts.")
    golden_end = dy.Float64(nullable=True, min=0, description="Golden distance at the end, nats a response.")
    golden_min = dy.Float64(nullable=True, min=0, description="The least golden distance of the run.")
    update_of_min = dy.Int64(nullable=True, min=0, description="Updates at the least golden distance.")
    golden_rise = dy.Float64(nullable=True, min=0, description="golden_end / golden_min - 1.")
    proxy_change = dy.Float64(nullable=True, description="Proxy at the end / proxy at the least golden distance - 1.")
    golden_deviation = dy.Float64(nullable=True, description="Log of golden_end over the power law of the early part.")
    proxy_end = dy.Float64(min=0, description="Proxy distance at the end, nats a response.")
    ratio_end = dy.Float64(min=0, description="train_proxy / proxy at the end.")
    proxy_deviation = dy.Float64(description="Log of proxy_end over the power law of the early part.")


class RemedyEffects(dy.Schema):
    """One row per remedy: what it changed beside the baseline regime, paired over seeds."""

    remedy = dy.String(primary_key=True, min_length=1, description="Name of its regime.")
    seeds = dy.Int64(min=1, description="Pairs of runs.")
    teacher_responses = dy.Int64(min=0, description="Responses that the teacher generates in the run.")
    more_prompts = dy.Int64(min=0, description="Prompts beyond those of the baseline.")
    golden_change = dy.Float64(nullable=True, description="Mean log of golden_end / the baseline's; null: no oracle.")
    golden_low = dy.Float64(nullable=True, description="Lower end of its 95 % interval over seeds.")
    golden_high = dy.Float64(nullable=True, description="Upper end.")
    proxy_change = dy.Float64(description="Mean log of proxy_end over the baseline's.")
    proxy_low = dy.Float64(description="Lower end of its 95 % interval over seeds.")
    proxy_high = dy.Float64(description="Upper end.")
    alarms = dy.Float64(min=0, max=1, description="Share of its runs that set off the alarm.")

    @dy.rule()
    def golden_has_an_interval(cls) -> pl.Expr:
        """The three golden columns are null together."""
        return (cls.golden_change.col.is_null() == cls.golden_low.col.is_null()) & (
            cls.golden_low.col.is_null() == cls.golden_high.col.is_null()
        )
