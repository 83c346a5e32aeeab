"""One request to an OpenAI-compatible server, and what to do when it fails."""

import json
import os
from pathlib import Path
from typing import Any

import openai

from preflow.endpoint.settings import Endpoint, EndpointError

REFUSALS = (openai.BadRequestError, openai.UnprocessableEntityError)
"""Errors that speak of one request's content (too long, filtered) and not of the endpoint."""
_REMEDIES: list[tuple[type[openai.OpenAIError], str]] = [
    (openai.AuthenticationError, "put a key that is valid there into the environment variable api_key_variable"),
    (openai.PermissionDeniedError, "use a key that may use this model"),
    (openai.NotFoundError, "check model, and base_url, which usually ends in /v1"),
    (openai.RateLimitError, "lower concurrent_requests or raise retries"),
    (openai.APITimeoutError, "raise timeout_s or lower concurrent_requests"),
    (openai.APIConnectionError, "check that the server runs and that base_url is its address"),
    (openai.OpenAIError, "see the server's log"),
]


def connect(endpoint: Endpoint) -> openai.OpenAI:
    """The client, which opens no connection yet.

    Raises
    ------
    EndpointError
        The environment variable of the key is not set.
    """
    variable = endpoint.api_key_variable
    key = "none" if variable is None else os.environ.get(variable)
    if not key:
        raise EndpointError(f"{endpoint} needs a key; put it into the environment variable {variable}")
    return openai.OpenAI(
        base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout_s, max_retries=endpoint.retries
    )


def complete(client: openai.OpenAI, endpoint: Endpoint, body: dict[str, Any], *, answers: Path) -> str:
    """The text of the answer; `answers` is the file that an error says to rerun with.

    Raises
    ------
    EndpointError
        The request failed after its retries, or the answer is not in the chat completions protocol.
    openai.BadRequestError, openai.UnprocessableEntityError
        The server refuses the request for its content (REFUSALS).
    """
    kept = f"what was answered so far is kept in {answers}, a rerun asks for the rest"
    try:
        completion = client.chat.completions.create(**body)
        return (completion.choices[0].message.content or "").strip()
    except REFUSALS:
        raise
    except openai.OpenAIError as error:
        remedy = next(remedy for kind, remedy in _REMEDIES if isinstance(error, kind))
        raise EndpointError(f"{endpoint} failed: {error}; {remedy}; {kept}") from error
    except (AttributeError, IndexError, TypeError, json.JSONDecodeError) as error:  # the client checks no field
        message = "does not answer in the chat completions protocol; check base_url, which usually ends in /v1"
        raise EndpointError(f"{endpoint} {message}; {kept}") from error
