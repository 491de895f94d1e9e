"""The owner's choice of extensions (PROF-07): each is enabled and disabled by itself.

A disabled one is not advertised, its scopes count for nothing and its tools are not served; its data stays, sealed
under its own keys, and is there again when it is enabled again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zkpcp.core.audit import Action
from zkpcp.core.extensions import Extension, available
from zkpcp.errors import ForbiddenError, NotFoundError
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.roster_changes import hold_open, seal_members
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession


@dataclass(frozen=True, slots=True)
class Choice:
    """An extension, and whether it is enabled in a context."""

    extension: Extension
    enabled: bool


def choices(services: Services, session: OpenSession) -> tuple[Choice, ...]:
    """Every extension that there is here; an enabled one whose schema the operator has taken away is not among them."""
    enabled = session.context.extensions
    return tuple(Choice(extension, extension.id in enabled) for extension in available(services.schemas.names))


async def set_extension(services: Services, session: OpenSession, extension_id: str, *, enabled: bool) -> None:
    """Enable or disable one; what it was already it stays, without an entry in the log.

    Members get the key of its slot with it. Raises ForbiddenError for anybody but the controller, NotFoundError for an
    extension that cannot be enabled here, ConflictError when the roster changed meanwhile.
    """
    context = session.context
    if not session.is_controller:
        raise ForbiddenError("only the controller chooses the extensions of a context")
    there = {extension.id: extension for extension in available(services.schemas.names)}
    extension = there.get(extension_id)
    if extension is None:
        raise NotFoundError("there is no such extension")
    async with services.store.write() as tx:
        if enabled:
            changed = await tx.contexts.enable_extension(context.context_id, extension.id, services.clock.now_ms())
        else:
            changed = await tx.contexts.disable_extension(context.context_id, extension.id)
        if changed and enabled and await tx.contexts.locked_ms(context.context_id) is None:
            # Whoever joined before it was enabled has no key of its slot yet; while it is locked nobody has any.
            await hold_open(tx, session)
            offered = replace(context.offer, extensions=tuple(sorted({*context.offer.extensions, extension.id})))
            await seal_members(tx, session.keyring, offered)
        if changed:
            action = Action.EXTENSION_ENABLED if enabled else Action.EXTENSION_DISABLED
            await record_managed(tx, services, session, action, (extension.stem,))
