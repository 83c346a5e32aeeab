"""The counts that docs/divergence_reasons.md gives for ukpconvarg1."""

import pytest

from preflow.audit.votes import summarise_votes
from preflow.ingest.intake import ingest
from preflow.reasons.evidence import pair_evidence
from preflow.reasons.rules import tag_by_rule
from preflow.reasons.written import tag_by_written_reasons
from tests.preflow.reasons.conftest import CARE, THRESHOLDS


@pytest.mark.full
def test_most_divergence_of_argument_pairs_stays_unexplained(shared_data, tmp_path):
    source = shared_data / "ukpconvarg1"
    found = ingest(source, formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.0, scratch=tmp_path)
    _, quality, _ = summarise_votes(found.comparisons, found.votes, worker_model="dawid_skene", iterations=1, seed=0)
    evidence = pair_evidence(found.comparisons, found.votes, quality.lazy(), care=CARE, shrinkage=5.0)
    by_rule = tag_by_rule(evidence, THRESHOLDS)
    written = tag_by_written_reasons(found.votes, min_reasons=2, phrases=3)
    assert (len(evidence), len(by_rule[1]), len(written[1])) == (8039, 3675, 3675)
    assert by_rule[1]["unexplained"].mean() == pytest.approx(0.207, abs=0.005)
    assert written[1]["unexplained"].mean() == pytest.approx(0.857, abs=0.005)
    verbose = [set(reasons.filter(label="verbosity")["pair_id"]) for reasons in (by_rule[0], written[0])]
    elsewhere = len(verbose[1] - verbose[0]) / (len(by_rule[1]) - len(verbose[0]))
    assert len(verbose[0] & verbose[1]) / len(verbose[0]) > 2 * elsewhere
