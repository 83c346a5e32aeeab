"""UltraFeedback binarized (HuggingFaceH4): chosen and rejected conversations with the score of each."""

from collections.abc import Iterator

from preflow.formats.base import RecordFormat, Row, Value
from preflow.formats.trl import preferred


class UltraFeedbackBinarized(RecordFormat):
    """As TRL's preference format, with scores."""

    name = "ultrafeedback"
    fields = "chosen, rejected (messages), score_chosen, score_rejected; prompt, prompt_id, messages optional"

    def matches(self, value: Value) -> bool:
        """Chosen and rejected with scores."""
        return {"chosen", "rejected", "score_chosen", "score_rejected"} <= value.keys()

    def rows(self, value: Value) -> Iterator[Row]:
        """One labelled comparison with two scores."""
        row = preferred(value)
        if value.get("messages") == value["chosen"]:
            row.extra.pop("messages", None)  # the copy of chosen that serves supervised training
        yield row
