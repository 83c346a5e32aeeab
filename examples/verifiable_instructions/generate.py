"""Makes feedback.jsonl.gz: real answers of SmolLM2 to verifiable instructions, judged by simulated annotators.

Run from the project's root: `python examples/verifiable_instructions/generate.py`. Sampling the answers is
slow; they are kept batch by batch, so a run that was stopped goes on where it was.
"""

import gzip
import hashlib
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from preflow.world.annotators import ANNOTATORS
from preflow.world.panel import panel_votes
from preflow.world.smollm2 import FOLDER, smollm2_folder
from preflow.world.verifiable import Instruction, draw_instructions, gold_score

CACHE = Path(".cache")
FEEDBACK = Path(__file__).with_name("feedback.jsonl.gz")

SEED = 20
N_PROMPTS = 375
TEMPERATURES = (0.3, 0.8, 1.2)  # one answer each
TOP_K = 50
MAX_NEW_TOKENS = 56
BATCH_SIZE = 75
N_THREADS = 1  # a part of the recipe: the number of threads decides the order of floating-point sums

GOLD_TIE = 0.5  # gold scores that differ by less are a tie
VOTES_PER_PAIR = (3, 4, 5)

Row = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer of the model."""

    text: str
    temperature: float
    ended: bool
    """False if it was cut at MAX_NEW_TOKENS."""


# answers --------------------------------------------------------------------------------------------------------------


class Sampler:
    """SmolLM2, sampling whole batches."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(N_THREADS)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")

    def __call__(self, prompts: list[str], temperature: float, seed: int) -> list[Row]:
        """Text of each answer and whether it ended by itself."""
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        inputs = self.tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            tokens = self.model.generate(
                **inputs, do_sample=True, temperature=temperature, top_k=TOP_K, max_new_tokens=MAX_NEW_TOKENS
            )
        tokens = tokens[:, inputs["input_ids"].shape[1] :]
        texts = self.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        ended = (tokens == self.tokenizer.eos_token_id).any(dim=1).tolist()
        return [{"text": text.strip(), "ended": end} for text, end in zip(texts, ended, strict=True)]


def answers(instructions: list[Instruction], cache: Path) -> dict[str, list[Answer]]:
    """The answers to each prompt, one per temperature, from finished batches in `cache` or else from the model."""
    settings = repr((instructions, SEED, TEMPERATURES, TOP_K, MAX_NEW_TOKENS, BATCH_SIZE))
    folder = cache / "verifiable_instructions" / hashlib.sha256(settings.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    prompts = [instruction.prompt for instruction in instructions]
    found: dict[str, list[Answer]] = {prompt: [] for prompt in prompts}
    sampler: Sampler | None = None
    batches = list(itertools.product(range(0, len(prompts), BATCH_SIZE), TEMPERATURES))
    for number, (start, temperature) in enumerate(tqdm(batches, desc="answers", unit="batch")):
        file, batch = folder / f"{number:03}.json", prompts[start : start + BATCH_SIZE]
        if not file.is_file():
            sampler = sampler or Sampler(smollm2_folder(cache))
            file.with_suffix(".part").write_text(json.dumps(sampler(batch, temperature, seed=SEED * 1000 + number)))
            file.with_suffix(".part").rename(file)
        for prompt, row in zip(batch, json.loads(file.read_text()), strict=True):
            found[prompt].append(Answer(row["text"], temperature, row["ended"]))
    return found


# pairs and votes ------------------------------------------------------------------------------------------------------


def scored(row: Row) -> Row:
    """The row with gold scores and gold label recomputed from its texts."""
    score_a, score_b = (gold_score(row["family"], row["constraint"], row[f"response_{side}"]) for side in "ab")
    gold = "tie" if abs(score_a - score_b) < GOLD_TIE else "a" if score_a > score_b else "b"
    return row | {"score_a": score_a, "score_b": score_b, "gold": gold}


def pair(instruction: Instruction, a: Answer, b: Answer) -> Row:
    """One comparison, without votes."""
    row: Row = {"prompt": instruction.prompt}
    row |= {"response_a": a.text, "response_b": b.text, "score_a": 0.0, "score_b": 0.0, "gold": "tie"}
    row |= {"model_a": f"{FOLDER}@{a.temperature}", "model_b": f"{FOLDER}@{b.temperature}", "votes": []}
    facts = {"family": instruction.family, "constraint": instruction.constraint, "ended_a": a.ended, "ended_b": b.ended}
    return scored(row | facts)


def pairs(instructions: list[Instruction], found: dict[str, list[Answer]], rng: np.random.Generator) -> list[Row]:
    """All pairs of distinct, non-empty answers to a prompt, in random orientation."""
    rows = []
    for instruction in instructions:
        distinct = {answer.text: answer for answer in found[instruction.prompt] if answer.text}
        for two in itertools.combinations(distinct.values(), 2):
            a, b = (two[i] for i in rng.permutation(2))
            rows.append(pair(instruction, a, b))
    return rows


def judge(rows: list[Row], rng: np.random.Generator) -> None:
    """Adds to each row the votes of some of the annotators."""
    columns = ("response_a", "response_b", "score_a", "score_b")
    judged = pl.DataFrame([{key: row[key] for key in columns} for row in rows])
    for row, votes in zip(rows, panel_votes(judged, ANNOTATORS, VOTES_PER_PAIR, rng), strict=True):
        row["votes"] = votes


# blemishes ------------------------------------------------------------------------------------------------------------

NOTHING = ("", "", "", "", "  \n", "\n")


def blemished(rows: list[Row], rng: np.random.Generator) -> list[str]:
    """The lines of the file in random order, with the blemishes that the README counts."""
    left = iter([rows[i] for i in rng.permutation(len(rows))])
    lost, same, copied, edited = (list(itertools.islice(left, n)) for n in (len(NOTHING), 4, 5, 5))
    cut, twice, *rest = left
    kept = [scored(row | {"response_b": nothing}) for row, nothing in zip(lost, NOTHING, strict=True)]
    kept += [scored(row | {"response_b": row["response_a"]}) for row in same]
    kept += [*copied, *copied]
    kept += [*edited, *(scored(row | {"response_a": f"{row['response_a']} Indeed."}) for row in edited)]
    kept += [*rest, *(mirrored(row) for row in itertools.islice(filter(is_unanimous, rest), 5))]
    lines = [encode(row) for row in kept]
    lines.append(encode(cut)[: len(encode(cut)) // 2])
    lines.append(encode(twice)[:-1] + ', "gold": "tie"}')
    return [lines[i] for i in rng.permutation(len(lines))]


def is_unanimous(row: Row) -> bool:
    """Whether all votes are for the same response."""
    return {vote["choice"] for vote in row["votes"]} in ({"a"}, {"b"})


def mirrored(row: Row) -> Row:
    """The row with its responses exchanged and its votes as they were: they now say the opposite."""
    sides = (("a", "b"), ("b", "a"))
    swapped = {f"{key}_{to}": row[f"{key}_{side}"] for key in ("response", "model", "ended") for side, to in sides}
    return scored(row | swapped)


def encode(row: Row) -> str:
    """One line of JSON."""
    return json.dumps(row, ensure_ascii=False)


# the file -------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Samples (or finds) the answers, has them judged and writes the file; the same every time."""
    rng = np.random.default_rng(SEED)
    instructions = draw_instructions(N_PROMPTS, rng)
    rows = pairs(instructions, answers(instructions, CACHE), rng)
    judge(rows, rng)
    lines = blemished(rows, rng)
    # No name and no time in the header: the bytes depend on the lines alone.
    FEEDBACK.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    digest = hashlib.sha256(FEEDBACK.read_bytes()).hexdigest()
    tqdm.write(f"{FEEDBACK}: {len(lines)} lines, {FEEDBACK.stat().st_size} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
