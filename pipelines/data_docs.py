"""Great Expectations' Data Docs, built from the verdict that every table's gate left beside the table."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines.expectations import ephemeral_context
from pipelines.layout import verdict_path

ASSET = "data_docs"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # a fixed run time: the same verdicts give the same pages


@dataclass(frozen=True)
class Site:
    """The Data Docs of a set of verdicts."""

    verdicts: dict[str, dict[str, Any]]

    def save_to_disk(self, folder: Path) -> None:
        """Build the site below an existing empty folder."""
        context = ephemeral_context()
        from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResultSchema
        from great_expectations.core.run_identifier import RunIdentifier
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        for name in list(context.get_site_names()):
            context.delete_data_docs_site(name)
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}
        builder = {"class_name": "DefaultSiteIndexBuilder", "show_cta_footer": False}
        context.add_data_docs_site(
            "preflow", {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": builder}
        )
        for table, verdict in sorted(self.verdicts.items()):
            result = ExpectationSuiteValidationResultSchema().load(verdict)
            key = ValidationResultIdentifier(
                expectation_suite_identifier=ExpectationSuiteIdentifier(table),
                run_id=RunIdentifier(run_name=table, run_time=EPOCH),
                batch_identifier=table,
            )
            context.validation_results_store.set(key, result)
        context.build_data_docs()
        for page in folder.rglob("*.html"):
            page.write_text(_reproducible(page.read_text(encoding="utf-8")), encoding="utf-8")


def _reproducible(page: str) -> str:
    """A page without what differs from one build to the next: random element ids and the time in the logo's address."""
    names: dict[str, str] = {}
    page = re.sub(UUID, lambda found: names.setdefault(found[0], f"block-{len(names)}"), page)
    return re.sub(r"\?d=\d{8}T[\d.]+Z", "", page)


def define(root: Path, tables: Mapping[str, Path]) -> dg.AssetsDefinition:
    """The asset that renders the verdicts on all tables."""

    @dg.asset(name=ASSET, group_name="validation", deps=list(tables), io_manager_key="site")
    def data_docs() -> Site:
        """Great Expectations' pages on every table: which expectation held on how many rows."""
        return Site({name: json.loads((root / verdict_path(path)).read_text()) for name, path in tables.items()})

    return data_docs
