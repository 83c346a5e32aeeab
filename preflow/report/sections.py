"""The report's sections, one function each: tables in, plain values out. `page.py` lists them in reading order."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from preflow import charts
from preflow.evaluation import held_out, reliability
from preflow.report.blocks import (
    NOTHING,
    Block,
    Details,
    Figure,
    Folds,
    Links,
    Numbers,
    Passage,
    Section,
    Table,
    Text,
    frame_table,
    interval,
    number,
    p_value,
    pair_details,
    percent,
)

SUSPECTS = 20
BASELINES = {
    "model": "reward model",
    "length": "length only, fitted",
    "longer": "longer wins",
    "majority": "most frequent side",
}
LONGEST_TABLE = 25
LONGEST_RAW = 2000  # characters shown of a refused row
SIGNIFICANT = 0.05


def intake(counts: Mapping[str, Any]) -> Section:
    """The row equation and the sources; `counts` is that of `preflow.ingest.intake`."""
    names = ("rows_in", "rows_kept", "rows_quarantined", "rows_merged")
    rows = [counts[name] for name in names]
    votes = [counts[f"votes_{name}"] for name in ("in", "kept", "quarantined", "merged", "of_quarantined_rows")]
    sources = [[row["source"], row["format"] or "none", *(row[name] for name in names)] for row in counts["sources"]]
    headings = ["source", "format", "rows in", "kept", "refused", "merged"]
    blocks: list[Block] = [
        Text(_equation("votes in", votes, ("kept", "refused", "merged", "on refused rows"))),
        Table(headings, sources) if sources else Text("No source."),
    ]
    lead = "A row is kept, refused with a named reason, or merged into an exact duplicate. Text is kept byte for byte."
    finding = _equation("rows in", rows, ("kept", "refused", "merged"))
    return Section("intake", "What came in", finding, lead, blocks)


def _equation(whole: str, numbers: list[int], parts: tuple[str, ...]) -> str:
    """The sum in words, and whether it holds."""
    terms = " + ".join(f"{number(n)} {part}" for n, part in zip(numbers[1:], parts, strict=True))
    missing = numbers[0] - sum(numbers[1:])
    verdict = "None is lost." if missing == 0 else f"This does not add up: {number(missing)} are unaccounted for."
    return f"{number(numbers[0])} {whole} = {terms}. {verdict}"


def refused(quarantine: pl.DataFrame, counts: Mapping[str, Any]) -> Section:
    """Reasons of refusal with an example each, and the doubts about what was kept (`flags` of `counts`)."""
    lead = "Nothing is repaired in silence: mend these rows at their source, or leave them out knowingly."
    finding, blocks = "Nothing was refused.", list[Block]()
    if not quarantine.is_empty():
        reasons = quarantine.group_by("reason").agg(pl.len().alias("rows"))
        most = reasons.sort(["rows", "reason"], descending=[True, False]).row(0)
        finding = f"{_refused_share(counts)}. The most frequent reason: {most[0]} ({number(most[1])})."
        blocks += [Figure(charts.reasons_bar(reasons), "By reason, rows and votes."), _refusal_examples(quarantine)]
    flags = [[flag, count] for flag, count in counts["flags"].items() if count]
    if flags:
        blocks.append(Table(["flag", "rows or votes"], flags, "Kept, with a doubt on record."))
    return Section("refused", "What was refused, and why", finding, lead, blocks)


def _refused_share(counts: Mapping[str, Any]) -> str:
    refused = [
        f"{number(counts[f'{what}_quarantined'])} of {number(counts[f'{what}_in'])} {what}"
        for what in ("rows", "votes")
        if counts[f"{what}_quarantined"]
    ]
    return " and ".join(refused)


def _refusal_examples(quarantine: pl.DataFrame) -> Folds:
    """The first refused row of each reason, most frequent reason first."""
    order = ["source_file", "source_line", "part"]
    examples = (
        quarantine.sort(order)
        .group_by("reason", maintain_order=True)
        .agg(pl.len().alias("rows"), pl.col("source_file", "source_line", "detail", "raw").first())
        .sort(["rows", "reason"], descending=[True, False])
    )
    return Folds([_refusal(row) for row in examples.head(LONGEST_TABLE).iter_rows(named=True)])


def _refusal(row: Mapping[str, Any]) -> Details:
    place = f"{row['source_file']}:{row['source_line']}"
    raw = row["raw"] or "the row's text was not kept"
    cut = f", its first {number(LONGEST_RAW)} characters" if len(raw) > LONGEST_RAW else ""
    facts = f"{number(row['rows'])} in all · for example {place}: {row['detail']}"
    return Details(row["reason"], facts, [Passage(f"{place}{cut}", raw[:LONGEST_RAW])])


def votes(
    votes_summary: pl.DataFrame, annotators: pl.DataFrame, agreement: Mapping[str, Any], against_gold: Mapping[str, Any]
) -> Section:
    """Agreement, the annotators, and two ways to aggregate against gold; dicts as `preflow.audit.votes` makes them."""
    lead = (
        "Alpha is 1 when annotators always agree and 0 when they agree as often as chance would. An annotator is "
        "compared with the majority of the others, on the pairs where there is one."
    )
    if votes_summary.is_empty():
        return Section("votes", "Votes and agreement", "No votes: the labels come from gold or scores.", "")
    headline = [
        (number(agreement["alpha"]), "Krippendorff's alpha"),
        (percent(agreement["unanimous_share"]), "of the pairs with several votes are unanimous"),
        (agreement["n_annotators"], "annotators"),
        (number(agreement["n_votes"] / agreement["n_pairs"], 1), "votes a pair"),
    ]
    blocks: list[Block] = [
        Numbers(headline),
        Text(_better_aggregation(against_gold)),
    ]
    if votes_summary["n_votes"].max() != 1:
        blocks.append(Figure(charts.entropy_histogram(votes_summary), "Vote entropy of the pairs: 0 is unanimous."))
    if annotators["agreement"].count():
        blocks.append(Figure(charts.annotator_quality(annotators), "Agreement with the others, 95 % interval."))
    blocks += [_vote_shares(agreement), _annotator_table(annotators)]
    return Section("votes", "Votes and agreement", _agreement_found(agreement), lead, blocks)


def _agreement_found(agreement: Mapping[str, Any]) -> str:
    undecided = f"{percent(agreement['undecided_share'])} of the pairs have no majority"
    if agreement["alpha"] is None:
        return f"Agreement cannot be measured: no pair has two votes, or all votes are alike. {undecided}."
    return f"Krippendorff's alpha is {number(agreement['alpha'])}; {undecided}."


def _better_aggregation(gold: Mapping[str, Any]) -> str:
    """Whether the worker-quality model reads the votes better than the majority does, in a sentence."""
    if not gold["n_gold"]:
        return "No gold labels, so which aggregation is right cannot be measured here."
    better, worse = gold["n_worker_better"], gold["n_majority_better"]
    verdict = "the two are not separable"
    if gold["p_value"] < SIGNIFICANT:
        verdict = f"the {'worker model' if better > worse else 'majority'} is better"
    return (
        f"Against {number(gold['n_gold'])} gold labels the worker-quality model is right on "
        f"{percent(gold['worker_accuracy'])} and the plain majority on {percent(gold['majority_accuracy'])}. One of "
        f"them is nearer to the gold on {better + worse} pairs, the worker model on {better} of these (exact McNemar "
        f"test, {p_value(gold['p_value'])}): {verdict}."
    )


def _vote_shares(agreement: Mapping[str, Any]) -> Table:
    """Shares that hint at position bias, indecision and unreliable annotators."""
    shares = {
        "votes that are ties": "tie_share",
        "votes for response a, ties half": "share_a",
        "decided votes for the response shown first": "share_first",
        "pairs without a majority": "undecided_share",
        "pairs where the worker model overrules the majority": "worker_differs_share",
    }
    rows = [[meaning, percent(agreement[name])] for meaning, name in shares.items()]
    return Table(["of the votes and pairs", "share"], rows)


def _annotator_table(annotators: pl.DataFrame) -> Table:
    """The annotators with the most votes; what is known of none of them has no column."""
    shown = annotators.sort(["n_votes", "annotator"], descending=[True, False]).head(LONGEST_TABLE)
    agreement = shown.select("agreement", "agreement_low", "agreement_high").iter_rows()
    columns: dict[str, list[Any]] = {
        "annotator": shown["annotator"].to_list(),
        "kind": shown["annotator_kind"].to_list(),
        "votes": shown["n_votes"].to_list(),
        "agreement [95 %]": [interval(*row) for row in agreement],
        "worker model": [number(value) for value in shown["worker_accuracy"]],
        "gold": [number(value) for value in shown["gold_accuracy"]],
        "votes a": [percent(value) for value in shown["share_a"]],
        "shown first": [percent(value) for value in shown["share_first"]],
        "ties": [percent(value) for value in shown["share_tie"]],
    }
    known = {heading: values for heading, values in columns.items() if set(values) != {NOTHING}}
    more = len(annotators) - len(shown)
    caption = f"The {len(shown)} with the most votes; {number(more)} more are in the table." if more else ""
    return Table(list(known), list(zip(*known.values(), strict=True)), caption)


def duplicates(clusters: pl.DataFrame, contradictions: pl.DataFrame) -> Section:
    """How much of the data says the same again, and where it says the opposite."""
    title = "Duplicates and contradictions"
    lead = "Duplicates are clustered, not dropped. A contradiction prefers A over B here and B over A there."
    if clusters.is_empty():
        return Section("duplicates", title, "No comparisons.", lead)
    sizes = [_cluster_row(clusters, kind) for kind in ("exact", "near")]
    said = f"{number(len(contradictions))} contradictions" if len(contradictions) else "No contradiction was found"
    finding = f"{number(sizes[0][1])} clusters of exact and {number(sizes[1][1])} of near duplicates. {said}."
    blocks: list[Block] = [Table(["duplicates", "clusters", "comparisons", "largest"], sizes)]
    if not contradictions.is_empty():
        named = contradictions.with_columns(pl.col("kind").cast(pl.String))
        kinds = named.group_by("kind").agg(pl.len()).sort("kind").rows()
        examples = named.sort(["kind", "pair_id", "other_pair_id"]).head(10)
        ids = (pl.col(name).str.slice(0, 8) for name in ("pair_id", "other_pair_id"))
        caption = ", ".join(f"{number(count)} {kind}" for kind, count in kinds)
        headings = ["contradiction", "pair", "other pair", "verdicts"]
        blocks.append(frame_table(examples.select("kind", *ids, "detail"), headings, caption))
    return Section("duplicates", title, finding, lead, blocks)


def _cluster_row(clusters: pl.DataFrame, kind: str) -> list[str | int]:
    several = clusters.filter(pl.col(f"n_{kind}") > 1)
    return [kind, several[f"{kind}_cluster"].n_unique(), len(several), int(clusters[f"n_{kind}"].to_numpy().max())]


def splits(
    pairs: pl.DataFrame, counts: Mapping[str, Any], outcomes: Mapping[str, int], leakage: Mapping[str, int]
) -> Section:
    """What became of the comparisons, the sizes of the splits, and what these share.

    `outcomes` is that of `preflow.pairs.outcome_counts`, `leakage` that of `preflow.audit.splits`.
    """
    lead = "Prompts and near duplicates are never divided, so a test score is not memory."
    if pairs.is_empty():
        return Section("splits", "Pairs and splits", "No preference pairs.", lead)
    sizes = pairs.group_by("split").agg(pl.len().alias("pairs"), pl.col("prompt_group").n_unique()).sort("split")
    rows = [[row[0], row[1], percent(row[1] / len(pairs)), row[2]] for row in sizes.iter_rows()]
    parts = ", ".join(f"{number(row[1])} {row[0]}" for row in rows)
    leaks: list[list[str | int]] = [[name.replace("_", " "), count] for name, count in leakage.items()]
    leaking = any(count for name, count in leakage.items() if name != "responses")
    verdict = "Splits leak: the held-out figures below are too good." if leaking else "No leakage."
    short = "Short answers may recur under unrelated prompts; that is not leakage." if leakage.get("responses") else ""
    became = [counts["comparisons"], *(outcomes[name] for name in ("pair", "tie", "undecided"))]
    blocks: list[Block] = [
        Text(_equation("comparisons", became, ("preference pairs", "ties", "undecided"))),
        Table(["split", "pairs", "share", "prompt groups"], rows),
        Table(["in more than one split", "count"], leaks, f"{verdict} {short}".strip()),
    ]
    flags = pairs.select(pl.col("flags").explode(empty_as_null=False)).to_series().drop_nulls().value_counts()
    if not flags.is_empty():
        ordered = flags.sort(["count", "flags"], descending=[True, False])
        blocks.append(frame_table(ordered, ["flag", "pairs"], "Pairs with a doubt on record."))
    return Section("splits", "Pairs and splits", f"{parts}. {verdict}", lead, blocks)


def distributions(pairs: pl.DataFrame) -> Section:
    """Scores, margins and lengths of chosen against rejected."""
    lead = "A reward model learns any shortcut it is offered: length first."
    if pairs.is_empty():
        return Section("distributions", "Scores and lengths", "No preference pairs.", lead)
    longer = pairs.filter(pl.col("chosen").str.len_chars() > pl.col("rejected").str.len_chars()).height / len(pairs)
    finding = f"The chosen response is the longer one in {percent(longer)} of the pairs."
    blocks: list[Block] = [Figure(charts.length_distribution(pairs), "Response length in characters, logarithmic.")]
    if not pairs["margin"].count():
        finding += " The sources hold no scores."
        return Section("distributions", "Scores and lengths", finding, lead, blocks)
    against = pairs.filter(pl.col("margin") < 0).height
    finding += f" {number(against)} labels contradict their scores."
    blocks += [
        Figure(charts.score_distribution(pairs), "Scores on the sources' own scale."),
        Figure(charts.margin_distribution(pairs), "Score of chosen minus score of rejected."),
    ]
    return Section("distributions", "Scores and lengths", finding, lead, blocks)


def reward_model(evaluation: Mapping[str, Any]) -> Section:
    """The baseline reward model on the held-out split against its baselines; the dict is `evaluation.evaluate`'s."""
    lead = (
        "A Bradley-Terry head on frozen embeddings: what the labels teach a small model. Intervals are 95 % bootstrap."
    )
    if not evaluation:
        return Section("reward", "Baseline reward model", "Not evaluated: there is no pair.", lead)
    split = held_out(evaluation)
    result = evaluation[split]
    rows = [_model_row(name, result) for name in BASELINES]
    headings = ["model", "pairwise accuracy", "log-loss", "model minus this", "McNemar test"]
    unit = "prompt groups" if result["model"]["accuracy"]["unit"] == "cluster" else "pairs"
    caption = (
        f"On {number(result['n_pairs'])} pairs of {number(result['n_prompt_groups'])} prompts ({split}); intervals "
        f"resample {unit}. Expected calibration error of the model: {number(result['model']['ece'])}."
    )
    drawn = charts.reliability_diagram(reliability(evaluation))
    figure = Figure(drawn, "Reliability with 95 % intervals: on the diagonal, probabilities mean what they say.")
    blocks: list[Block] = [Table(headings, rows, caption), figure]
    return Section("reward", "Baseline reward model", _against_length(result), lead, blocks)


def _against_length(result: Mapping[str, Any]) -> str:
    """Whether the model has learnt more than length, in a sentence."""
    against = result["model_minus_length"]
    verdict = "the two are not separable"
    if against["p_value"] < SIGNIFICANT:
        verdict = f"the {'model' if against['estimate'] > 0 else 'length'} is better"
    return (
        f"Right on {percent(result['model']['accuracy']['estimate'])} of the held-out pairs, length alone on "
        f"{percent(result['length']['accuracy']['estimate'])}: {verdict} ({p_value(against['p_value'])})."
    )


def _model_row(name: str, result: Mapping[str, Any]) -> list[Any]:
    scores, against = result[name], result.get(f"model_minus_{name}")
    accuracy, loss = scores["accuracy"], scores.get("log_loss")
    return [
        BASELINES[name],
        interval(accuracy["estimate"], accuracy["low"], accuracy["high"]),
        interval(loss["estimate"], loss["low"], loss["high"]) if loss else number(None),
        interval(against["estimate"], against["low"], against["high"]) if against else number(None),
        p_value(against["p_value"] if against else None),
    ]


def suspicious(pairs: pl.DataFrame, predictions: pl.DataFrame) -> Section:
    """The pairs whose label surprises the baseline most, each with its full texts."""
    lead = (
        "Sorted by surprise, the negative log-likelihood of the recorded label for a model that did not train on it. A "
        "hint, not a verdict: read them. Some are wrong labels, some are hard, some are honest disagreement."
    )
    ranked = predictions.join(pairs, on="pair_id", how="inner").sort(["suspicion", "pair_id"], descending=[True, False])
    if ranked.is_empty():
        return Section("suspicious", "Most suspicious pairs", "No pair was scored.", lead)
    suspects = ranked.head(SUSPECTS).iter_rows(named=True)
    cards = [_suspect(rank, row) for rank, row in enumerate(suspects, start=1)]
    most, least = ranked["suspicion"][0], ranked["suspicion"][len(cards) - 1]
    finding = f"Their surprise runs from {number(most, 2)} down to {number(least, 2)}; a coin's is 0.69."
    return Section("suspicious", f"The {len(cards)} most suspicious pairs", finding, lead, [Folds(cards)])


def _suspect(rank: int, row: Mapping[str, Any]) -> Details:
    facts = [
        f"surprise {row['suspicion']:.2f}",
        f"P(chosen better) {row['probability']:.2f}",
        f"label by {row['label_source'].replace('_', ' ')}, {row['vote_share']:.0%} for chosen",
        f"{row['n_votes']} votes",
        f"{row['source']}, {row['split']}",
        f"pair {row['pair_id'][:8]}",
    ]
    return pair_details(row, f"{rank}.", facts)


def reading(table_links: Mapping[str, str]) -> Section:
    """Where the full tables are, and what the words mean."""
    for name, path in table_links.items():
        if ":" in path or path.startswith("/"):
            raise ValueError(
                f"link {name!r} to {path!r}: give a path relative to the page, so that both can move together"
            )
    words = [
        ["agreement", "1 minus the normalised entropy of a pair's votes"],
        ["log-loss", "mean negative log-probability of the label; a coin has 0.693"],
        ["ECE", "mean gap between predicted probability and observed share, over bins; 0 is calibrated"],
        ["paired test", "how likely so large a difference on the same pairs is, were the two equally good"],
        ["[low, high]", "95 % interval"],
    ]
    blocks: list[Block] = [Links(dict(table_links))] if table_links else []
    finding = f"{len(table_links)} tables and folders lie beside this page." if table_links else ""
    return Section("tables", "The tables, and the words", finding, "", [*blocks, Table(["word", "meaning"], words)])
