"""One way in: a data set of concepts by its name or folder."""

from pathlib import Path

from preflow.concepts.awa2 import load_awa2
from preflow.concepts.celeba import Code, celeba_files, load_celeba
from preflow.concepts.cub import load_cub
from preflow.concepts.digits import load_digits_8x8, load_digits_28x28
from preflow.concepts.schemas import ConceptData
from preflow.concepts.tables import load_table

EMBEDDED = {"digits_8x8": load_digits_8x8, "digits_28x28": load_digits_28x28}
KNOWN = (
    "CUB-200-2011 (images.txt, attributes/image_attribute_labels.txt), CelebA (list_attr_celeba.txt), AwA2 "
    "(predicate-matrix-binary.txt), a table (items.csv, concepts.csv) or images (images/CLASS/FILE, concepts.csv)"
)


def load_concepts(
    path: str, *, seed: int, image_side: int, min_classes: int | None, code: Code | None, one_in: int
) -> ConceptData:
    """The data set at `path`, whose layout is recognised by the files it has.

    Parameters
    ----------
    path
        A folder, or `digits_8x8` or `digits_28x28`, which need none.
    seed
        What splits are dealt from, where the source has none, and images drawn.
    image_side
        Side of images in pixels.
    min_classes
        CUB: denoise by class and keep the attributes true in so many classes; None: as annotated.
    code
        CelebA: how classes are made of attributes; None: the identities.
    one_in
        CelebA: take one image in so many.

    Raises
    ------
    ValueError
        There is no such folder, or it has none of the layouts.
    """
    if path in EMBEDDED:
        return EMBEDDED[path](seed=seed)
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"{path} is no folder; name one, or one of {', '.join(EMBEDDED)}")
    cub = root / "CUB_200_2011" if (root / "CUB_200_2011").is_dir() else root
    if (cub / "attributes" / "image_attribute_labels.txt").is_file():
        names = _attribute_names(root, cub)
        return load_cub(cub, names, seed=seed, image_side=image_side, min_classes=min_classes)
    if (root / celeba_files(root).cells).is_file():
        return load_celeba(root, seed=seed, image_side=image_side, code=code, one_in=one_in)
    if (root / "predicate-matrix-binary.txt").is_file():
        return load_awa2(root, seed=seed, image_side=image_side)
    if any(root.glob("concepts.*")):
        return load_table(root, seed=seed, image_side=image_side)
    raise ValueError(f"{path} has none of the known layouts: {KNOWN}")


def _attribute_names(root: Path, cub: Path) -> Path:
    """attributes.txt, which the archive has beside the folder CUB_200_2011, and many keep in its folder attributes."""
    for path in (root / "attributes.txt", cub / "attributes.txt", cub / "attributes" / "attributes.txt"):
        if path.is_file():
            return path
    raise ValueError(
        f"{root} has no attributes.txt, the names of the attributes: it is in the archive beside CUB_200_2011"
    )
