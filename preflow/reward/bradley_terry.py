"""The linear Bradley-Terry model (Bradley and Terry, 1952): P(chosen better) = sigmoid(w . (x_chosen - x_rejected)).

No intercept: swapping the two responses must turn P into 1 - P.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def cross_entropy(margin: np.ndarray, share: np.ndarray) -> np.ndarray:
    """-s log sigmoid(m) - (1 - s) log sigmoid(-m) of each pair, [n]: margin m, share s of the votes for chosen."""
    return share * np.logaddexp(0, -margin) + (1 - share) * np.logaddexp(0, margin)


def fit_bradley_terry(differences: np.ndarray, share: np.ndarray, *, l2: float) -> np.ndarray:
    """The weights, [d], that minimise mean cross-entropy + l2/2 |w|^2; convex, so without a seed.

    Parameters
    ----------
    differences
        Inputs of chosen minus inputs of rejected, [n, d].
    share
        Share of the votes for chosen, [n], in [0, 1].

    Raises
    ------
    ValueError
        There is no pair, or l2 is not positive (separable pairs would have no finite solution).
    RuntimeError
        The optimiser did not converge.
    """
    if len(differences) == 0 or not l2 > 0:
        raise ValueError(f"a Bradley-Terry fit needs pairs and l2 > 0; it got {len(differences)} pairs and l2 = {l2}")

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = differences @ weights
        gradient = differences.T @ (expit(margin) - share) / len(share) + l2 * weights
        return float(cross_entropy(margin, share).mean() + l2 / 2 * weights @ weights), gradient

    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
    result = minimize(objective, np.zeros(differences.shape[1]), jac=True, method="L-BFGS-B", options=options)
    if not result.success:
        raise RuntimeError(f"the Bradley-Terry fit on {differences.shape} stopped early: {result.message}")
    return result.x
