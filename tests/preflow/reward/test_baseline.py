import gzip
import hashlib
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from preflow.evaluation import correctness, evaluate, mcnemar, paired_bootstrap
from preflow.reward.baseline import BradleyTerryReward, fit_reward_model, predict, reward_inputs
from preflow.reward.bradley_terry import cross_entropy, fit_bradley_terry
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.reward.features import FEATURES
from preflow.reward.schemas import RewardPredictions
from preflow.store import ArrayStore
from preflow.tokens import text_id

UKP = Path(__file__).parents[3] / "shared" / "data" / "ukpconvarg1" / "DERIVED_pairs.jsonl.gz"
GRID = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
SOURCE = {"encoder": "package:all-MiniLM-L6-v2", "encoder_sha256": "0" * 64}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# The fit itself ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 0.95])
def test_soft_labels_shift_the_weight_to_the_closed_form(share):
    # One input, every difference 2: sigmoid(2 w) = share, so w = logit(share) / 2 where the penalty vanishes.
    weights = fit_bradley_terry(np.full((10, 1), 2.0), np.full(10, share), l2=1e-9)
    assert weights[0] == pytest.approx(math.log(share / (1 - share)) / 2, abs=1e-6)


def test_the_penalty_enters_as_worked_by_hand():
    # Stationary point of softplus(-w) + l2/2 w^2 is l2 w = 1 - sigmoid(w): w = 1 where l2 = 1 - sigmoid(1).
    l2 = 1 - 1 / (1 + math.exp(-1))
    assert fit_bradley_terry(np.ones((4, 1)), np.ones(4), l2=l2)[0] == pytest.approx(1, abs=1e-7)


def test_a_known_linear_reward_is_recovered():
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.0, 0.5])
    differences = rng.normal(size=(20_000, 4))
    share = (rng.random(20_000) < 1 / (1 + np.exp(-differences @ truth))).astype(float)
    assert np.abs(fit_bradley_terry(differences, share, l2=1e-6) - truth).max() < 0.1
    soft = 1 / (1 + np.exp(-differences @ truth))
    assert np.abs(fit_bradley_terry(differences, soft, l2=1e-9) - truth).max() < 1e-4


def test_swapping_the_sides_changes_nothing():
    rng = np.random.default_rng(0)
    differences, share = rng.normal(size=(300, 5)), rng.random(300)
    weights = fit_bradley_terry(differences, share, l2=0.1)
    assert fit_bradley_terry(-differences, 1 - share, l2=0.1) == pytest.approx(weights, abs=1e-7)


@pytest.mark.parametrize(("n", "l2"), [(0, 1.0), (3, 0.0), (3, math.nan)])
def test_a_fit_without_a_solution_is_refused(n, l2):
    with pytest.raises(ValueError, match="needs pairs and l2 > 0"):
        fit_bradley_terry(np.ones((n, 2)), np.ones(n), l2=l2)


# The model on a small made-up set -----------------------------------------------------------------------------------


def toy(n=240, seed=0):
    """Pairs whose better response has the larger first embedding coordinate; 24 prompt groups, 1 in 3 votes against."""
    rng = np.random.default_rng(seed)
    texts = [f"response number {i}" for i in range(2 * n)]
    vectors = rng.normal(size=(2 * n, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    better = [(2 * i, 2 * i + 1) if vectors[2 * i, 0] > vectors[2 * i + 1, 0] else (2 * i + 1, 2 * i) for i in range(n)]
    groups = np.arange(n) % 24
    pairs = pl.DataFrame(
        {
            "pair_id": [digest(str(i)) for i in range(n)],
            "chosen": [texts[c] for c, _ in better],
            "rejected": [texts[r] for _, r in better],
            "chosen_is": ["a" if c < r else "b" for c, r in better],
            "vote_share": rng.choice([1.0, 2 / 3], size=n),
            "prompt_group": [digest(f"group {g}") for g in groups],
            "split": np.where(groups < 14, "train", np.where(groups < 18, "validation", "test")).tolist(),
        },
        schema_overrides={"split": RewardPredictions.columns()["split"].dtype},
    )
    embeddings = pl.DataFrame(
        {"text_id": [text_id(t) for t in texts], "embedding": vectors.astype(np.float32).tolist()}
    )
    return pairs, embeddings.cast({"embedding": pl.List(pl.Float32)}).sort("text_id")


def test_the_model_finds_what_decides_and_predictions_keep_their_schema():
    pairs, embeddings = toy()
    model = fit_reward_model(pairs, embeddings, l2_grid=GRID, **SOURCE)
    assert int(model.weight.abs().argmax()) == 0
    predictions = predict(model, pairs, embeddings, folds=5, seed=0)
    RewardPredictions.validate(predictions)
    assert predictions["pair_id"].to_list() == sorted(pairs["pair_id"])
    result = evaluate(predictions, pairs, bootstrap=2000, bins=5, seed=0)
    assert set(result) == {"train", "validation", "test"}
    assert result["test"]["model"]["accuracy"]["estimate"] > 0.85
    assert result["test"]["model_minus_length"]["low"] > 0
    json.dumps(result, allow_nan=False)


def test_rewards_are_those_of_the_model_and_suspicion_is_the_label_s_surprise():
    pairs, embeddings = toy()
    model = fit_reward_model(pairs, embeddings, l2_grid=GRID, **SOURCE)
    row = predict(model, pairs, embeddings, folds=5, seed=0).filter(pl.col("split") == "test").row(0, named=True)
    pair = pairs.filter(pl.col("pair_id") == row["pair_id"]).row(0, named=True)
    rewards = model(torch.from_numpy(reward_inputs([pair["chosen"], pair["rejected"]], embeddings)))
    assert rewards.tolist() == pytest.approx([row["reward_chosen"], row["reward_rejected"]])
    margin = row["reward_chosen"] - row["reward_rejected"]
    assert row["probability"] == pytest.approx(1 / (1 + math.exp(-margin)))
    assert row["suspicion"] == pytest.approx(-math.log(row["probability"]))


def test_a_flipped_train_label_stands_out_because_it_is_predicted_out_of_fold():
    pairs, embeddings = toy()
    flipped = pairs.filter(pl.col("split") == "train")["pair_id"].sort()[:8].to_list()
    hit = pl.col("pair_id").is_in(flipped)
    pairs = pairs.with_columns(
        chosen=pl.when(hit).then("rejected").otherwise("chosen"),
        rejected=pl.when(hit).then("chosen").otherwise("rejected"),
    )
    model = fit_reward_model(pairs, embeddings, l2_grid=GRID, **SOURCE)
    predictions = predict(model, pairs, embeddings, folds=5, seed=0)
    train = predictions.filter(pl.col("split") == "train").sort("suspicion", descending=True)
    assert len(set(train["pair_id"][:24]) & set(flipped)) >= 6


def test_out_of_fold_predictions_do_not_move_with_the_pair_s_own_group():
    # Doubting every vote of one group must leave the predictions of that group as they were.
    pairs, embeddings = toy()
    group = pairs.filter(pl.col("split") == "train")["prompt_group"][0]
    inside = pl.col("prompt_group") == group
    altered = pairs.with_columns(vote_share=pl.when(inside).then(0.0).otherwise("vote_share"))
    model = fit_reward_model(pairs, embeddings, l2_grid=[0.1], **SOURCE)
    before, after = (predict(model, p, embeddings, folds=14, seed=0) for p in (pairs, altered))
    ids = pairs.filter(inside)["pair_id"].to_list()
    own = pl.col("pair_id").is_in(ids)
    assert len(ids) == 10
    assert before.filter(own).equals(after.filter(own))
    assert not before.equals(after)


def test_one_prompt_group_falls_to_folds_of_pairs():
    pairs, embeddings = toy()
    pairs = pairs.with_columns(prompt_group=pl.lit("0" * 32))
    model = fit_reward_model(pairs, embeddings, l2_grid=[0.1], **SOURCE)
    predictions = predict(model, pairs, embeddings, folds=5, seed=0)
    held_in = predict(model, pairs.with_columns(split=pl.lit("test")), embeddings, folds=5, seed=0)
    train = predictions["split"] == "train"
    assert train.any()
    assert (predictions["reward_chosen"] != held_in["reward_chosen"]).filter(train).all()


def test_the_same_input_gives_the_same_bytes_in_any_row_order(tmp_path):
    pairs, embeddings = toy()
    for name, p, e in [
        ("one", pairs, embeddings),
        ("two", pairs, embeddings),
        ("three", pairs.reverse(), embeddings.reverse()),
    ]:
        model = fit_reward_model(p, e, l2_grid=GRID, **SOURCE)
        model.save_pretrained(tmp_path / name)
        predict(model, p, e, folds=5, seed=0).write_parquet(tmp_path / name / "predictions.parquet")
    files = ["config.json", "model.safetensors", "predictions.parquet"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == files
    for name in files:
        one, two, three = ((tmp_path / run / name).read_bytes() for run in ("one", "two", "three"))
        assert one == two == three


def test_a_saved_model_comes_back_and_knows_its_encoder(tmp_path):
    pairs, embeddings = toy()
    model = fit_reward_model(pairs, embeddings, l2_grid=GRID, **SOURCE)
    model.save_pretrained(tmp_path)
    loaded = BradleyTerryReward.from_pretrained(tmp_path)
    assert predict(loaded, pairs, embeddings, folds=5, seed=0).equals(
        predict(model, pairs, embeddings, folds=5, seed=0)
    )
    assert (loaded.encoder, loaded.encoder_sha256, loaded.l2) == (*SOURCE.values(), model.l2)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["features"] == list(FEATURES)
    (tmp_path / "config.json").write_text(json.dumps(config | {"features": ["other"]}))
    with pytest.raises(ValueError, match="fit it again"):
        BradleyTerryReward.from_pretrained(tmp_path)


def test_missing_and_broken_embeddings_are_named():
    pairs, embeddings = toy()
    name = text_id(pairs["chosen"][3])
    with pytest.raises(ValueError, match=f"1 texts have no embedding.*{name}"):
        fit_reward_model(pairs, embeddings.filter(pl.col("text_id") != name), l2_grid=GRID, **SOURCE)
    nan = pl.lit([math.nan] * 8, dtype=pl.List(pl.Float32))
    broken = embeddings.with_columns(embedding=pl.when(pl.col("text_id") == name).then(nan).otherwise("embedding"))
    with pytest.raises(ValueError, match=f"1 embeddings hold NaN.*{name}"):
        fit_reward_model(pairs, broken, l2_grid=GRID, **SOURCE)


def test_missing_splits_are_named():
    pairs, embeddings = toy()
    with pytest.raises(ValueError, match="no pair in split 'validation'"):
        fit_reward_model(pairs.filter(pl.col("split") != "validation"), embeddings, l2_grid=GRID, **SOURCE)
    fit_reward_model(pairs.filter(pl.col("split") == "train"), embeddings, l2_grid=[0.1], **SOURCE)
    with pytest.raises(ValueError, match="no pair in split 'train'"):
        fit_reward_model(pairs.filter(pl.col("split") != "train"), embeddings, l2_grid=[0.1], **SOURCE)


# Real feedback: 16 debates of UKPConvArg1, about five votes a pair ---------------------------------------------------


def ukp_pairs():
    if not UKP.is_file():
        pytest.skip(f"{UKP} absent")
    rows = []
    with gzip.open(UKP, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            votes = Counter(vote["value"] for vote in record["votes"])
            a, b, tie = votes["a1"], votes["a2"], votes["equal"]
            if a == b or tie >= max(a, b):
                continue  # the plurality is a tie: no preferred response
            chosen, rejected = ("arg1", "arg2") if a > b else ("arg2", "arg1")
            rows.append(
                {
                    "pair_id": digest(f"{record['debate']} {record['pair_id']}"),
                    "chosen": record[chosen],
                    "rejected": record[rejected],
                    "chosen_is": "a" if a > b else "b",
                    "vote_share": (max(a, b) + tie / 2) / (a + b + tie),
                    "prompt_group": digest(record["debate"]),
                }
            )
    return pl.DataFrame(rows).sort("pair_id")


def split_by_debate(pairs, test, seed):
    """`test` debates held out, three others for validation."""
    rest = sorted(set(pairs["prompt_group"]) - set(test))
    validation = np.random.default_rng(seed).choice(rest, 3, replace=False).tolist()
    group = pl.col("prompt_group")
    split = pl.when(group.is_in(test)).then(pl.lit("test")).when(group.is_in(validation)).then(pl.lit("validation"))
    return pairs.with_columns(split=split.otherwise(pl.lit("train")))


def test_on_ukp_the_reward_model_beats_length_on_debates_it_has_not_seen(tmp_path, capsys):
    pairs = ukp_pairs()
    assert (len(pairs), pairs["prompt_group"].n_unique()) == (6213, 16)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    texts = pl.concat([pairs["chosen"], pairs["rejected"]]).unique().to_list()
    encoder = load_encoder(SOURCE["encoder"])
    embeddings = embed_texts(texts, encoder, batch_size=8, max_tokens=256, store=ArrayStore(tmp_path))
    torch.set_num_threads(before)
    assert len(embeddings) == 509

    inputs = dict(zip(texts, reward_inputs(texts, embeddings), strict=True))
    chosen, rejected = (torch.tensor(np.array([inputs[t] for t in pairs[side]])) for side in ("chosen", "rejected"))
    length = (pairs["chosen"].str.len_chars().log() - pairs["rejected"].str.len_chars().log()).to_numpy()
    share, groups = pairs["vote_share"].to_numpy(), pairs["prompt_group"].to_numpy()
    margin, baseline = np.zeros(len(pairs)), np.zeros(len(pairs))
    for fold, debate in enumerate(sorted(set(groups))):
        split = split_by_debate(pairs, [debate], seed=fold)
        model = fit_reward_model(split, embeddings, l2_grid=GRID, **SOURCE)
        test, train = ((split["split"] == name).to_numpy() for name in ("test", "train"))
        margin[test] = (model(chosen[test]) - model(rejected[test])).numpy()
        baseline[test] = length[test] * fit_bradley_terry(length[train, None], share[train], l2=1e-6)
    right, length_right = correctness(margin), correctness(baseline)
    gain = paired_bootstrap(right, length_right, groups, rounds=2000, seed=0)
    loss = paired_bootstrap(cross_entropy(margin, share), cross_entropy(baseline, share), groups, rounds=2000, seed=0)
    test = mcnemar(right, length_right)
    with capsys.disabled():
        print(  # noqa: T201  the figure is the point of this test
            f"\nUKP, 16 debates left out in turn: reward model {right.mean():.3f}, length {length_right.mean():.3f}, "
            f"gain {gain.estimate:.3f} [{gain.low:.3f}, {gain.high:.3f}] by {gain.unit}, log-loss {loss.estimate:.3f} "
            f"[{loss.low:.3f}, {loss.high:.3f}], McNemar p {test['p_value']:.1e}"
        )
    assert gain.unit == "cluster"
    assert gain.low > 0.01
    assert loss.high < 0
    assert test["p_value"] < 1e-6
