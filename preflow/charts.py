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

BLUE, ORANGE, GREY = "#5b87ad", "#d4924f", "#8b8f94"
WIDTH = 300  # labels included: three beside each other on a desk, one on a phone
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert brings the first: same measures on every machine
MAX_BINS = 30
MAX_ROWS = 15

Spec = dict[str, Any]


def to_svg(spec: Spec) -> str:
    """The spec drawn as SVG text, without network or browser; the same spec gives the same bytes."""
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])


def reliability_diagram(bins: pl.DataFrame) -> Spec:
    """Predicted probability against observed share, a circle a bin, its area the number of pairs.

    `bins` has `predicted` and `observed` in [0, 1] and `count`; a calibrated model lies on the diagonal.
    """
    ends = alt.Data(values=[{"p": 0, "q": 0}, {"p": 1, "q": 1}])
    unit, fifths = alt.Scale(domain=[0, 1]), alt.Axis(tickCount=5)
    diagonal = alt.Chart(ends).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x="p:Q", y="q:Q")
    base = alt.Chart(bins.select("predicted", "observed", "count")).encode(
        x=alt.X("predicted:Q", scale=unit, axis=fifths, title="predicted probability"),
        y=alt.Y("observed:Q", scale=unit, axis=fifths, title="observed share"),
    )
    line = base.mark_line(color=BLUE, strokeWidth=1.5)
    area = alt.Size("count:Q", legend=None, scale=alt.Scale(range=[20, 220]))
    circles = base.mark_circle(color=BLUE, opacity=0.9).encode(size=area)
    return _finish(diagonal + line + circles, "Reliability: predicted probability against observed share.", height=240)


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
    labels = "format(pow(10, datum.value), datum.value < 3 ? '.2~r' : '.2~s')"
    spec["encoding"]["x"]["axis"] = {"labelExpr": labels, "tickCount": 6}
    return spec


def entropy_histogram(votes_summary: pl.DataFrame) -> Spec:
    """Vote entropy of each voted pair: 0 is unanimous, 1 is an even split over a, b and tie."""
    voted = votes_summary.filter(pl.col("n_votes") > 1)
    return histogram({"pairs": voted["entropy"]}, x_title="vote entropy", description="Vote entropy of the pairs.")


def histogram(series: Mapping[str, pl.Series], *, x_title: str, description: str) -> Spec:
    """Shares per bin of one or more series on shared bins; a line a series, filled lightly. Nulls are left out."""
    values = {name: column.drop_nulls().to_numpy() for name, column in series.items()}
    edges = _bin_edges(np.concatenate(list(values.values())))
    rows = [
        {"series": name, "from": float(left), "to": float(right), "share": float(share)}
        for name, numbers in values.items()
        for left, right, share in zip(edges[:-1], edges[1:], _shares(numbers, edges), strict=True)
    ]
    several = len(series) > 1
    legend = alt.Legend(orient="top", title=None) if several else None
    hues = alt.Scale(domain=list(series), range=[BLUE, ORANGE][: len(series)])
    chart = (
        alt.Chart(pl.DataFrame(rows))
        .mark_bar(opacity=0.6 if several else 1, binSpacing=0 if several else 1)
        .encode(
            x=alt.X("from:Q", bin="binned", title=x_title),
            x2="to:Q",
            y=alt.Y("share:Q", stack=None, axis=alt.Axis(format="~%", title=None)),
            color=alt.Color("series:N", scale=hues, legend=legend),
        )
    )
    return _finish(chart, description, height=170)


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
        x=alt.X("agreement_low:Q", scale=alt.Scale(zero=False, nice=True), title="agreement with the others"),
        x2="agreement_high:Q",
        y=names,
    )
    points = base.mark_point(color=BLUE, filled=True, size=45, opacity=1).encode(x="agreement:Q", y=names)
    return _finish(span + points, "Annotator agreement with 95 % intervals.", height=alt.Step(17))


def reasons_bar(counts: pl.DataFrame) -> Spec:
    """Refused rows by reason, most frequent first. `counts` has `reason` and `rows`."""
    shown = counts.sort(["rows", "reason"], descending=[True, False]).head(MAX_ROWS).select("reason", "rows")
    base = alt.Chart(shown).encode(
        y=alt.Y("reason:N", sort=shown["reason"].to_list(), title=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X("rows:Q", axis=None, scale=alt.Scale(domain=[0, 1.25 * float(shown["rows"].to_numpy().max())])),
    )
    numbers = base.mark_text(align="left", dx=4).encode(text=alt.Text("rows:Q", format=","))
    return _finish(base.mark_bar(color=BLUE) + numbers, "Refused rows by reason.", height=alt.Step(20))


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
            domainColor=GREY, tickColor=GREY, gridColor="#e3e3df", labelFontSize=11, titleFontSize=11,
            titleFontWeight="normal", labelColor="#444", titleColor="#444", labelLimit=130,
        )
        .configure_legend(labelFontSize=11, labelColor="#444", symbolType="square")
        .configure_text(fontSize=11, color="#444")
    )  # fmt: skip
    return styled.to_dict()
