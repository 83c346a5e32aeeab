"""A dataset of the Hugging Face Hub by name and revision."""

from collections.abc import Iterator
from dataclasses import dataclass

from preflow.sources.records import FeedbackError, Record


@dataclass(frozen=True, slots=True)
class HubDataset:
    """Which rows: `revision` is a commit, tag or branch (a commit never changes), `split` a split's name."""

    dataset: str
    revision: str
    split: str

    @property
    def name(self) -> str:
        """What stands for the file in the tables."""
        return f"hf://{self.dataset}@{self.revision}/{self.split}"


def read_hub(hub: HubDataset) -> Iterator[Record]:
    """The rows of a split, downloaded into the Hub's own cache, or from there when it has them.

    Raises FeedbackError, with what to set, when the Hub cannot be reached or does not have the dataset.
    """
    import datasets  # costs two seconds, so only where the Hub is asked for

    try:
        rows = datasets.load_dataset(hub.dataset, revision=hub.revision, split=hub.split)
    except (OSError, ValueError) as error:  # unreachable, unknown or gated dataset; unknown split
        raise FeedbackError(
            f"{hub.name} cannot be loaded from the Hugging Face Hub: {error}. Check the network (HF_ENDPOINT names a "
            "mirror, HTTPS_PROXY a proxy) and feedback.hub; set HF_TOKEN for a private or gated dataset, "
            "HF_HUB_OFFLINE=1 to use only what HF_HOME has cached, or download the files and name them in feedback.path"
        ) from error
    for line, value in enumerate(rows, 1):
        yield Record(value, hub.name, line)
