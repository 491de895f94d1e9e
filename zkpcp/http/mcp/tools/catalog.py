"""The tools of a deployment, in the order in which they are listed: the way in first."""

from __future__ import annotations

from zkpcp.http.mcp.tools.audit_list import AuditList
from zkpcp.http.mcp.tools.context_brief import ContextBrief
from zkpcp.http.mcp.tools.definition import Catalog
from zkpcp.http.mcp.tools.handoff_list import HandoffList
from zkpcp.http.mcp.tools.handoff_write import HandoffWrite
from zkpcp.http.mcp.tools.memory_delete import MemoryDelete
from zkpcp.http.mcp.tools.memory_list import MemoryList
from zkpcp.http.mcp.tools.memory_propose import MemoryPropose
from zkpcp.http.mcp.tools.memory_read import MemoryRead
from zkpcp.http.mcp.tools.memory_search import MemorySearch
from zkpcp.http.mcp.tools.memory_write import MemoryWrite
from zkpcp.http.mcp.tools.partition_list import PartitionList
from zkpcp.http.mcp.tools.profile_get import ProfileGet
from zkpcp.http.mcp.tools.profile_update import ProfileUpdate
from zkpcp.http.mcp.tools.review_list import ReviewList
from zkpcp.usecases.access import Caller
from zkpcp.usecases.services import Services


def tool_catalog(services: Services) -> Catalog[Caller]:
    """Make every tool, with its schemas compiled once."""
    return Catalog(
        [
            ContextBrief(services),
            MemorySearch(services),
            MemoryRead(services),
            MemoryList(services),
            MemoryWrite(services),
            MemoryDelete(services),
            MemoryPropose(services),
            ReviewList(services),
            PartitionList(services),
            ProfileGet(services),
            ProfileUpdate(services),
            HandoffList(services),
            HandoffWrite(services),
            AuditList(services),
        ]
    )
