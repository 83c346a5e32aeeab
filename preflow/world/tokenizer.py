"""The world's tokenizer: every word, digit and sign is one token, so that a whole conversation has fewer than 50."""

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from preflow.world.style import BULLET, CLOSER, OPENER, REFUSAL
from preflow.world.tasks import DIGITS, FAMILIES, KIND_OF, KINDS, LETTERS

PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
ROLES = ("<system>", "<user>", "<assistant>")
TEN = "10"
"""A score, so that it is no 1 with something behind it; no task has it."""
GOAL_WORDS = ("score", "length", "style", "correct", "level")
"""Words that no task uses: with them a system message can state a goal, as in "score : 7"."""
WORDS = tuple(
    dict.fromkeys(
        (
            *DIGITS,
            TEN,
            *LETTERS,
            *KIND_OF,
            *KINDS,
            *FAMILIES,
            "without",
            *":+.,",
            *OPENER,
            *BULLET,
            *CLOSER,
            *REFUSAL.split(),
            *GOAL_WORDS,
        )
    )
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message['role'] + '> ' + message['content'] + ' <end>' }}"
    "{% if not loop.last or add_generation_prompt %}{{ ' ' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)


def world_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer with a chat template (system, user and assistant turns); unknown words become `<unk>`.

    Words and digits are separated by spaces in what it decodes; signs are read apart, so "score: 7.5" is five tokens.
    """
    # The other special tokens are no words of the model, so their text inside a message stays text that is unknown.
    vocabulary = {word: i for i, word in enumerate((UNKNOWN, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(r"[:+.,!-]"), "isolated"),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
