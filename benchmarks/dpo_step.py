"""A DPO step beside TRL's on the same token ids: `python -m benchmarks.dpo_step`, after a parity gate.

Both train the same model on the same pairs of skewed lengths in the same order and batches, references computed before.
Parity in fp32: every step's loss, the reference log-probabilities and the final weights. Then speed: a process an arm,
arms in turn, the first round not counted; tokens are real ones, without padding, a CPU-second of the loop alone.
`ours by length` batches pairs of similar length, an option TRL does not have.
"""

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
import typer
from scipy.stats import t
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from preflow.lm.chat import Encoded
from preflow.lm.order import Order
from preflow.lm.trainer import Example, train, with_reference
from preflow.objectives import dpo
from preflow.store import ArrayStore
from preflow.world.tokenizer import world_tokenizer

VOCABULARY, PROMPT, PAIRS, BATCH, BETA, LEARNING_RATE = 4096, (8, 96), 96, 8, 0.1, 1e-4
ARMS = ("trl", "ours", "ours by length")
ORDERS: dict[str, Order] = {"ours": "given", "ours by length": "by_length"}


def new_model() -> PreTrainedModel:
    """A Llama of 4.2 million parameters, always the same."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def pairs() -> list[tuple[Encoded, Encoded]]:
    """Pairs of random tokens; response lengths are log-normal, as those of chats, at most 192."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(PAIRS):
        prompt = rng.integers(10, VOCABULARY, rng.integers(*PROMPT)).tolist()
        lengths = np.clip(rng.lognormal(3.5, 0.9, 2).astype(int), 4, 192)
        sides = [Encoded((*prompt, *rng.integers(10, VOCABULARY, n).tolist()), len(prompt)) for n in lengths]
        made.append((sides[0], sides[1]))
    return made


def real_tokens() -> int:
    """Tokens of all pairs without padding, prompts counted once a side."""
    return sum(len(side.ids) for pair in pairs() for side in pair)


def run_ours(folder: Path, order: Order, *, bf16: bool, log_steps: int) -> tuple[PreTrainedModel, list[float], float]:
    """Model, logged losses and CPU-seconds of the training loop."""
    model = new_model()
    examples: list[Example] = with_reference(
        pairs(), model, "start", ArrayStore(folder / "store"), max_batch_tokens=4096
    )
    start = time.process_time()
    trained = train(
        model, examples, partial(dpo, beta=BETA, label_smoothing=0.0), steps=PAIRS // BATCH, batch_size=BATCH,
        micro_batch_size=BATCH, learning_rate=LEARNING_RATE, schedule="constant", warmup_share=0.0, order=order, seed=0,
        bf16=bf16, log_steps=log_steps,
    )  # fmt: skip
    return trained.model, [row["loss"] for row in trained.history], time.process_time() - start


def run_trl(folder: Path, *, bf16: bool, log_steps: int) -> tuple[PreTrainedModel, list[float], float]:
    """The same by TRL's trainer, which is given the token ids; its own tokenisation is left out."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    trl: Any = DPOTrainer
    trl._prepare_dataset = lambda _, dataset, *__: dataset
    columns = {
        "prompt_ids": [list(c.ids[: c.prompt_length]) for c, _ in pairs()],
        "chosen_ids": [list(c.ids[c.prompt_length :]) for c, _ in pairs()],
        "rejected_ids": [list(r.ids[r.prompt_length :]) for _, r in pairs()],
    }
    arguments = DPOConfig(
        output_dir=str(folder / "trl"), max_length=None, report_to="none", use_cpu=True, bf16=bf16, beta=BETA,
        gradient_checkpointing=False, precompute_ref_log_probs=True, per_device_train_batch_size=BATCH,
        train_sampling_strategy="sequential", learning_rate=LEARNING_RATE, lr_scheduler_type="constant",
        num_train_epochs=1, logging_steps=log_steps, save_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = trl(
        model=new_model(), ref_model=new_model(), args=arguments, processing_class=world_tokenizer(),
        train_dataset=Dataset.from_dict(columns),
    )  # fmt: skip
    start = time.process_time()
    trainer.train()
    seconds = time.process_time() - start
    return trainer.model, [row["loss"] for row in trainer.state.log_history if "loss" in row], seconds


def run(arm: str, folder: Path, *, bf16: bool, log_steps: int) -> tuple[PreTrainedModel, list[float], float]:
    """One arm."""
    torch.set_num_threads(1)
    if arm == "trl":
        return run_trl(folder, bf16=bf16, log_steps=log_steps)
    return run_ours(folder, ORDERS[arm], bf16=bf16, log_steps=log_steps)


def parity() -> dict[str, float]:
    """The greatest difference of a step's loss, and the cosine of the final weights' changes."""
    with TemporaryDirectory() as folder:
        (theirs, their_losses, _), (ours, our_losses, _) = (
            run(arm, Path(folder) / arm, bf16=False, log_steps=1) for arm in ("trl", "ours")
        )
    start = new_model().state_dict()
    first, second = ({n: w.double() for n, w in model.state_dict().items()} for model in (theirs, ours))
    return {
        "steps": float(len(our_losses)),
        "loss": float(np.abs(np.subtract(their_losses, our_losses)).max()),
        "weights": cosine(first, second),
        "updates": cosine({n: w - start[n] for n, w in first.items()}, {n: w - start[n] for n, w in second.items()}),
    }


def cosine(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """Of two sets of weights, each as one long vector."""
    a, b = (torch.cat([weights.flatten() for weights in one.values()]) for one in (first, second))
    return float(a @ b / (a.norm() * b.norm()))


def measured(arm: str, *, bf16: bool) -> dict[str, float]:
    """Tokens a CPU-second and peak memory of one arm in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.dpo_step", "--arm", arm, *(["--bf16"] if bf16 else [])]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(rounds: int = 6, arm: Annotated[str | None, typer.Option(hidden=True)] = None, *, bf16: bool = False) -> None:
    """Print parity and the table; `--bf16` in bfloat16 autocast."""
    if arm is not None:
        with TemporaryDirectory() as folder:
            _, _, seconds = run(arm, Path(folder), bf16=bf16, log_steps=PAIRS // BATCH)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        typer.echo(json.dumps({"speed": real_tokens() / seconds, "peak": peak}))
        return
    found = parity()
    typer.echo(
        f"parity, fp32, {found['steps']:.0f} steps: losses differ by at most {found['loss']:.1e}, cosine of the "
        f"weights {found['weights']:.7f}, of their changes {found['updates']:.5f}"
    )
    if found["loss"] > 1e-4 or found["weights"] < 0.9999:
        typer.echo("not the same training: no speed is compared")
        raise typer.Exit(1)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in ARMS}
    for _ in range(rounds):
        for name in ARMS:
            results[name].append(measured(name, bf16=bf16))
    typer.echo(table({name: rows[1:] for name, rows in results.items()}, bf16=bf16))


def table(results: dict[str, list[dict[str, Any]]], *, bf16: bool) -> str:
    """Peer, ours, ratio and its interval over rounds (paired, t on logarithms)."""
    lines = [
        f"{'bf16' if bf16 else 'fp32'}, {real_tokens()} tokens, {len(results['trl'])} rounds",
        "", "| arm | tokens a CPU-second | ratio to TRL | peak GiB |", "|---|---|---|---|",
    ]  # fmt: skip
    peer = np.array([row["speed"] for row in results["trl"]])
    for name, rows in results.items():
        speed = np.array([row["speed"] for row in rows])
        logs = np.log(speed / peer)
        half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5
        low, mid, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
        peak = max(row["peak"] for row in rows)
        lines.append(f"| {name} | {np.median(speed):,.0f} | {mid:.2f} [{low:.2f}, {high:.2f}] | {peak:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
