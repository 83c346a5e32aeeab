"""The report's charts as Vega-Lite specs, so that DVC, a notebook and the page draw the same picture.

Values are binned here: a spec holds tens of numbers however many pairs there are. Two hues tell the chosen from the
rejected side (blue and orange stay apart in every common colour blindness, and in grey); all the rest is grey.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import vl_convert
from statsmodels.stats.proportion import proportion_confint

from preflow.comparison.paired import BASELINE

BLUE, ORANGE, GREY = "#5b87ad", "#d4924f", "#8b8f94"
CONTROL_HUES = {BASELINE: GREY, "start": "#bfc3c7"}  # policies that no goal was trained into
WIDTH = 360  # labels included: three beside each other on a desk, one on a phone
HEIGHT = 200
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert brings the first: same measures on every machine
MAX_BINS = 24
MAX_ROWS = 15
GAP = 0.05  # of a bin, on either side of its bars

Spec = dict[str, Any]


def to_svg(spec: Spec) -> str:
    """The spec drawn as SVG text, without network or browser; the same spec gives the same bytes."""
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])


def reliability_diagram(bins: pl.DataFrame) -> Spec:
    """Predicted probability against observed share: a point and its 95 % Wilson interval a bin.

    `bins` has `predicted` and `observed` in [0, 1] and `count`. A calibrated model lies on the diagonal, which runs
    from corner to corner of the range that the points and the intervals fill.
    """
    counts, observed = bins["count"].to_numpy(), bins["observed"].to_numpy()
    low, high = proportion_confint(observed * counts, counts, alpha=0.05, method="wilson")
    rows = bins.select("predicted", "observed", "count", low=pl.Series(low), high=pl.Series(high))
    start = np.floor(10 * min(rows["predicted"].to_numpy().min(), low.min())) / 10
    end = np.ceil(10 * max(rows["predicted"].to_numpy().max(), high.max())) / 10
    unit, tenths = alt.Scale(domain=[start, end], nice=False, zero=False), alt.Axis(tickCount=6, format=".1f")
    corners = alt.Data(values=[{"p": start, "q": start}, {"p": end, "q": end}])
    dashes = alt.Chart(corners).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1)
    diagonal = dashes.encode(
        x=alt.X("p:Q", scale=unit, axis=tenths, title="predicted probability"),
        y=alt.Y("q:Q", scale=unit, axis=tenths, title="observed share"),
    )
    base = alt.Chart(rows).encode(x="predicted:Q")
    spans = base.mark_rule(color=GREY, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    points = base.mark_point(color=BLUE, filled=True, size=50, opacity=1).encode(y="observed:Q")
    return _finish(diagonal + spans + points, "Reliability: predicted probability against observed share.", height=240)


def score_distribution(pairs: pl.DataFrame) -> Spec:
    """Scores of the chosen and the rejected responses, on the source's own scale."""
    series = {"chosen": pairs["score_chosen"], "rejected": pairs["score_rejected"]}
    return histogram(series, x_title="score", description="Scores of chosen and rejected responses.")


def margin_distribution(pairs: pl.DataFrame) -> Spec:
    """Score of chosen minus score of rejected; left of zero the label contradicts the scores."""
    return histogram({"pairs": pairs["margin"]}, x_title="margin", description="Score margin of the pairs.")


def length_distribution(pairs: pl.DataFrame) -> Spec:
    """Response lengths in characters, chosen against rejected, on a logarithmic axis."""
    logs = {side: pairs[side].str.len_chars().cast(pl.Float64).log10() for side in ("chosen", "rejected")}
    spec = histogram(logs, x_title="characters", description="Response length, chosen and rejected.")
    ticks = [float(np.log10(step * 10**power)) for power in range(7) for step in (1, 2, 5)]
    labels = "format(round(pow(10, datum.value)), '~s')"
    spec["encoding"]["x"]["axis"] = {"values": ticks, "labelExpr": labels, "grid": False}
    return spec


def entropy_histogram(votes_summary: pl.DataFrame) -> Spec:
    """Vote entropy of each voted pair: 0 is unanimous, 1 is an even split over a, b and tie."""
    voted = votes_summary.filter(pl.col("n_votes") > 1)
    return histogram({"pairs": voted["entropy"]}, x_title="vote entropy", description="Vote entropy of the pairs.")


def histogram(series: Mapping[str, pl.Series], *, x_title: str, description: str) -> Spec:
    """Shares per bin of one or two series on shared bins, their bars side by side. Nulls are left out."""
    values = {name: column.drop_nulls().to_numpy() for name, column in series.items()}
    edges = _bin_edges(np.concatenate(list(values.values())))
    rows = [bar for place, name in enumerate(values) for bar in _bars(name, values[name], edges, place, len(series))]
    legend = alt.Legend(orient="top", title=None) if len(series) > 1 else None
    hues = alt.Scale(domain=list(series), range=[BLUE, ORANGE][: len(series)])
    span = alt.Scale(domain=[float(edges[0]), float(edges[-1])], nice=False)
    chart = (
        alt.Chart(pl.DataFrame(rows))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", scale=span, title=x_title, axis=alt.Axis(tickCount=6, grid=False)),
            x2="to:Q",
            y=alt.Y("share:Q", axis=alt.Axis(format="~%", title=None, tickCount=5)),
            y2=alt.datum(0),
            color=alt.Color("series:N", scale=hues, legend=legend),
        )
    )
    return _finish(chart, description, height=HEIGHT)


def _bars(name: str, values: np.ndarray, edges: np.ndarray, place: int, of: int) -> list[dict[str, Any]]:
    """A bar a bin: the `place`-th of `of` equal parts of the bin, its height the bin's share of the values."""
    width = float(edges[1] - edges[0])
    slot = (1 - 2 * GAP) * width / of
    lefts = edges[:-1] + GAP * width + place * slot
    return [
        {"series": name, "from": float(left), "to": float(left + slot), "share": float(share)}
        for left, share in zip(lefts, _shares(values, edges), strict=True)
    ]


def annotator_quality(annotators: pl.DataFrame) -> Spec:
    """Agreement with the majority of the others, with its 95 % interval; the annotators with the most votes."""
    known = annotators.filter(pl.col("agreement").is_not_null()).sort(
        ["n_votes", "annotator"], descending=[True, False]
    )
    shown = known.head(MAX_ROWS).select("annotator", "agreement", "agreement_low", "agreement_high")
    order = shown.sort(["agreement", "annotator"], descending=[True, False])["annotator"].to_list()
    names = alt.Y("annotator:N", sort=order, title=None)
    base = alt.Chart(shown)
    span = base.mark_rule(color=GREY, strokeWidth=1.5).encode(
        x=alt.X("agreement_low:Q", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5), title="share agreeing"),
        x2="agreement_high:Q",
        y=names,
    )
    points = base.mark_point(color=BLUE, filled=True, size=45, opacity=1).encode(x="agreement:Q", y=names)
    return _finish(span + points, "Annotator agreement with 95 % intervals.", height=alt.Step(22))


def reasons_bar(counts: pl.DataFrame) -> Spec:
    """Refused rows by reason, most frequent first. `counts` has `reason` and `rows`."""
    shown = counts.sort(["rows", "reason"], descending=[True, False]).head(MAX_ROWS).select("reason", "rows")
    base = alt.Chart(shown).encode(
        y=alt.Y("reason:N", sort=shown["reason"].to_list(), title=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X("rows:Q", axis=None, scale=alt.Scale(domain=[0, 1.25 * float(shown["rows"].to_numpy().max())])),
    )
    numbers = base.mark_text(align="left", dx=4).encode(text=alt.Text("rows:Q", format=","))
    return _finish(base.mark_bar(color=BLUE) + numbers, "Refused rows by reason.", height=alt.Step(22))


def recommendations_heatmap(counts: pl.DataFrame) -> Spec:
    """What is recommended for which agreement class; `counts` is `preflow.triage.overview.recommended_by_class`.

    The darker a field, the larger its share of the class; the number is how many comparisons it holds.
    """
    words = pl.col("agreement_class", "recommendation").str.replace_all("_", " ")
    rows = counts.with_columns(words, share=pl.col("pairs") / pl.col("pairs").sum().over("agreement_class"))
    axis = alt.Axis(ticks=False, domain=False, labelAngle=0, labelExpr="split(datum.label, ' ')")
    base = alt.Chart(rows).encode(
        x=alt.X("recommendation:N", title=None, axis=axis), y=alt.Y("agreement_class:N", title=None, axis=axis)
    )
    shades = alt.Scale(domain=[0, 1], range=["#eef2f6", BLUE])
    fields = base.mark_rect().encode(color=alt.Color("share:Q", scale=shades, legend=None))
    numbers = base.mark_text().encode(text=alt.Text("pairs:Q", format=","))
    return _finish(fields + numbers, "Recommendations by agreement class.", height=alt.Step(32))


def concept_front(points: pl.DataFrame, *, baseline: str) -> Spec:
    """Task accuracy against concept AUC of every setting; the settings that none passes in both are filled.

    `points` is that of `preflow.concepts.measured.front`. The baseline is grey, CPO blue, other losses orange.
    """
    kind = pl.when(pl.col("method") == baseline).then(pl.lit(baseline))
    named = kind.when(pl.col("loss").str.starts_with("cpo")).then(pl.lit("CPO")).otherwise(pl.lit("other losses"))
    shown = ("method", "lambda", "concept_auc", "task_accuracy", "on_front")
    rows = points.select(*shown, kind=named)
    hues = alt.Scale(domain=[baseline, "CPO", "other losses"], range=[GREY, BLUE, ORANGE])
    axes = {
        "x": alt.X("concept_auc:Q", title="concept AUC", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
        "y": alt.Y("task_accuracy:Q", title="task accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
        "color": alt.Color("kind:N", scale=hues, legend=alt.Legend(orient="top", title=None)),
        "tooltip": ["method:N", "lambda:Q"],
    }
    all_points = alt.Chart(rows).mark_point(size=45).encode(**axes)
    best = alt.Chart(rows.filter("on_front")).mark_point(size=45, filled=True, opacity=1).encode(**axes)
    return _finish(all_points + best, "Task accuracy against concept AUC, by loss and loss weight.", height=240)


def intervention_lines(curves: pl.DataFrame, *, baseline: str) -> Spec:
    """Task accuracy against the number of corrected concepts, by method (hue) and by what is corrected first.

    Solid is the cooperative order, dashed that of uncertainty, dotted a random one.

    `curves` is that of `preflow.concepts.measured.intervention_curves`; beside the baseline two methods are shown.
    """
    others = [name for name in curves["method"].unique(maintain_order=True) if name != baseline][:2]
    rows = curves.filter(pl.col("method").is_in([baseline, *others]))
    hues = alt.Scale(domain=[baseline, *others], range=[GREY, BLUE, ORANGE][: 1 + len(others)])
    legend = alt.Legend(orient="top", title=None, columns=1)
    chart = (
        alt.Chart(rows.select("method", "policy", "corrected", "mean"))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("corrected:Q", title="corrected concepts", axis=alt.Axis(tickCount=6, grid=False)),
            y=alt.Y("mean:Q", title="task accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
            color=alt.Color("method:N", scale=hues, legend=legend),
            strokeDash=alt.StrokeDash("policy:N", sort=["cooperative", "uncertainty", "random"], legend=None),
        )
    )
    return _finish(chart, "Task accuracy after concepts are corrected, by loss and order of correction.", height=240)


def distance_curves(bands: pl.DataFrame, *, baseline: str, control: str) -> Spec:
    """Golden (solid) and proxy (dashed) distance along the baseline's (orange) and the online control's runs (blue).

    `bands` is that of `preflow.distil.report.curve_bands`, with 95 % intervals over seeds. Without an oracle there is
    no golden distance to draw.
    """
    shown = bands.filter(pl.col("distance").is_in(["golden", "proxy"]) & pl.col("regime").is_in([baseline, control]))
    hues = alt.Scale(domain=[baseline, control], range=[ORANGE, BLUE])
    base = alt.Chart(shown).encode(
        x=alt.X("update:Q", title="updates", axis=alt.Axis(tickCount=6, grid=False)),
        y=alt.Y("mean:Q", title="nats a response", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(tickCount=5)),
        color=alt.Color("regime:N", scale=hues, legend=alt.Legend(orient="top", title=None)),
        detail="distance:N",
    )
    spans = base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q")
    dashes = alt.StrokeDash("distance:N", scale=alt.Scale(domain=["golden", "proxy"], range=[[1, 0], [4, 3]]))
    lines = base.mark_line(strokeWidth=1.5).encode(strokeDash=dashes.legend(orient="top", title=None))
    return _finish(spans + lines, "Golden and proxy distance along training, offline and online.", height=240)


def proxy_golden(bands: pl.DataFrame, *, baseline: str, control: str) -> Spec:
    """Golden against proxy distance along the runs of every regime, a point at the end; means over seeds.

    A line that turns up while it still goes left is teacher hacking. The baseline is orange, the control blue.
    """
    if "golden" not in bands["distance"]:
        return _note("there is no oracle to measure the golden distance with")
    plane = bands.pivot("distance", index=["regime", "update"], values="mean")
    kind = pl.when(pl.col("regime").is_in([baseline, control])).then("regime").otherwise(pl.lit("others"))
    rows = plane.filter(pl.col("update") > 0).select("regime", "update", "golden", "proxy", kind=kind)
    hues = alt.Scale(domain=[baseline, control, "others"], range=[ORANGE, BLUE, GREY])
    axes = {
        "x": alt.X("proxy:Q", title="proxy: distance to the teacher", scale=alt.Scale(zero=False)),
        "y": alt.Y("golden:Q", title="golden: distance to the oracle", scale=alt.Scale(zero=False)),
        "color": alt.Color("kind:N", scale=hues, legend=alt.Legend(orient="top", title=None)),
        "detail": "regime:N",
    }
    lines = alt.Chart(rows).mark_line(strokeWidth=1.5).encode(**axes, order="update:Q")
    ends = rows.sort("update").group_by("regime", maintain_order=True).last()
    points = alt.Chart(ends).mark_point(filled=True, size=40, opacity=1).encode(**axes)
    return _finish(lines + points, "Golden against proxy distance along training, by regime.", height=240)


def _bin_edges(values: np.ndarray) -> np.ndarray:
    """Edges of equal bins: one a value where the values are few whole numbers, otherwise at most `MAX_BINS`."""
    if values.size == 0:
        return np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    whole = bool(np.all(values == np.round(values)))
    if low == high or (whole and high - low < MAX_BINS):
        return np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0)
    return np.linspace(low, high, MAX_BINS + 1)


def _shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    counts, _ = np.histogram(values, bins=edges)
    return counts / max(1, values.size)


def _finish(chart: alt.Chart | alt.LayerChart, description: str, *, height: int | alt.Step) -> Spec:
    """The chart in the house style: transparent, no frame, pale rules."""
    styled = (
        chart.properties(
            width=WIDTH, height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            description=description, background="transparent",
        )
        .configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(
            domainColor=GREY, tickColor=GREY, gridColor="#e3e3df", labelFontSize=12, titleFontSize=12,
            titleFontWeight="normal", labelColor="#444", titleColor="#444", labelLimit=150,
        )
        .configure_legend(labelFontSize=12, labelColor="#444", symbolType="square")
        .configure_text(fontSize=12, color="#444")
    )  # fmt: skip
    return styled.to_dict()


def treatment_differences(summary: Mapping[str, Any]) -> Spec:
    """Each treatment's mean score minus that of plain training, by the first judge, with intervals, greatest first.

    Blue where the two are separable, grey where they are not. `summary` is that of `preflow.comparison.summary`.
    """
    if "not_measured" in summary:
        return _note(f"not measured: {summary['not_measured']}")
    rows = [row for row in summary["contrasts"] if row["judge"] == summary["judges"][0] and row["baseline"] == BASELINE]
    if not rows:
        return _note(f"no treatment to compare with {BASELINE}")
    columns = ("difference", "difference_low", "difference_high", "separable")
    shown = pl.DataFrame(rows).sort(["difference", "treatment"], descending=[True, False]).select(_words(), *columns)
    names = alt.Y("treatment:N", sort=shown["treatment"].to_list(), title=None)
    hue = alt.condition("datum.separable", alt.value(BLUE), alt.value(GREY))
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=GREY, strokeDash=[4, 4]).encode(x="zero:Q")
    base = alt.Chart(shown)
    spans = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("difference_low:Q", axis=alt.Axis(tickCount=5), title="difference in score"),
        x2="difference_high:Q",
        y=names,
        color=hue,
    )
    points = base.mark_point(filled=True, size=50, opacity=1).encode(x="difference:Q", y=names, color=hue)
    return _finish(zero + spans + points, "Differences in score with 95 % intervals.", height=alt.Step(24))


def reward_accuracy(own: Mapping[str, Any]) -> Spec:
    """Accuracy of each reward on held-out pairs, with 95 % intervals; see `preflow.reward_benchmark.own_pairs`."""
    measured = {name: found["accuracy"] for name, found in own["rewards"].items() if found["accuracy"]}
    if not measured:
        return _note("no reward read enough test pairs")
    rows = [
        {"reward": name, **{key: one[key] for key in ("estimate", "low", "high")}} for name, one in measured.items()
    ]
    names = alt.Y("reward:N", sort=list(measured), title=None)
    coin = alt.Chart(alt.Data(values=[{"coin": 0.5}])).mark_rule(color=GREY, strokeDash=[4, 4]).encode(x="coin:Q")
    base = alt.Chart(pl.DataFrame(rows))
    scale = alt.Scale(zero=False)
    spans = base.mark_rule(color=GREY, strokeWidth=1.5).encode(
        x=alt.X("low:Q", scale=scale, axis=alt.Axis(tickCount=5), title="accuracy"), x2="high:Q", y=names
    )
    points = base.mark_point(color=BLUE, filled=True, size=50, opacity=1).encode(x="estimate:Q", y=names)
    return _finish(coin + spans + points, "Accuracy of each reward with 95 % intervals.", height=alt.Step(24))


def attribute_effects(found: pl.DataFrame) -> Spec:
    """What each reward pays for each attribute, in standard deviations of the reward, with 95 % intervals.

    Blue where the interval leaves out zero. `found` is `preflow.reward_audit.schemas.RewardedAttributes`.
    """
    known = found.filter(pl.col("ate_in_sd").is_not_null(), pl.col("ate") != 0)
    if known.is_empty():
        return _note("no effect is identified")
    unit = pl.col("ate_in_sd") / pl.col("ate")
    shown = known.select(
        "reward",
        pl.col("attribute").str.replace_all("_", " "),
        effect="ate_in_sd",
        low=pl.col("ate_low") * unit,
        high=pl.col("ate_high") * unit,
    ).with_columns(known=(pl.col("low") > 0) | (pl.col("high") < 0))
    hue = alt.condition("datum.known", alt.value(BLUE), alt.value(GREY))
    names = alt.Y("attribute:N", title=None)
    shapes = alt.Shape("reward:N", legend=alt.Legend(title=None, orient="bottom"))
    place = alt.YOffset("reward:N")
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=GREY, strokeDash=[4, 4]).encode(x="zero:Q")
    base = alt.Chart(shown)
    spans = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("low:Q", axis=alt.Axis(tickCount=5), title="effect on the reward, standard deviations"),
        x2="high:Q", y=names, yOffset=place, color=hue,
    )  # fmt: skip
    points = base.mark_point(filled=True, size=50, opacity=1).encode(
        x="effect:Q", y=names, yOffset=place, color=hue, shape=shapes
    )
    return _finish(zero + spans + points, "Effects of attributes on rewards with 95 % intervals.", height=alt.Step(14))


def treatment_goal_control(summary: Mapping[str, Any]) -> Spec:
    """Mean score by goal asked for, by the first judge: a line with intervals a policy, those without goals grey.

    `summary` is that of `preflow.comparison.summary`.
    """
    if "not_measured" in summary:
        return _note(f"not measured: {summary['not_measured']}")
    rows = [row for row in summary["goal_curve"] if row["judge"] == summary["judges"][0]]
    if not rows:
        return _note("no policy was asked for a goal")
    shown = pl.DataFrame(rows).sort("treatment", "goal").select(_words(), "goal", "mean", "mean_low", "mean_high")
    names = shown["treatment"].unique().sort().to_list()
    hues = CONTROL_HUES | dict(zip((name for name in names if name not in CONTROL_HUES), (BLUE, ORANGE), strict=False))
    scale = alt.Scale(domain=names, range=[hues.get(name, GREY) for name in names])
    axis = alt.Axis(values=shown["goal"].unique().sort().to_list(), grid=False, labelOverlap=True)
    base = alt.Chart(shown).encode(
        x=alt.X("goal:Q", scale=alt.Scale(zero=False, padding=12), axis=axis, title="goal asked for"),
        color=alt.Color("treatment:N", scale=scale, legend=alt.Legend(orient="top", title=None, columns=2)),
    )
    spans = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("mean_low:Q", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5), title="mean score"),
        y2="mean_high:Q",
    )
    lines = base.mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=45, opacity=1)).encode(y="mean:Q")
    return _finish(spans + lines, "Mean score by goal asked for, with 95 % intervals.", height=HEIGHT)


def accuracy_by_share(selection: Mapping[str, Any]) -> Spec:
    """Validation accuracy by the share of pairs kept, easiest first; blue is the share that was picked.

    `selection` is that of `preflow.policies.share`: `share`, and `curve` with `share`, `accuracy`, `low` and `high`.
    """
    if not selection["curve"]:
        return _note("not measured: no pair was ranked")
    picked = pl.col("share") == selection["share"]
    shown = pl.DataFrame(selection["curve"]).sort("share").with_columns(picked=picked)
    hue = alt.condition("datum.picked", alt.value(BLUE), alt.value(GREY))
    axis = alt.Axis(values=shown["share"].to_list(), format="~%", grid=False, labelOverlap=True)
    base = alt.Chart(shown).encode(
        x=alt.X("share:Q", scale=alt.Scale(zero=False, padding=12), axis=axis, title="share of pairs kept")
    )
    spans = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", scale=alt.Scale(zero=False), axis=alt.Axis(format="~%", tickCount=5), title="accuracy"),
        y2="high:Q",
        color=hue,
    )
    points = base.mark_point(filled=True, size=50, opacity=1).encode(y="accuracy:Q", color=hue)
    return _finish(spans + points, "Accuracy by share of pairs kept, with 95 % intervals.", height=HEIGHT)


def _note(text: str) -> Spec:
    """A picture that says why there is none."""
    chart = alt.Chart(alt.Data(values=[{}])).mark_text(limit=WIDTH).encode(text=alt.value(text))
    return _finish(chart, text, height=40)


def _words() -> pl.Expr:
    """Names of treatments as people read them."""
    return pl.col("treatment").str.replace_all("_", " ")
