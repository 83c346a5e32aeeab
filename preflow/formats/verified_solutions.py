"""Problems with several solutions, each verified right or wrong, such as GSM8K's model solutions."""

from collections.abc import Iterator
from typing import Any

from preflow.formats.base import RecordFormat, Row, RowError, Value, present, rest, text


class VerifiedSolutions(RecordFormat):
    """Every right solution (a) is compared with every wrong one (b); two of a kind are no pair."""

    name = "verified_solutions"
    fields = "question, and two or more fields that hold {is_correct, solution}, named after what wrote the solution"

    def matches(self, value: Value) -> bool:
        """A question with verified solutions."""
        return "question" in value and any(map(_is_solution, value.values()))

    def rows(self, value: Value) -> Iterator[Row]:
        """The pairs of right and wrong, in the record's order, with the verified better one as gold."""
        question = text(value, "question")
        solutions = {model: found for model, found in value.items() if _is_solution(found)}
        right = [model for model, found in solutions.items() if _is_right(found)]
        wrong = [model for model in solutions if model not in right]
        if not right or not wrong:
            raise RowError("no_contrast", f"{len(right)} right and {len(wrong)} wrong solutions make no pair")
        extra = rest(value, "question", *solutions) | {"solved": len(right), "solutions": len(solutions)}
        for better in right:
            for worse in wrong:
                yield Row(
                    prompt=[{"role": "user", "content": question}],
                    response_a=text(solutions[better], "solution"),
                    response_b=text(solutions[worse], "solution"),
                    gold="a",
                    model_a=better,
                    model_b=worse,
                    extra=extra,
                )


def _is_solution(found: Any) -> bool:
    return isinstance(found, dict) and {"is_correct", "solution"} <= found.keys()


def _is_right(found: Value) -> bool:
    verdict = present(found, "is_correct")
    if not isinstance(verdict, bool):
        raise RowError("wrong_type", f"is_correct is {verdict!r}, not true or false")
    return verdict
