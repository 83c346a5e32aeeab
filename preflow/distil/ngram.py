"""Neural n-gram language models with a prompt vector: small enough to repeat the paper's findings in seconds.

The paper has Flan-T5-XL as oracle and T5-large and T5-base as teacher and student. Here the next token depends on the
prompt, a vector, and on the `order - 1` tokens before it, through an MLP with GELU. Responses have a fixed length,
so that where vocabulary ** length is small every quantity can be had by enumeration.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, log_softmax

from preflow.distil.language import LanguageModel

# Scales of the random oracle: they make it peaked and far from linear, so that the teacher is visibly wrong about it.
EMBEDDING_SCALE, HIDDEN_SCALE, LOGIT_SCALE = 1.5, 2.0, 6.0


@dataclass(frozen=True, kw_only=True)
class Language:
    """What oracle, teacher and student have in common."""

    vocabulary: int
    length: int
    """Tokens of a response."""
    order: int
    """Of the n-gram: 3 looks at two tokens."""
    prompt_size: int

    def draw_prompts(self, n: int, generator: torch.Generator) -> Tensor:
        """Standard normal prompt vectors, [n, prompt_size]."""
        return torch.randn(n, self.prompt_size, generator=generator)


class NGram(LanguageModel):
    """An n-gram model with `width` units in each of two hidden layers and in its embedding `embedding` numbers."""

    def __init__(self, language: Language, *, width: int, embedding: int, seed: int) -> None:
        super().__init__()
        self.language, self.width, self.embedding = language, width, embedding
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(language.vocabulary + 1, embedding)  # the last one stands before the start
            self.inputs = nn.Linear(language.prompt_size + (language.order - 1) * embedding, width)
            self.hidden = nn.Linear(width, width)
            self.head = nn.Linear(width, language.vocabulary)

    @property
    def vocabulary(self) -> str:
        """All n-grams of one vocabulary size have the same tokens."""
        return f"{self.language.vocabulary} tokens"

    @property
    def vocabulary_size(self) -> int:
        """See `LanguageModel`."""
        return self.language.vocabulary

    def forward(self, prompts: Tensor, contexts: Tensor) -> Tensor:
        """Log-probabilities of the next token, [n, T, V], after contexts [n, T, order - 1]."""
        size = self.language.prompt_size
        prompt = linear(prompts, self.inputs.weight[:, :size], self.inputs.bias)  # once a prompt, not once a position
        seen = linear(self.tokens(contexts).flatten(2), self.inputs.weight[:, size:]) + prompt[:, None]
        return log_softmax(self.head(gelu(self.hidden(gelu(seen)))), dim=-1)

    def logprobs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """See `LanguageModel`."""
        before = responses.new_full((len(responses), self.language.order - 1), self.language.vocabulary)
        contexts = torch.cat([before, responses[:, :-1]], dim=1).unfold(1, self.language.order - 1, 1)
        return self(prompts, contexts)

    @torch.no_grad()
    def sample(self, prompts: Tensor, generator: torch.Generator) -> Tensor:
        """See `LanguageModel`."""
        context = self.language.order - 1
        tokens = torch.full((len(prompts), context), self.language.vocabulary)
        for _ in range(self.language.length):
            p = self(prompts, tokens[:, None, -context:])[:, 0].exp()
            tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
        return tokens[:, context:]

    def save_pretrained(self, folder: Path) -> None:
        """Write `model.safetensors` and `config.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        config = asdict(self.language) | {"width": self.width, "embedding": self.embedding}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_file(self.state_dict(), folder / "model.safetensors")


def load_ngram(folder: Path) -> NGram:
    """The model that `NGram.save_pretrained` wrote."""
    config = json.loads((folder / "config.json").read_text())
    width, embedding = config.pop("width"), config.pop("embedding")
    model = NGram(Language(**config), width=width, embedding=embedding, seed=0)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model


def random_oracle(language: Language, *, width: int, embedding: int, seed: int) -> NGram:
    """A frozen random model with the scales above."""
    oracle = NGram(language, width=width, embedding=embedding, seed=seed)
    with torch.no_grad():
        oracle.tokens.weight.mul_(EMBEDDING_SCALE)
        for layer in (oracle.inputs, oracle.hidden):
            layer.weight.mul_(HIDDEN_SCALE)
        oracle.head.weight.mul_(LOGIT_SCALE)
    return oracle.requires_grad_(requires_grad=False)
