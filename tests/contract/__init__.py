"""One suite for each port; an engine's own test file is a fixture and a class line."""

import pytest

# The suites are imported, not collected, so their assertions are explained only when asked for.
pytest.register_assert_rewrite(
    "tests.contract.cache",
    "tests.contract.deletes",
    "tests.contract.graph_keeping",
    "tests.contract.index_moves",
    "tests.contract.job_store",
    "tests.contract.knowledge_graph",
    "tests.contract.object_store",
    "tests.contract.queue",
    "tests.contract.schema_registry",
    "tests.contract.search_index",
    "tests.contract.writes",
)
