"""The params of a language model that is asked; no asset is made here."""

from pydantic import Field

from preflow.endpoint.settings import Endpoint
from preflow.params import Params


class EndpointParams(Params):
    """A language model behind an OpenAI-compatible endpoint."""

    base_url: str
    """Address of the server, usually ending in /v1."""
    model: str
    """Name of the model there."""
    api_key_variable: str | None
    """Environment variable that holds the key; null where the server asks for none."""
    max_tokens: int = Field(gt=0)
    """Tokens an answer may have; above 0."""
    temperature: float = Field(ge=0)
    """Of the model; at least 0."""
    timeout_s: float = Field(gt=0)
    """Seconds to wait for one answer; above 0."""
    retries: int = Field(ge=0)
    """How often a request that failed is repeated; at least 0."""
    concurrent_requests: int = Field(gt=0)
    """Requests under way at a time; above 0."""

    def endpoint(self) -> Endpoint:
        """As the library takes it."""
        return Endpoint(**self.model_dump())
