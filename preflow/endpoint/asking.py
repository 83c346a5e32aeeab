"""Questions to a language model whose answers are kept: what was answered is never asked again.

A question about two responses is asked in both orders (Zheng et al., 2023, "Judging LLM-as-a-Judge with MT-Bench and
Chatbot Arena", section 3.4). No order is drawn, so there is no seed to lose.
"""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from preflow.endpoint.answers import keep_answer, read_answers
from preflow.endpoint.inert import Messages
from preflow.endpoint.settings import Endpoint, EndpointError
from preflow.store import content_key

MAX_UNREAD = 0.5  # beyond this share of answers that say nothing asked for, the others say nothing about the pairs
OPENING = 80  # characters of an answer that could not be read, kept to show


class Request(NamedTuple):
    """A question to one model."""

    key: str
    """Names all that the answer depends on."""
    body: dict[str, Any]


def request(endpoint: Endpoint, messages: Messages) -> Request:
    """The request, whose key is made of address, model, decoding settings and texts."""
    body = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": endpoint.max_tokens,
        "temperature": float(endpoint.temperature),
    }
    return Request(content_key(endpoint.base_url.rstrip("/"), json.dumps(body, sort_keys=True)), body)


def ask(requests: Iterable[Request], *, endpoint: Endpoint, answers: Path) -> dict[str, str]:
    """The answer to each request by key, from the file `answers` where it is there, else from the server.

    Every answer is added to the file as it comes. A second run makes no request, needs no key and gives the same. A
    request that the server refuses for its content (400 or 422: too long, filtered) is answered `refused: ...`, and
    alone is asked again next time.

    Raises
    ------
    EndpointError
        A request failed after its retries, the answers are not in the chat completions protocol, or the key's variable
        is not set. What was answered is in `answers` by then.
    preflow.endpoint.answers.DamagedAnswersError
        The file `answers` was altered.
    """
    given = read_answers(answers)
    missing = {key: body for key, body in requests if key not in given}
    if not missing:
        return given
    from preflow.endpoint.client import REFUSALS, complete, connect  # `openai` takes a second; only where it is needed

    progress = tqdm(total=len(missing), desc=f"answers of {endpoint.model}", unit="answer", disable=None)
    with connect(endpoint) as client, ThreadPoolExecutor(endpoint.concurrent_requests) as pool, progress:

        def answer(key: str) -> None:
            try:
                given[key] = keep_answer(answers, key, complete(client, endpoint, missing[key], answers=answers))
            except REFUSALS as refusal:
                given[key] = f"refused: {refusal}"

        for _ in pool.map(answer, missing):  # an error ends this and cancels what was not yet sent
            progress.update()
    return given


def ask_in_both_orders(
    pairs: Iterable[tuple[Messages, str, str]],
    worded: Callable[[Messages, str, str], Messages],
    *,
    endpoint: Endpoint,
    answers: Path,
) -> list[tuple[str, ...]]:
    """For each pair the answer with its first response first and that with its second; see `ask` for what is raised.

    Parameters
    ----------
    pairs
        Prompt and two responses; of equal responses nothing is asked, and their tuple is empty.
    worded
        The messages for a prompt and the two responses in the order in which they are shown.
    """
    asked = [
        [request(endpoint, worded(prompt, *shown)) for shown in ((one, other), (other, one)) if one != other]
        for prompt, one, other in pairs
    ]
    given = ask([question for orders in asked for question in orders], endpoint=endpoint, answers=answers)
    return [tuple(given[question.key] for question in orders) for orders in asked]


def unread_opening(orders: Iterable[str], read: Callable[[str], object | None]) -> str | None:
    """How the first of the answers begins of which `read` makes None; None where all can be read."""
    return next((answer[:OPENING] for answer in orders if read(answer) is None), None)


def refuse_a_mute_model(
    given: Iterable[tuple[str, tuple[str, ...]]],
    read: Callable[[str], object | None],
    *,
    lacking: str,
    endpoint: Endpoint,
) -> None:
    """Nothing, unless the model said nothing of what was asked for.

    Parameters
    ----------
    given
        What each question was about, in words, and its answers.
    read
        Makes None of an answer that cannot be read.
    lacking
        What such an answer lacks, in words.

    Raises
    ------
    EndpointError
        More than MAX_UNREAD of the answers cannot be read.
    """
    answers = [(about, answer) for about, orders in given for answer in orders]
    unread = [(about, answer[:OPENING]) for about, answer in answers if read(answer) is None]
    if len(unread) > MAX_UNREAD * len(answers):
        about, opening = unread[0]
        raise EndpointError(
            f"{endpoint} gave no {lacking} in {len(unread)} of {len(answers)} answers; on {about} it began {opening!r};"
            " raise max_tokens if it was cut off, else name a model that answers as it is told"
        )
