"""Training many concept bottlenecks at once: the same items, seed and start for every loss and every loss weight.

All settings of a study share the initial weights, the order of the batches and the uniform draws of a sampled loss, so
that they differ in the loss alone. Their parameters are stacked and torch.func.vmap runs them as one network; no model
depends on which others are in its stack, but for rounding. Labels of validation are as noisy as those of train: what is
kept by them has seen no clean label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.loss import Beside
from preflow.concepts.metrics import concept_auc, task_accuracy
from preflow.concepts.networks import Bottleneck, build
from preflow.concepts.objective import Objective
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.stack import Predictions, Stack
from preflow.fit import fit, shuffled_batches


@dataclass(frozen=True)
class Trained:
    """A stack after the last step, and the same models at their best on validation."""

    last: Stack
    best: Stack
    score: Tensor
    """`selection_score` of the best, [models]."""


def selection_score(predicted: Predictions, validation: ConceptArrays) -> Tensor:
    """(Concept AUC - 1/2) * task accuracy on such labels as there are, [models]: one rule for checkpoint and lambda.

    Symmetric flips shrink a concept's AUC - 1/2 by one factor, whatever the model: so the product ranks models alike at
    every flip rate, which nobody knows, where a sum would count concepts for less the noisier they are.
    """
    auc = concept_auc(predicted.concepts, validation.concepts)
    return (auc - 0.5) * task_accuracy(predicted.classes, validation.classes)


def train_bottlenecks(
    train: ConceptArrays,
    validation: ConceptArrays,
    settings: Sequence[Setting],
    recipe: Recipe,
    *,
    classes: int,
    seed: int,
    start: Bottleneck | None = None,
    beside: Beside | None = None,
    observe: Callable[[Stack], None] | None = None,
) -> Trained:
    """Train one bottleneck a setting; settings of one loss should stand together, which is faster.

    Parameters
    ----------
    classes
        Number of classes, of which train may lack some.
    start
        Streaming: the model of the earlier data, from which training goes on; None starts anew, from `seed`.
    beside
        What losses use: prior logits for the rows of train (streaming: those of the earlier model) and flip rates.
    observe
        Is shown the stack at every checkpoint.
    """
    first = start or _initial(train, recipe, classes=classes, seed=seed)
    stack, best = Stack(first, len(settings)), Stack(first, len(settings))
    score = torch.full((len(settings),), -torch.inf, dtype=torch.float64)
    steps = recipe.epochs * -(-len(train) // recipe.batch_size)
    stops = {steps * at // recipe.checkpoints for at in range(1, recipe.checkpoints + 1)}

    def after_step(step: int) -> None:
        if step not in stops:
            return
        found = selection_score(stack.predict(validation), validation)
        best.take_over(stack, found > score)
        torch.maximum(score, found, out=score)
        if observe is not None:
            observe(stack)

    losses = Objective(stack, train, settings, recipe, beside or Beside(), seed=seed)
    batches = shuffled_batches(len(train), batch_size=recipe.batch_size, epochs=recipe.epochs, seed=seed)
    fit(stack, losses, batches, lr=recipe.lr, after_step=after_step)
    return Trained(stack, best, score)


def _initial(train: ConceptArrays, recipe: Recipe, *, classes: int, seed: int) -> Bottleneck:
    model = build(train.inputs.shape[1:], train.concepts.shape[1], classes, recipe.architecture, seed=seed)
    model.standardise_by(train.inputs)
    return model
