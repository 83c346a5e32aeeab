import json

import numpy as np
import polars as pl
import pytest

from preflow.reasons.evidence import CONTENT
from preflow.reasons.schemas import CLASS_OF, DivergenceReasons, ReasonRemainders
from preflow.reasons.tagger import CARELESS, DOUBTS, ReasonTagger, fit_tagger
from tests.preflow.reasons.conftest import fitted


@pytest.fixture(scope="module")
def tagged(tagger, training):
    return tagger.tag(training.evidence, min_probability=0.5)


def test_tables_cover_every_diverging_pair_and_force_nothing(tagged, training):
    reasons, remainders = tagged
    assert DivergenceReasons.is_valid(reasons)
    assert ReasonRemainders.is_valid(remainders)
    assert set(remainders["pair_id"]) == set(training.evidence.filter("diverges")["pair_id"])
    assert remainders["n_causes"].sum() == len(reasons)
    assert (remainders["n_causes"] == 0).sum() > 0
    assert (remainders["n_causes"] > 1).sum() > 0
    assert reasons["probability"].min() >= 0.5


def test_carelessness_excludes_other_causes(tagger, training):
    probability = tagger.probabilities(training.evidence)
    careless = probability[:, tagger.heads.index(CARELESS)]
    others = np.delete(probability, tagger.heads.index(CARELESS), axis=1)
    assert (others <= 1 - careless[:, None] + 1e-12).all()
    unseen = [column not in DOUBTS for column in tagger.columns]
    assert not tagger.weight[tagger.heads.index(CARELESS)][unseen].any()


def test_evidence_names_what_speaks_for_the_cause(tagged):
    longer = tagged[0].filter(pl.col("label") == "verbosity")
    assert len(longer) > 20
    assert longer["evidence"].str.starts_with("gap_length ").mean() > 0.8


def test_saved_and_read_back_byte_for_byte(tagger, training, tmp_path):
    tagger.save_pretrained(tmp_path / "one")
    read = ReasonTagger.from_pretrained(tmp_path / "one")
    assert np.array_equal(read.probabilities(training.evidence), tagger.probabilities(training.evidence))
    fitted(training, tagger.columns).save_pretrained(tmp_path / "two")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_head_that_is_no_cause_is_refused(tagger, tmp_path):
    tagger.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"heads": ["weather", *config["heads"][1:]]}))
    with pytest.raises(ValueError, match="weather"):
        ReasonTagger.from_pretrained(tmp_path)


def test_missing_evidence_is_named(tagger, training):
    with pytest.raises(ValueError, match="gap_length"):
        tagger.probabilities(training.evidence.drop("gap_length"))


def fit(pairs, causes):
    return fit_tagger(pairs.evidence, causes, pairs.groups, columns=CONTENT, inverse_l2=1.0, folds=5)


def test_unknown_causes_are_refused(training):
    with pytest.raises(ValueError, match="weather"):
        fit(training, {pair: ["weather"] for pair in training.causes})


def test_labels_without_a_remainder_are_refused(training):
    with pytest.raises(ValueError, match="0 have none: 10 of each"):
        fit(training, {pair: ["format"] for pair in training.causes})
    with pytest.raises(ValueError, match="0 labelled diverging pairs have a cause"):
        fit(training, {})


def test_a_cause_with_too_few_examples_gets_no_head(training):
    rare = {pair: [one for one in found if one != "format"] for pair, found in training.causes.items()}
    heads = fit(training, rare).heads
    assert "format" not in heads
    assert set(heads) == CLASS_OF.keys() - {"format", CARELESS} | {"unexplained"}  # no column tells of carelessness
