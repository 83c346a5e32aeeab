"""HelpSteer and HelpSteer2 (NVIDIA): single responses with five attributes, 0 to 4; helpfulness is the score."""

import re

from preflow.formats.base import Message, Value, as_prompt, rest, text
from preflow.formats.scored_responses import Scored, ScoredFormat, mean_score

TURN = re.compile(r"\n<extra_id_1>(User|Assistant)\n")
ROLES = {"User": "user", "Assistant": "assistant"}


class HelpSteer(ScoredFormat):
    """Two responses to each prompt, as a rule. An attribute may be a list, one value per annotator."""

    name = "helpsteer"
    fields = "prompt, response, helpfulness, correctness, coherence, complexity, verbosity"

    def matches(self, value: Value) -> bool:
        """A response with helpfulness and verbosity."""
        return {"prompt", "response", "helpfulness", "verbosity"} <= value.keys()

    def scored(self, value: Value) -> Scored:
        """The response that a record holds."""
        return Scored(
            prompt=turns(text(value, "prompt")),
            response=text(value, "response"),
            score=mean_score(value, "helpfulness"),
            extra=rest(value, "prompt", "response"),
        )


def turns(prompt: str) -> list[Message]:
    """The messages of a prompt: a first user turn, then those opened by `<extra_id_1>User` or `<extra_id_1>Assistant`.

    A last, empty turn only announces the response, so it is no message.
    """
    first, *others = TURN.split(prompt)
    messages = as_prompt(first)
    for speaker, content in zip(others[::2], others[1::2], strict=True):
        messages.append({"role": ROLES[speaker], "content": content})
    return messages[:-1] if len(messages) > 1 and not messages[-1]["content"] else messages
