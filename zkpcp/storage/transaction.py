"""How the repositories come together on one driver.

Implements ``ports.Transaction`` for both engines.
"""

from __future__ import annotations

from zkpcp.core.leaves import Journal
from zkpcp.storage.audit import SqlAudit
from zkpcp.storage.contexts import SqlContexts
from zkpcp.storage.counters import SqlCounters
from zkpcp.storage.credentials import SqlCredentials
from zkpcp.storage.driver import Driver
from zkpcp.storage.grants import SqlGrants
from zkpcp.storage.handoffs import SqlHandoffs
from zkpcp.storage.heads import SqlHeads
from zkpcp.storage.history import SqlHistory
from zkpcp.storage.index import SqlIndex
from zkpcp.storage.invites import SqlInvites
from zkpcp.storage.pages import SqlPages
from zkpcp.storage.partitions import SqlPartitions
from zkpcp.storage.profiles import SqlProfiles
from zkpcp.storage.proposals import SqlProposals
from zkpcp.storage.rotation import SqlRotation


class SqlTransaction:
    """The repositories of one transaction; good until its block ends."""

    __slots__ = ("_driver", "_journal")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._journal = Journal()

    @property
    def contexts(self) -> SqlContexts:
        """Contexts and rosters."""
        return SqlContexts(self._driver)

    @property
    def credentials(self) -> SqlCredentials:
        """Seed wraps and sessions."""
        return SqlCredentials(self._driver)

    @property
    def invites(self) -> SqlInvites:
        """Invites that are under way."""
        return SqlInvites(self._driver)

    @property
    def grants(self) -> SqlGrants:
        """Clients, authorizations, grants, keyrings, tokens."""
        return SqlGrants(self._driver)

    @property
    def pages(self) -> SqlPages:
        """Pages, path tags, the inbox."""
        return SqlPages(self._driver, self._journal)

    @property
    def history(self) -> SqlHistory:
        """Earlier versions of pages."""
        return SqlHistory(self._driver, self._journal)

    @property
    def profiles(self) -> SqlProfiles:
        """Profiles and their change log."""
        return SqlProfiles(self._driver, self._journal)

    @property
    def handoffs(self) -> SqlHandoffs:
        """Hand-offs between assistants."""
        return SqlHandoffs(self._driver, self._journal)

    @property
    def index(self) -> SqlIndex:
        """Search indexes."""
        return SqlIndex(self._driver)

    @property
    def partitions(self) -> SqlPartitions:
        """Names of partitions."""
        return SqlPartitions(self._driver, self._journal)

    @property
    def proposals(self) -> SqlProposals:
        """What waits for a reviewer."""
        return SqlProposals(self._driver, self._journal)

    @property
    def rotation(self) -> SqlRotation:
        """What a change of keys leaves to do."""
        return SqlRotation(self._driver, self._journal)

    @property
    def heads(self) -> SqlHeads:
        """Integrity heads."""
        return SqlHeads(self._driver, self._journal)

    @property
    def audit(self) -> SqlAudit:
        """The access log."""
        return SqlAudit(self._driver)

    @property
    def counters(self) -> SqlCounters:
        """Counted attempts."""
        return SqlCounters(self._driver)
