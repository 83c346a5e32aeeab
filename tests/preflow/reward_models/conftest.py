"""The pairs of the policies' tests."""

from tests.preflow.policies.conftest import rows

__all__ = ["rows"]
