"""Trains a language model on encoded examples: one thin subclass of `transformers.Trainer` for every objective.

What an objective is a function of is said by a `Forward`: log-probabilities of a policy, or the rewards of
`preflow.lm.reward_head`. Soft labels (`Example.share`) work with every objective, see `soft_label_loss`.

Reference log-probabilities come with the examples, so no second model is in memory. The order of training is fixed
beforehand (`order`), so the Trainer walks through the data as it stands: a curriculum keeps its order under several
processes, and a resumed run goes on with the very next batch.
"""

import math
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from accelerate import PartialState
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback

from preflow.lm.chat import Encoded
from preflow.lm.checkpoints import newest, publish
from preflow.lm.lean_trainer import LeanTrainer
from preflow.lm.logprobs import pad, sequence_logprobs
from preflow.lm.order import Order, training_order
from preflow.lm.reference import reference_logprobs, weights_key
from preflow.objectives import PairLogprobs, soft_label_loss
from preflow.store import ArrayStore, content_key

Objective = Callable[[Any], Tensor]  # a loss per pair, [B], of what the forward gives


@dataclass(frozen=True)
class Example:
    """What is trained on: a pair, or for SFT a lone response.

    Raises
    ------
    ValueError
        The share is outside [0, 1], there is nothing to share with, or votes say it already.
    """

    chosen: Encoded
    rejected: Encoded | None = None
    reference: tuple[float, float] | None = None
    """log pi_ref of chosen and of rejected."""
    share: float | None = None
    """Share of the votes for chosen, a soft label; None, a hard one, counts as 1: both may stand in one data set."""
    votes: tuple[float, ...] | None = None
    """How many annotators gave each outcome, for objectives that read them; chosen is then just the first response."""

    def __post_init__(self) -> None:
        if self.share is None:
            return
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}; the share of the votes for chosen must lie in [0, 1]")
        if self.rejected is None or self.votes is not None:
            raise ValueError("a share needs a rejected response, and no votes beside it, which hold it already")


class Trained(NamedTuple):
    """Result of `train`."""

    model: PreTrainedModel
    history: list[dict[str, float]]
    """Per logging step: `step`, `loss`, `grad_norm`, `learning_rate`, and the means listed in `PolicyTrainer`."""


Probe = Callable[[int, PreTrainedModel], None]  # (step, model)


class Forward(NamedTuple):
    """What is asked of a model, so that one trainer serves policies and rewards."""

    pairs: Callable[..., Any]
    """What it says of a batch that `collate` made, which is what the objective takes."""
    metrics: Callable[[Any], dict[str, Tensor]]
    """Means over the batch that are logged."""
    task: str
    """The `peft.TaskType`, which says which layer is the head."""


def with_reference(
    pairs: Sequence[tuple[Encoded, Encoded]],
    model: PreTrainedModel,
    weights: str,
    store: ArrayStore,
    *,
    max_batch_tokens: int,
) -> list[Example]:
    """Pairs with their reference log-probabilities under `model`; see `reference_logprobs`."""
    sides = [side for pair in pairs for side in pair]
    found = reference_logprobs(model, weights, sides, store, max_batch_tokens=max_batch_tokens).tokens
    sums = [float(values.sum(dtype="float64")) for values in found]
    return [
        Example(*pair, reference)
        for pair, reference in zip(pairs, zip(sums[::2], sums[1::2], strict=True), strict=True)
    ]


def train(
    model: PreTrainedModel,
    examples: Sequence[Example],
    objective: Objective,
    *,
    forward: Forward | None = None,
    steps: int,
    batch_size: int,
    micro_batch_size: int,
    learning_rate: float,
    schedule: str,
    warmup_share: float,
    order: Order,
    seed: int,
    bf16: bool,
    log_steps: int,
    lora_rank: int | None = None,
    folder: Path | None = None,
    checkpoint_steps: int | None = None,
    probe: Probe | None = None,
    probe_steps: Collection[int] = (),
) -> Trained:
    """Train `model` in place with AdamW, without weight decay, gradients clipped to norm 1. Same arguments, same bytes.

    Parameters
    ----------
    objective
        A function of `preflow.objectives` with its settings fixed by `functools.partial`.
    forward
        What the objective is a function of; None for the log-probabilities of a policy.
    steps
        Updates; see `steps_of` for epochs. The rate follows `schedule` (a `transformers.SchedulerType`) over them all.
    batch_size
        Examples of an update, over all processes.
    micro_batch_size
        Examples that one process holds in memory at a time; batch_size where memory does not matter.
    bf16
        bfloat16 autocast: for hardware that has it. Compute the references under the same autocast.
    lora_rank
        Train adapters of this rank (alpha = rank) on all linear layers, merged at the end; None trains all weights.
    folder, checkpoint_steps
        Where and how often checkpoints are written (a multiple of `log_steps`, so that no metric is lost); a rerun of
        the same run goes on from the newest whole one.
    probe, probe_steps
        Called with step and model after each of these steps; not called again for steps before a checkpoint.

    Raises
    ------
    ValueError
        No examples; some have a rejected response, a reference or votes and some not; the batch does not divide, or the
        checkpoint steps.
    FloatingPointError
        The loss is not finite.
    OtherRunError
        `folder` holds checkpoints of another run.
    """
    _check(examples)
    forward = forward or POLICY
    shares = _processes().num_processes * micro_batch_size
    if batch_size % shares:
        raise ValueError(f"batch_size {batch_size} is no multiple of micro_batch_size x processes = {shares}")
    if checkpoint_steps and checkpoint_steps % log_steps:
        raise ValueError(f"checkpoint_steps {checkpoint_steps} must be a multiple of log_steps {log_steps}")
    lengths = [max(len(side.ids) for side in (x.chosen, x.rejected) if side) for x in examples]
    rows = training_order(lengths, order=order, steps=steps, batch_size=batch_size, seed=seed)
    settings: dict[str, Any] = {
        "per_device_train_batch_size": micro_batch_size,
        "gradient_accumulation_steps": batch_size // shares,
        "learning_rate": learning_rate,
        "lr_scheduler_type": schedule,
        "warmup_steps": math.ceil(warmup_share * steps),
        "seed": seed,
        "bf16": bf16,
        "logging_steps": log_steps,
        "save_steps": checkpoint_steps or steps,
        "save_strategy": "steps" if folder and checkpoint_steps else "no",
    }
    with TemporaryDirectory() as temporary, torch.random.fork_rng():
        torch.manual_seed(seed)
        run = _run_key(model, examples, rows, objective, settings | {"lora_rank": lora_rank}) if folder else ""
        aside = _fresh(folder / "aside") if folder else Path(temporary)
        trainer = PolicyTrainer(
            _with_lora(model, lora_rank, forward.task),
            [examples[row] for row in rows],
            objective,
            forward,
            settings,
            aside,
            folder,
            run,
        )
        if probe:
            trainer.add_callback(_ProbeCallback(probe, probe_steps))
        checkpoint = newest(folder, run) if folder else None
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trained = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    return Trained(trained.merge_and_unload() if lora_rank else trained, trainer.history())


class PolicyTrainer(LeanTrainer):
    """`LeanTrainer` on `Example`s in the given order, with any objective and with sealed checkpoints.

    Besides Trainer's own metrics it logs means since the last log, of a policy: `logp_chosen`, and for pairs
    `logp_rejected`, `margin` (log-ratio, or log-probability where there is no reference, of chosen minus rejected) and
    `accuracy` (margin > 0).
    """

    def __init__(
        self,
        model: torch.nn.Module,
        examples: Sequence[Example],
        objective: Objective,
        forward: Forward,
        settings: dict[str, Any],
        aside: Path,
        folder: Path | None,
        run: str,
    ) -> None:
        settings = {"output_dir": str(aside), **settings}
        super().__init__(model, settings, train_dataset=examples, data_collator=collate)
        self.loss_is_scaled_for_ga = False
        self.objective: Objective = objective
        self.forward = forward
        self.aside, self.folder, self.run = aside, folder, run
        self.seen: list[dict[str, Tensor]] = []

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,  # noqa: FBT001, FBT002
        num_items_in_batch: Tensor | int | None = None,  # noqa: ARG002
    ) -> Any:
        """Mean of the objective over the pairs of a micro-batch."""
        pairs = self.forward.pairs(model, **inputs)
        self.seen.append(self.forward.metrics(pairs))
        loss = soft_label_loss(self.objective, pairs).mean()
        return (loss, {}) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with the means of what was seen since the last log."""
        if self.seen:
            means = torch.stack([torch.stack(list(row.values())) for row in self.seen]).mean(0)
            means = self.accelerator.reduce(means, reduction="mean")  # over the processes
            logs |= dict(zip(self.seen[0], means.tolist(), strict=True))
        self.seen.clear()
        super().log(logs, start_time)

    def history(self) -> list[dict[str, float]]:
        """What was logged during training, without the times."""
        return [{k: v for k, v in row.items() if k != "epoch"} for row in self.state.log_history if "loss" in row]

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # every process has written its random state
        if self.args.should_save and self.folder:
            checkpoint = self.aside / f"checkpoint-{self.state.global_step}"
            (checkpoint / "training_args.bin").unlink()  # a pickle that nothing reads
            publish(checkpoint, self.folder, self.run)


class _ProbeCallback(TrainerCallback):
    def __init__(self, probe: Probe, steps: Collection[int]) -> None:
        self.probe, self.steps = probe, frozenset(steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        if state.global_step in self.steps:
            self.probe(state.global_step, kwargs["model"])


def collate(examples: Sequence[Example]) -> dict[str, Any]:
    """Arguments of `Forward.pairs` for these examples: all chosen responses, then all rejected ones, and the rest."""
    sides = [x.chosen for x in examples] + [x.rejected for x in examples if x.rejected]
    input_ids, predicts = pad(sides)
    batch = {"input_ids": input_ids, "predicts": predicts, "pairs": len(examples)}
    if references := [x.reference for x in examples if x.reference]:
        batch["reference"] = torch.tensor(references, dtype=torch.float32).T
    if any(x.share is not None for x in examples):
        batch["share"] = torch.tensor([1.0 if x.share is None else x.share for x in examples])
    if votes := [x.votes for x in examples if x.votes is not None]:
        batch["votes"] = torch.tensor(votes, dtype=torch.float32)
    return batch


def pair_logprobs(
    model: torch.nn.Module,
    input_ids: Tensor,
    predicts: Tensor,
    pairs: int,
    reference: Tensor | None = None,
    share: Tensor | None = None,
) -> PairLogprobs:
    """Log-probabilities of a batch that `collate` made.

    Parameters
    ----------
    input_ids, predicts
        [B, T] or [2B, T]: chosen, then rejected.
    pairs
        B.
    reference
        log pi_ref of chosen and of rejected, [2, B].
    share
        Of the votes, for chosen, [B].
    """
    sums, tokens = sequence_logprobs(model, input_ids, predicts), predicts.sum(1)
    sides = {"chosen": sums[:pairs], "chosen_tokens": tokens[:pairs]}
    if len(sums) > pairs:
        sides |= {"rejected": sums[pairs:], "rejected_tokens": tokens[pairs:]}
    if reference is not None:
        sides |= {"chosen_reference": reference[0], "rejected_reference": reference[1]}
    return PairLogprobs(**sides, share=share)


@torch.no_grad()
def _metrics(pairs: PairLogprobs) -> dict[str, Tensor]:
    if pairs.rejected is None:
        return {"logp_chosen": pairs.chosen.mean()}
    chosen, rejected = pairs.pair() if pairs.chosen_reference is None else pairs.log_ratios()
    margin = chosen - rejected
    return {
        "logp_chosen": pairs.chosen.mean(),
        "logp_rejected": pairs.rejected.mean(),
        "margin": margin.mean(),
        "accuracy": (margin > 0).float().mean(),
    }


POLICY = Forward(pair_logprobs, _metrics, "CAUSAL_LM")


def _check(examples: Sequence[Example]) -> None:
    for field in ("rejected", "reference", "votes"):
        with_it = sum(getattr(x, field) is not None for x in examples)
        if 0 < with_it < len(examples):
            raise ValueError(f"{with_it} of {len(examples)} examples have `{field}`; give it to all or to none")


def _processes() -> PartialState:
    return PartialState(cpu=not torch.cuda.is_available())


def _fresh(aside: Path) -> Path:
    """The folder in which all processes write a checkpoint, without what a killed run left there."""
    if _processes().is_main_process:
        shutil.rmtree(aside, ignore_errors=True)
    return aside


def _with_lora(model: PreTrainedModel, rank: int | None, task: str) -> torch.nn.Module:
    if rank is None:
        return model
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=rank, target_modules="all-linear", task_type=task))


def _run_key(
    model: PreTrainedModel, examples: Sequence[Example], rows: Any, objective: Objective, settings: dict[str, Any]
) -> str:
    """A name for all that decides the outcome of a run."""
    function = objective.func if isinstance(objective, partial) else objective
    fixed = sorted(objective.keywords.items()) if isinstance(objective, partial) else []
    what = (function.__qualname__, fixed, sorted(settings.items()), rows.tolist())
    return content_key(weights_key(model), repr(what), *map(repr, examples))
