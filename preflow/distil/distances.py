"""Sequence-level KL of two language models: exact by enumeration, and the two estimators of it.

KL(P || Q) of sequences is the mean over y ~ P of log P(y) - log Q(y) (Monte-Carlo), and, since a sequence is drawn
token by token, of the sum over its positions of KL(P(. | y_<t) || Q(. | y_<t)) (Rao-Blackwellised; Amini et al.,
"Better Estimation of the KL Divergence Between Language Models", arXiv 2504.10637). The second is never negative and
varies less; golden and proxy are made of it.
"""

from itertools import product

import torch
from torch import Tensor

from preflow.distil.divergences import kl, over_tokens, token_logprob
from preflow.distil.language import LanguageModel
from preflow.distil.ngram import NGram

MAX_SEQUENCES = 2**20  # prompts x sequences that are enumerated


@torch.no_grad()
def monte_carlo_kl(p: LanguageModel, q: LanguageModel, prompts: Tensor, responses: Tensor) -> Tensor:
    """The log-ratio log P(y) - log Q(y) of responses that were drawn from P, [n]."""
    ratio = token_logprob(p.logprobs(prompts, responses) - q.logprobs(prompts, responses), responses)
    return over_tokens(ratio, responses)


@torch.no_grad()
def rao_blackwell_kl(p: LanguageModel, q: LanguageModel, prompts: Tensor, responses: Tensor) -> Tensor:
    """Sum of the token-level KL along responses that were drawn from P, [n]."""
    return over_tokens(kl(p.logprobs(prompts, responses), q.logprobs(prompts, responses)), responses)


@torch.no_grad()
def exact_kl(p: NGram, q: NGram, prompts: Tensor) -> Tensor:
    """KL(P || Q) of whole responses to each prompt, [n], by enumerating them.

    Raises
    ------
    ValueError
        There are more than MAX_SEQUENCES to enumerate.
    """
    language = p.language
    every = language.vocabulary**language.length
    if every * len(prompts) > MAX_SEQUENCES:
        raise ValueError(
            f"{every} responses to each of {len(prompts)} prompts are too many to enumerate (at most {MAX_SEQUENCES}); "
            "estimate with rao_blackwell_kl"
        )
    responses = torch.tensor(list(product(range(language.vocabulary), repeat=language.length)))
    of_all, repeated = responses.repeat(len(prompts), 1), prompts.repeat_interleave(every, dim=0)
    log_p, log_q = (token_logprob(model.logprobs(repeated, of_all), of_all).sum(1) for model in (p, q))
    return (log_p.exp() * (log_p - log_q)).view(len(prompts), every).sum(1)
