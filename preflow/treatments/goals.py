"""How a goal is said in a prompt: the one place that training data and inference share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Message = dict[str, str]
Goal = tuple[float, ...]
"""One target score per attribute."""


@dataclass(frozen=True, kw_only=True)
class GoalText:
    """The words of a goal and where they stand.

    Raises
    ------
    ValueError
        The instruction does not say the goals, or there is no attribute.
    """

    instruction: str
    """The text, with `{goals}` and, where wanted, `{scale}` in it."""
    scale: str
    """The scale in words, for instance "1 (worst) to 10 (best)"."""
    attributes: tuple[str, ...]
    """What is scored; the text names the goals in this order."""
    place: Literal["system", "user"]
    """A system turn, or the opening of the first user turn for chat templates that have no system role."""

    def __post_init__(self) -> None:
        if "{goals}" not in self.instruction:
            raise ValueError(
                f"the instruction {self.instruction!r} never says the goal; put {{goals}} where it belongs"
            )
        if not self.attributes:
            raise ValueError("a goal needs at least one attribute, for instance ('Overall score',)")

    def say(self, goal: Goal) -> str:
        """The instruction for `goal`.

        Raises
        ------
        ValueError
            `goal` has not one value per attribute.
        """
        if len(goal) != len(self.attributes):
            raise ValueError(f"goal {goal} needs {len(self.attributes)} values, one for each of {self.attributes}")
        goals = ", ".join(f"{name}: {number(value)}" for name, value in zip(self.attributes, goal, strict=True))
        return self.instruction.replace("{scale}", self.scale).replace("{goals}", goals)


def number(value: float) -> str:
    """A score as people write it, distinct for distinct scores: 9.0 is 9, 4.5 stays 4.5."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def with_goal(messages: Sequence[Message], goal: Goal, text: GoalText) -> list[Message]:
    """The prompt that asks for `goal`, at training and at inference.

    The words open the first message of the role `text.place`. Where there is none, they become a message of their own:
    a system message stands first, a user message after the system messages.
    """
    said, place = text.say(goal), _first(messages, text.place)
    if place is None:
        start = 0 if text.place == "system" else _opening_system_messages(messages)
        return [*messages[:start], {"role": text.place, "content": said}, *messages[start:]]
    content = f"{said}\n\n{messages[place]['content']}"
    return [*messages[:place], {"role": text.place, "content": content}, *messages[place + 1 :]]


def without_goal(messages: Sequence[Message], goal: Goal, text: GoalText) -> list[Message]:
    """The prompt that `with_goal` was given, exactly.

    Raises
    ------
    ValueError
        The prompt does not ask for this goal in these words.
    """
    said, place = text.say(goal), _first(messages, text.place)
    content = None if place is None else messages[place]["content"]
    if place is None or content is None or not (content == said or content.startswith(f"{said}\n\n")):
        raise ValueError(f"no {text.place} message opens with {said!r}; undo with the text that the data was made with")
    if content == said:
        return [*messages[:place], *messages[place + 1 :]]
    kept = {"role": text.place, "content": content.removeprefix(f"{said}\n\n")}
    return [*messages[:place], kept, *messages[place + 1 :]]


def _first(messages: Sequence[Message], role: str) -> int | None:
    return next((at for at, message in enumerate(messages) if message["role"] == role), None)


def _opening_system_messages(messages: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
