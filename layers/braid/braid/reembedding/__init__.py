"""Re-embeds stored records: outdated ones in place, or all of them for another model profile.

Every step is bounded, persisted and safe to repeat: an interrupted step is simply run again. Records are written back
only if they have not changed since they were read.

- ``planning``: plans, resumes and pauses jobs; ``jobs``: their state and its persistence; ``running_jobs``: runs
  them step by step, as the nightly schedule does
- ``job_pages``: finds a job's records, page by page; ``embed_and_write_back``: embeds records and writes them back
- ``switch_and_rollback``: the end of a *move* to another model profile or index: verification, switch and roll-back;
  ``profile_recall``: the recall of both profiles. The engine's part of a move has its port in
  ``braid.ports.reembedding``
- ``outdated_conditions``: conditions of outdated records, while how far one has drifted is decided for each answer by
  ``drift`` of ``braid.ranking.scoring``; ``queue_from_answers``: queue of outdated records that answers
  encountered; ``job_services``: services and limits that all of these share
"""

from braid.reembedding.embed_and_write_back import drain, reembed, refresh
from braid.reembedding.job_services import ReembeddingLimits, RunBudget, Services, raise_version
from braid.reembedding.jobs import Check, JobKind, Phase, Place, ReembeddingJob, Status
from braid.reembedding.outdated_conditions import outdated
from braid.reembedding.planning import pause, plan, status, tenant_pages
from braid.reembedding.profile_recall import RecallQuestion
from braid.reembedding.running_jobs import run_to_end, work_one_page
from braid.reembedding.switch_and_rollback import drop_previous, rollback, switch, verify

__all__ = [
    "Check",
    "JobKind",
    "Phase",
    "Place",
    "RecallQuestion",
    "ReembeddingJob",
    "ReembeddingLimits",
    "RunBudget",
    "Services",
    "Status",
    "drain",
    "drop_previous",
    "outdated",
    "pause",
    "plan",
    "raise_version",
    "reembed",
    "refresh",
    "rollback",
    "run_to_end",
    "status",
    "switch",
    "tenant_pages",
    "verify",
    "work_one_page",
]
