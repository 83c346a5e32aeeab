"""One whole world: a policy taught by demonstration, and feedback on what it and the writers answer."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from preflow.world.feedback import JUDGE, PANEL, WorldFeedback, pair_up, world_feedback
from preflow.world.policy import Policies, demonstrated_policy, sampled_answers
from preflow.world.tasks import FAMILIES, LEVELS, Task, distinct_tasks, task_stream
from preflow.world.tokenizer import world_tokenizer
from preflow.world.writers import Answer, Habits, corrupted_answers, demonstrations


@dataclass(frozen=True, kw_only=True)
class WorldRecipe:
    """What decides a world, beside its seed."""

    size: str
    """Of the policy: a key of `preflow.world.policy.SIZES`."""
    demonstrations: int
    habits: Habits
    """Of the writer of the demonstrations."""
    system_share: float
    true_share: float
    """What demonstrations teach of scores; see `preflow.world.writers.demonstrations`."""
    steps: int
    early_step: int
    batch_size: int
    learning_rate: float
    prompts: int
    pairs_per_prompt: int
    temperatures: Sequence[float]
    """At which the late policy answers each prompt; the early one answers once, at the last of them."""
    errors: Sequence[int]
    """Numbers of errors in the corrupted answers, of which each prompt has two."""
    votes_per_pair: Sequence[int]
    flip_rate: float
    """Share of the pairs with a better response whose votes are turned round."""


DEFAULT_WORLD = WorldRecipe(
    size="tiny",
    demonstrations=12_000,
    habits=Habits(error=0.3, cut=0.3, refusal=0.2, style=0.2),
    system_share=0.5,
    true_share=1.0,
    steps=1_000,
    early_step=500,
    batch_size=64,
    learning_rate=5e-3,
    prompts=2_000,
    pairs_per_prompt=1,
    temperatures=(0.7, 1.0),
    errors=(1, 2, 3, 4, 5, 6),
    votes_per_pair=(3, 4, 5),
    flip_rate=0.2,
)
"""The world of the embedded example."""


def taught_policies(recipe: WorldRecipe, *, seed: int) -> Policies:
    """The policies of a world: supervised training on demonstrations. See `demonstrated_policy` for what is raised."""
    for_tasks, for_writing = np.random.default_rng([seed, 0]).spawn(2)
    tasks = itertools.islice(task_stream(for_tasks, families=list(FAMILIES), levels=LEVELS), recipe.demonstrations)
    taught = demonstrations(
        tasks, recipe.habits, for_writing, system_share=recipe.system_share, true_share=recipe.true_share
    )
    return demonstrated_policy(
        recipe.size,
        world_tokenizer(),
        taught,
        steps=recipe.steps,
        early_step=recipe.early_step,
        batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        seed=seed,
    )


def feedback_on(policies: Policies, recipe: WorldRecipe, *, seed: int) -> WorldFeedback:
    """Pairs of answers to the world's prompts, with votes, a judge's scores and the truth."""
    for_tasks, for_writing, for_pairs = np.random.default_rng([seed, 1]).spawn(3)
    tasks = distinct_tasks(recipe.prompts, for_tasks, families=list(FAMILIES), levels=LEVELS, exclude=frozenset())
    answers = [*_sampled(policies, tasks, recipe, seed), *_corrupted(tasks, recipe, for_writing)]
    return world_feedback(
        pair_up(answers, pairs_per_prompt=recipe.pairs_per_prompt, rng=for_pairs),
        annotators=PANEL,
        votes_per_pair=recipe.votes_per_pair,
        flip_rate=recipe.flip_rate,
        judge=JUDGE,
        seed=seed,
    )


def _sampled(policies: Policies, tasks: Sequence[Task], recipe: WorldRecipe, seed: int) -> list[Answer]:
    by = [("late", policies.late, temperature) for temperature in recipe.temperatures]
    by.append(("early", policies.early, recipe.temperatures[-1]))
    tokenizer = world_tokenizer()
    return [
        answer
        for number, (writer, model, temperature) in enumerate(by)
        for answer in sampled_answers(
            model, tokenizer, tasks, writer=writer, temperature=temperature, seed=seed * len(by) + number
        )
    ]


def _corrupted(tasks: Sequence[Task], recipe: WorldRecipe, rng: np.random.Generator) -> list[Answer]:
    style = recipe.habits.style
    return [answer for _ in range(2) for answer in corrupted_answers(tasks, errors=recipe.errors, style=style, rng=rng)]
