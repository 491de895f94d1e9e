"""Reaching what is still sealed under earlier keys, while the keys are being changed."""

from __future__ import annotations

from zkpcp.usecases.services import Services
from zkpcp.vault.keyring import OpenKeyring


async def take_links(services: Services, keys: OpenKeyring) -> None:
    """Give a keyring the links of its slots; no query when the signed roster says that no keys are being changed."""
    if keys.roster.oldest is None:
        return
    async with services.store.read() as tx:
        keys.link(await tx.rotation.links(keys.context_id, None if keys.is_controller else keys.slots))
