"""What every training of a language model shares, and the training of a loss that is a function of row numbers."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments


class LeanTrainer(Trainer):
    """`transformers.Trainer` with AdamW on data in the given order; silent, and a loss must be finite."""

    def __init__(self, model: torch.nn.Module, settings: dict[str, Any], **data: Any) -> None:
        arguments = TrainingArguments(
            num_train_epochs=1,  # the data already holds every pass
            train_sampling_strategy="sequential",
            optim="adamw_torch_fused",
            remove_unused_columns=False,
            dataloader_pin_memory=torch.cuda.is_available(),
            ddp_find_unused_parameters=False,
            logging_nan_inf_filter=False,
            disable_tqdm=not sys.stderr.isatty(),
            use_cpu=not torch.cuda.is_available(),  # Trainer refuses bf16 on a CPU unless told that it is one
            report_to="none",
            **settings,
        )
        super().__init__(model, arguments, **data)
        self.remove_callback(PrinterCallback)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:  # noqa: ARG002
        """Not counted: counting the parameters at every step costs a tiny model more than it tells."""
        return 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """See `Trainer`.

        Raises
        ------
        FloatingPointError
            The loss is not finite.
        """
        if not math.isfinite(logs.get("loss", 0.0)):
            raise FloatingPointError(
                f"the loss is {logs['loss']} by step {self.state.global_step}; lower the learning rate"
            )
        super().log(logs, start_time)


def minimise(
    model: torch.nn.Module,
    losses: Callable[[Tensor], Tensor],
    batches: Iterable[Tensor],
    *,
    steps: int,
    batch_size: int,
    micro_batch_size: int | None,
    lr: float,
    bf16: bool,
    after_step: Callable[[int], bool] | None,
) -> None:
    """Minimise the mean of `losses(rows)`, [batch], of each of `steps` batches: as `preflow.fit.fit`, through Trainer.

    AdamW at a constant rate without weight decay, gradients clipped to norm 1. A batch is asked for when its update
    begins, not when a loader looks ahead, so that it may depend on the model as it then is. Under several processes
    each would train on every row.

    Parameters
    ----------
    batch_size
        Rows of the largest batch.
    micro_batch_size
        Rows whose losses are in memory at a time; None for all of a batch.
    bf16
        bfloat16 autocast: for hardware that has it.
    after_step
        Told the number of the update just made, from 1; where it says true nothing more is trained.
    """
    parts = 1 if micro_batch_size is None else math.ceil(batch_size / micro_batch_size)
    with TemporaryDirectory() as folder, torch.random.fork_rng():
        settings = {
            "output_dir": folder,
            "max_steps": steps,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": parts,
            "learning_rate": lr,
            "lr_scheduler_type": "constant",
            "bf16": bf16,
            "logging_steps": min(10, steps),
            "save_strategy": "no",
        }
        trainer = _RowsTrainer(model, settings, losses, iter(batches), parts)
        if after_step is not None:
            trainer.add_callback(_AfterStep(after_step))
        trainer.train()


class _RowsTrainer(LeanTrainer):
    """Its data are the numbers of the micro-batches; what they hold is looked up when their turn comes."""

    def __init__(
        self,
        model: torch.nn.Module,
        settings: dict[str, Any],
        losses: Callable[[Tensor], Tensor],
        batches: Iterator[Tensor],
        parts: int,
    ) -> None:
        super().__init__(model, settings, train_dataset=range(settings["max_steps"] * parts), data_collator=_as_inputs)
        self.loss_is_scaled_for_ga = True
        self.losses, self.batches, self.parts = losses, batches, parts
        self.rows = torch.empty(0, dtype=torch.int64)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,  # noqa: FBT001, FBT002
        num_items_in_batch: Tensor | int | None = None,  # noqa: ARG002
    ) -> Any:
        """What a micro-batch adds to the mean of the losses of its batch."""
        part = int(inputs["number"]) % self.parts
        if part == 0:
            self.rows = next(self.batches)
        rows = self.rows.tensor_split(self.parts)[part]
        if len(rows):
            with self.accelerator.autocast():  # Trainer has it around the model's forward pass alone
                loss = self.losses(rows).sum() / len(self.rows)
        else:  # the last batch of a pass may have fewer rows than there are micro-batches
            loss = 0.0 * next(parameter for parameter in model.parameters() if parameter.requires_grad).sum()
        return (loss, {}) if return_outputs else loss


class _AfterStep(TrainerCallback):
    def __init__(self, after_step: Callable[[int], bool]) -> None:
        self.after_step = after_step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        if self.after_step(state.global_step):
            control.should_training_stop = True


def _as_inputs(numbers: list[int]) -> dict[str, int]:
    return {"number": numbers[0]}
