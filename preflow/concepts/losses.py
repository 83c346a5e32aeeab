"""The concept losses by the names that params use."""

from collections.abc import Callable

from preflow.concepts.cpo import CPO
from preflow.concepts.loss import ConceptLoss
from preflow.concepts.robust import BCE, ForwardBCE, GeneralisedCE, SmoothedBCE, SymmetricBCE

LOSSES: dict[str, Callable[..., ConceptLoss]] = {
    "bce": BCE,
    "smoothed_bce": SmoothedBCE,
    "generalised_ce": GeneralisedCE,
    "symmetric_bce": SymmetricBCE,
    "forward_bce": ForwardBCE,
    "cpo": lambda **how: CPO(joint=False, **how),
    "cpo_joint": lambda **how: CPO(joint=True, **how),
}


def concept_loss(name: str, **settings: float) -> ConceptLoss:
    """One of LOSSES with its settings, as a params file names it.

    Raises
    ------
    ValueError
        The name is unknown, or a setting is missing or not one of this loss.
    """
    if name not in LOSSES:
        raise ValueError(f"concept loss {name!r} is unknown; known are {sorted(LOSSES)}")
    try:
        return LOSSES[name](**settings)
    except TypeError as error:
        raise ValueError(f"concept loss {name!r} with settings {settings}: {error}") from error
