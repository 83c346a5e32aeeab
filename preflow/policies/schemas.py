"""The tables of trained policies; apart from their code, so that knowing them needs no torch."""

import dataframely as dy

from preflow.schemas import hash_column, messages_column, pair_id_column, split_column


def treatment_column() -> dy.String:
    """Which derived dataset a policy was trained on."""
    return dy.String(regex="^[a-z0-9_]+$", description="What the policy was trained on; `start`: on no pairs at all.")


def seed_column() -> dy.Int64:
    """The seed of a training."""
    return dy.Int64(min=0, description="Seed of the policy's training.")


class PolicyResponses(dy.Schema):
    """One row per response that a policy sampled to a held-out prompt."""

    treatment = treatment_column()
    seed = seed_column()
    split = split_column()
    prompt_group = hash_column("Hash of the normalised prompt: resample and pair by it.")
    prompt = messages_column("Chat messages before the response, without the goal.")
    goal = dy.Float64(nullable=True, description="Score that the prompt asked for; null where it asked for none.")
    sample_ = dy.Int64(alias="sample", min=0, description="Which response to this prompt and goal, from 0.")
    response = dy.String(description="What the policy said.")


class PolicyLogprobs(dy.Schema):
    """One row per pair and policy: summed log-probabilities under it and under the start policy, without a goal."""

    treatment = treatment_column()
    seed = seed_column()
    pair_id = pair_id_column(primary_key=False)
    split = split_column()
    prompt_group = hash_column("Hash of the normalised prompt: resample and pair by it.")
    score_rejected = dy.Float64(nullable=True, description="Score of the rejected response in the data, if it has one.")
    logp_chosen = dy.Float64(description="log pi(chosen | prompt).")
    logp_rejected = dy.Float64(description="log pi(rejected | prompt).")
    ref_logp_chosen = dy.Float64(description="log pi_start(chosen | prompt).")
    ref_logp_rejected = dy.Float64(description="log pi_start(rejected | prompt).")
