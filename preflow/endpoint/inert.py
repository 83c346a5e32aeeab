"""Texts that others wrote, put before a language model as material and not as instructions.

The material is one line of JSON that no text inside it can close. That a model heeds this is not promised: what is
tested is that a text arrives whole, in its own field, and that no control token of a chat template is in it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

Messages = list[dict[str, str]]
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def inert_json(material: Mapping[str, Any]) -> str:
    """One line of JSON with `<` and `[` inside its strings escaped; parsed, it gives back every text exactly.

    The control tokens of chat templates begin with these two, and many servers take such a text for the token.
    """
    text = json.dumps(material, ensure_ascii=False)
    return _JSON_STRING.sub(lambda match: match[0].replace("<", "\\u003c").replace("[", "\\u005b"), text)


def messages_about(material: Mapping[str, Any], *, instruction: str, question: str) -> Messages:
    """What a model is sent: the instruction as system; then, as user, the material in one line and the question.

    The question comes last: a small model that has it only above the JSON talks about the JSON instead.
    """
    return [
        {"role": "system", "content": instruction},
        {"role": "user", "content": f"{inert_json(material)}\n{question}"},
    ]
