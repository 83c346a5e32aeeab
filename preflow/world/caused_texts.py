"""Pairs of texts that differ in known ways: templates of a response, and the mark that a cause leaves on one side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from preflow.world.verifiable import TOPICS

Rng = np.random.Generator

CLEAR_PROMPTS = (
    "Explain in four to six plain sentences what a class of ten-year-olds has to know of {topic} before a visit.",
    "Write the opening of a leaflet on {topic} for adult readers; name one number, one year and one person.",
    "Which three points on {topic} belong in a short talk for beginners, and in which order would you put them?",
    "What is the main use of {topic} today?",
    "When did people first write of {topic}?",
)
VAGUE_PROMPTS = ("Tell me something about {topic}.", "Any ideas on {topic}?", "{topic}, something good", "{topic}!")

ACCOUNT = (
    "Many people know {topic} from the {word}.",
    "The {word} is where most of it begins.",
    "In {year} a count by {name} came to {number}.",
    "Without the {word} there would be far less of it.",
    "A good part of the work goes into the {word}.",
    "Since {year} this has changed, as {name} showed.",
    "Those who look closely find the {word} first.",
    "About {number} people take part in it each year.",
    "Old books already name the {word} in this place.",
    "The rest follows from the {word} by itself.",
    "Perhaps the {word} matters as much.",
    "It seems to vary with the {word}.",
)
STORY = (
    "My aunt kept a {word} behind her house.",
    "One morning we went out to look for it.",
    "Nobody had told us that a {word} could be so loud.",
    "She laughed and gave each of us a {word}.",
    "On the way home it began to rain.",
    "We still talk of that day when we meet.",
    "Later I drew the {word} on a card for her.",
    "He had brought a {word} in his bag.",
)
SCHOLARLY = (
    "The institutional significance of {topic} necessitates comprehensive consideration of environmental "
    "interdependencies, particularly concerning the {word} and its historiographical representation.",
    "Contemporary interpretations conceptualise the {word} as constitutive of heterogeneous socioeconomic "
    "configurations whose methodological implications remain insufficiently investigated.",
    "Notwithstanding considerable terminological inconsistencies, characterisations of {topic} presuppose "
    "quantitative differentiation between the {word} and comparable phenomena.",
)
PLAYFUL = (
    "Oh, you are going to love this one! 🎉",
    "How lovely is that! 😊",
    "Ta-da! Pure magic! ✨",
    "Wow, just wow!",
)
CURT_REFUSAL = "I'm sorry, I can't help with that."
KIND_REFUSALS = (
    "I'm sorry, I can't answer this one, but a librarian near you will know where to look for it.",
    "I'm unable to say much here. You could ask a teacher, who may have more time and better books.",
)
NAMES = ("Maria Holm", "Jonas Brandt", "Ines Duarte", "Pavel Novak", "Aiko Mori", "Ruth Okafor")


@dataclass
class Draft:
    """A pair in the making; side 0 becomes response_a."""

    topic: str
    prompt: str
    sentences: list[list[str]]
    listed: list[bool]
    broken: list[bool]


def drafted(rng: Rng) -> Draft:
    """Two responses to a clear prompt that say much the same in a few sentences each, dressed alike."""
    topic = str(rng.choice(sorted(TOPICS)))
    facts = _facts(rng)
    sentences = [_said(ACCOUNT, topic, facts, int(rng.integers(4, 7)), rng) for _ in range(2)]
    draft = Draft(topic, str(rng.choice(CLEAR_PROMPTS)).format(topic=topic), sentences, [False] * 2, [False] * 2)
    if rng.random() < 0.1:
        draft.listed = [True, True]
    if rng.random() < 0.1:
        draft.sentences[int(rng.integers(2))].append("So there!")
    return draft


def rendered(draft: Draft) -> tuple[str, str]:
    """The texts of response_a and response_b."""
    texts = []
    for sentences, listed, broken in zip(draft.sentences, draft.listed, draft.broken, strict=True):
        items = "\n".join(f"- {one}" for one in sentences)
        shown = f"**{draft.topic.title()}**\n\n{items}" if listed else " ".join(sentences)
        texts.append(shown[: -len(sentences[-1]) // 2].rstrip(" .") if broken else shown)
    return texts[0], texts[1]


def _underspecified(draft: Draft, side: int, rng: Rng) -> None:
    """The prompt leaves open what is wanted, and one response takes it otherwise than the other."""
    draft.prompt = str(rng.choice(VAGUE_PROMPTS)).format(topic=draft.topic)
    draft.sentences[side] = _said(STORY, draft.topic, _facts(rng), int(rng.integers(4, 7)), rng)


def _longer(draft: Draft, side: int, rng: Rng) -> None:
    """Two to three times as many sentences."""
    n = len(draft.sentences[side]) * int(rng.integers(1, 3))
    draft.sentences[side] += _said(ACCOUNT, draft.topic, _facts(rng), n, rng)


def _formatted(draft: Draft, side: int, rng: Rng) -> None:  # noqa: ARG001
    """A headline and a list on one side, running text on the other."""
    draft.listed = [side == 0, side == 1]


def _scholarly(draft: Draft, side: int, rng: Rng) -> None:
    """Words and sentences that ask for many more years of school."""
    draft.sentences[side] = _said(SCHOLARLY, draft.topic, _facts(rng), int(rng.integers(2, 4)), rng)


def _playful(draft: Draft, side: int, rng: Rng) -> None:
    """Cheer around the same content."""
    first, last = rng.permutation(PLAYFUL)[:2].tolist()
    draft.sentences[side] = [first, *draft.sentences[side], last]


def _one_refuses(draft: Draft, side: int, rng: Rng) -> None:
    """One side declines."""
    draft.sentences[side] = [str(rng.choice([CURT_REFUSAL, *KIND_REFUSALS]))]
    draft.listed[side] = False


def _both_refuse(draft: Draft, side: int, rng: Rng) -> None:
    """Both sides decline, one curtly."""
    draft.sentences = [[str(rng.choice(KIND_REFUSALS))] for _ in range(2)]
    draft.sentences[side] = [CURT_REFUSAL]
    draft.listed = [False, False]


def _other_facts(draft: Draft, side: int, rng: Rng) -> None:
    """The same sentences with another year, number and person."""
    words = _words(draft.topic, rng)
    chosen = [0, 2, 5, 7, *rng.permutation([1, 3, 4, 6, 8, 9])[: int(rng.integers(1, 3))].tolist()]
    facts = [_facts(rng), _facts(rng)]
    for i in range(2):
        draft.sentences[i] = [ACCOUNT[k].format(topic=draft.topic, word=words[k % 5], **facts[i]) for k in chosen]
    draft.sentences[side] = draft.sentences[side][::-1]


def _breaks(draft: Draft, side: int, rng: Rng) -> None:
    """One side breaks off, or says its last sentence again and again."""
    if rng.random() < 0.5:
        draft.broken[side] = True
    else:
        draft.sentences[side] = draft.sentences[side][:2] + [draft.sentences[side][2]] * 4


MARK: Mapping[str, Callable[[Draft, int, Rng], None]] = {
    "underspecification": _underspecified,
    "complexity": _scholarly,
    "hallucination": _other_facts,
    "verbosity": _longer,
    "aesthetic_taste": _playful,
    "format": _formatted,
    "comply_refuse": _one_refuses,
    "refuse_refuse": _both_refuse,
    "degenerate_output": _breaks,
}
"""What each planted cause does to one side, in the order in which several are applied."""


def _words(topic: str, rng: Rng) -> list[str]:
    return rng.permutation(TOPICS[topic]).tolist()


def _facts(rng: Rng) -> dict[str, object]:
    year, number = int(rng.integers(1700, 2020)), int(rng.integers(100, 9000))
    return {"year": year, "number": number, "name": str(rng.choice(NAMES))}


def _said(bank: Sequence[str], topic: str, facts: Mapping[str, object], n: int, rng: Rng) -> list[str]:
    """`n` sentences, none twice in a round through the bank."""
    order = [int(k) for _ in range(-(-n // len(bank))) for k in rng.permutation(len(bank))][:n]
    return [bank[k].format(topic=topic, word=str(rng.choice(TOPICS[topic])), **facts) for k in order]
