"""The shapes that cross a boundary: requests, records, hits, candidates, results, plans.

All are frozen and refuse unknown fields. The shapes that stages hand to one another are in :mod:`braid.stages.states`.
"""

from braid.models.answered import Answer, Citation, RelatedEntity, Result
from braid.models.asked import (
    Filters,
    GraphConstraint,
    Hints,
    PlanStep,
    Query,
    Question,
    StepOperation,
    TemporalContext,
    TimeRange,
)
from braid.models.fitted import FusionParameters
from braid.models.found import Candidate, EntityLink, GraphHit, Hit, Path
from braid.models.planned import Plan, Weights
from braid.models.scalars import (
    MAX_ID_BYTES,
    Frozen,
    Label,
    Name,
    QueryText,
    RecordId,
    Score,
    TenantId,
    Text,
    Timestamp,
    VectorBytes,
    Weight,
)
from braid.models.stored import Embedding, Record, Relationship, SourceRef, SourceType, Vertex
from braid.models.vocabulary import (
    Direction,
    EmbeddingType,
    Fusion,
    Intent,
    Kind,
    Mode,
    Ranking,
    RerankerKind,
    Source,
    Strategy,
)

__all__ = [
    "MAX_ID_BYTES",
    "Answer",
    "Candidate",
    "Citation",
    "Direction",
    "Embedding",
    "EmbeddingType",
    "EntityLink",
    "Filters",
    "Frozen",
    "Fusion",
    "FusionParameters",
    "GraphConstraint",
    "GraphHit",
    "Hints",
    "Hit",
    "Intent",
    "Kind",
    "Label",
    "Mode",
    "Name",
    "Path",
    "Plan",
    "PlanStep",
    "Query",
    "QueryText",
    "Question",
    "Ranking",
    "Record",
    "RecordId",
    "RelatedEntity",
    "Relationship",
    "RerankerKind",
    "Result",
    "Score",
    "Source",
    "SourceRef",
    "SourceType",
    "StepOperation",
    "Strategy",
    "TemporalContext",
    "TenantId",
    "Text",
    "TimeRange",
    "Timestamp",
    "VectorBytes",
    "Vertex",
    "Weight",
    "Weights",
]
