"""Reading raw feedback strictly: every record with its file and line, every unreadable one with a reason."""

from preflow.sources.records import FeedbackError, Record, Refusal

__all__ = ["FeedbackError", "Record", "Refusal"]
