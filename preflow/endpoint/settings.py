"""Where a language model is and how it is asked; apart from the client, so that knowing it needs no `openai`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """Where the model is and how it is asked."""

    base_url: str
    """Address of the server, usually ending in /v1."""
    model: str
    """Name of the model there."""
    api_key_variable: str | None
    """Environment variable that holds the key; None where the server asks for none."""
    max_tokens: int
    """Tokens an answer may have; a verdict needs few, a model that thinks first needs many."""
    temperature: float
    timeout_s: float
    """Seconds to wait for one answer."""
    retries: int
    """How often a request is repeated after a timeout, a lost connection, 408, 409, 429 or 5xx."""
    concurrent_requests: int

    def __str__(self) -> str:
        """As an error names it."""
        return f"model {self.model!r} at {self.base_url}"


class EndpointError(RuntimeError):
    """The endpoint gave no answers that anything can be made of."""
