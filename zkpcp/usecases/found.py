"""Setting up a context: its owner, its first keys, the passphrase and the recovery code (KEY-03, KEY-13)."""

from __future__ import annotations

from dataclasses import dataclass

from zkpcp.core import profile as profile_format
from zkpcp.core.audit import Action, Channel
from zkpcp.core.grants import Actor, parse_handle, parse_principal
from zkpcp.core.stored import FIRST_PERSON, ContextRow, ProfileChangeRow, ProfileRow, SeedWrapRow
from zkpcp.errors import ConflictError, InvalidInputError, Violation
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.heads import begin_slots, settle
from zkpcp.usecases.profile import own_namespace
from zkpcp.usecases.seed_wraps import wrap_under_both
from zkpcp.usecases.services import Services
from zkpcp.vault import holders, records
from zkpcp.vault.holders import Founding
from zkpcp.vault.secrets import RecoveryCode, check_passphrase, new_recovery_code

KINDS = ("personal", "work", "team")


@dataclass(frozen=True, slots=True)
class Founded:
    """A new context, and the recovery code, which is shown once and stored nowhere."""

    context: ContextRow
    recovery_code: RecoveryCode


async def found_context(
    services: Services,
    *,
    handle: str,
    kind: str,
    passphrase: str,
    name: str | None = None,
    principal: str = FIRST_PERSON,
    organization: str | None = None,
) -> Founded:
    """Make a context controlled by ``principal``; with a ``name`` its profile begins with it.

    With ``organization`` (a host name) that organization controls it, through ``human:owner``, who sets it up; never a
    personal one (CTX-01). What a context is for, and who controls it, is written here and nowhere else (CTX-03).

    Raises InvalidInputError for a handle, kind, principal, organization or passphrase that breaks its rule,
    ConflictError when the handle is taken. Takes the time of one Argon2id run.
    """
    parse_handle(handle)
    parse_principal(principal)
    check_passphrase(passphrase)
    if organization is not None:
        _check_organization(organization, kind, principal)
    if not principal.startswith("human:"):
        rule = "a context is set up by a person: human:<id>"
        raise InvalidInputError("the principal is not valid", [Violation("principal", rule)])
    if kind not in KINDS:
        raise InvalidInputError("the kind is not valid", [Violation("kind", f"one of {', '.join(KINDS)}")])
    async with services.store.read() as tx:
        if await tx.contexts.by_handle(handle) is not None:
            raise ConflictError("a context with this handle exists already; choose another handle")
    context = ContextRow(
        context_id=services.new_id("ctx"),
        handle=handle,
        kind=kind,
        controller=principal if organization is None else f"org:{organization}",
        controller_type="human" if organization is None else "org",
        created_ms=services.clock.now_ms(),
    )
    founding = holders.found(context.context_id, principal, services.entropy)
    code = new_recovery_code(services.entropy)
    try:
        profile = _first_profile(services, context, founding, name) if name else None
        wraps = await wrap_under_both(
            services, context.context_id, context.owner, founding.opened, passphrase=passphrase, code=code
        )
        await _save(services, context, founding, wraps, profile)
    finally:
        founding.opened.seed.wipe()
    return Founded(context, code)


def _check_organization(organization: str, kind: str, principal: str) -> None:
    try:
        parse_principal(f"org:{organization}")
    except InvalidInputError:
        rule = "must be a host name such as acme.example, in lower case"
        raise InvalidInputError("the organization is not valid", [Violation("organization", rule)]) from None
    if kind == "personal" or principal != FIRST_PERSON:
        rule = "must be left out for a personal context: no organization has a part in it"
        raise InvalidInputError("the organization is not valid", [Violation("organization", rule)])


async def _save(
    services: Services,
    context: ContextRow,
    founding: Founding,
    wraps: tuple[SeedWrapRow, SeedWrapRow],
    profile: tuple[ProfileRow, ProfileChangeRow] | None,
) -> None:
    async with services.store.write() as tx:
        await tx.contexts.add(context)
        await tx.contexts.put_roster(founding.roster)
        await tx.grants.put_keyring(founding.keyring)
        for wrap in wraps:
            await tx.credentials.put_wrap(wrap)
        if profile is not None:
            await tx.profiles.put(*profile)
        with holders.open_principal(context.owner, founding.opened, founding.roster, founding.keyring) as keys:
            await begin_slots(tx, services, keys, keys.roster.counted, keys.roster.partitions)
            await settle(tx, services, keys)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.CONTEXT_CREATED,
            channel=Channel.MANAGEMENT,
            actor=Actor(context.owner),
            categories=("keys",) if profile is None else ("keys", profile[0].namespace),
        )


def _first_profile(
    services: Services, context: ContextRow, founding: Founding, name: str
) -> tuple[ProfileRow, ProfileChangeRow]:
    """A profile that holds only the name, sealed with the keys that are just being made. Raises InvalidInputError."""
    namespace = own_namespace(context.kind)
    at_ms = context.created_ms
    first = profile_format.update(namespace, None, {"name": name}, now_ms=at_ms, schemas=services.schemas)
    with holders.open_principal(context.owner, founding.opened, founding.roster, founding.keyring) as keys:
        row = records.seal_profile(keys, namespace, first.profile, 1, at_ms, services.entropy)
        change = records.seal_change(
            keys, row, first.changed, principal=context.owner, client=None, entropy=services.entropy
        )
    return row, change
