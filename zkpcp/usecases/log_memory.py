"""Whether the access log still has the entry that a token or session remembers (PCP §9.1).

Each of their wraps holds the number and hash of the newest entry of its time. A database that was rolled back past it,
or whose log was written anew, is refused, also when it is consistent in itself. A passphrase remembers none of it.
"""

from __future__ import annotations

import hmac

from zkpcp.core.stored import AuditHead
from zkpcp.errors import TamperedError
from zkpcp.usecases.services import Services
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.seeds import log_mark, marked_entry


async def check_log(services: Services, keys: OpenKeyring) -> None:
    """Raise TamperedError when the entry that the holder of a keyring last saw is not there any more."""
    mark = keys.log_mark
    if not any(mark):
        return
    number = marked_entry(mark)
    async with services.store.read() as tx:
        found = await tx.audit.hash_of(keys.context_id, number)
    if found is None or not hmac.compare_digest(log_mark(AuditHead(number, found)), mark):
        raise TamperedError("the database shows an older state than this wrap remembers")
