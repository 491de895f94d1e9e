"""Changing all keys of a context (PCP §9.1, KEY-12): a fresh root at once, and everything stored sealed anew in steps.

Three acts of the owner, each a transaction of its own; there is no other state than the signed roster and the rows:

1. *Begin* (``renew_keys``): a fresh root and the next generation of every key. Whoever is left gets new keyrings, older
   ones are deleted, and each older sub key is linked to the newer one. What is written from here on never opens with
   what a removed member kept.
2. *Step*: the next rows of an older generation are sealed anew; apps read and write meanwhile.
3. *End*: once no row is of an older generation, the roster says so, and the links are deleted.

A crash at any point leaves a context that reads and writes and goes on where it was: what is left to do is what a query
finds. It does NOT help against a copy of the database that somebody took before, with keys that opened it then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, get_args

from zkpcp.core.audit import Action, Outcome
from zkpcp.core.extensions import KNOWN
from zkpcp.core.roster import Roster
from zkpcp.core.slots import CONTROLLER as CONTROLLER_SLOT
from zkpcp.core.slots import counted_names, every_sub_key, memory_slot
from zkpcp.core.stored import RotatedKind
from zkpcp.errors import ConflictError, CorruptError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.heads import begin_slots, is_empty_behind
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexing import rebuild_slot
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.proposals import settle_quarantined
from zkpcp.usecases.roster_changes import change_roster, hold_open, next_roster, require_owner, seal_members, still_acts
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders, invites, records
from zkpcp.vault.resealing import reseal

ROWS_A_STEP: Final = 50
"""How many rows one step seals anew: other writers wait for it, on SQLite."""

_KEYS: Final = ("keys",)
_KINDS: Final[tuple[RotatedKind, ...]] = get_args(RotatedKind)
_PROFILES: Final = ("profile.core", "profile.team")


@dataclass(frozen=True, slots=True)
class Left:
    """What a change of keys has left to do: ``rows`` by kind. Nothing when no keys are being changed."""

    under_way: bool
    rows: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def total(self) -> int:
        """How many things are left to do."""
        return sum(self.rows.values())


async def renew_keys(
    tx: Transaction,
    services: Services,
    session: OpenSession,
    change: Callable[[Roster], Roster] = lambda roster: roster,
) -> None:
    """Change the roster together with the root and all keys; the caller records the act, last in the transaction.

    Raises as ``change_roster`` does.
    """
    keys, context_id = session.keyring, session.context.context_id
    changed = await next_roster(tx, session, change)
    namespaces = await tx.rotation.namespaces(context_id)
    epoch = changed.epoch + 1
    after = replace(
        changed,
        epoch=epoch,
        oldest=changed.epoch if changed.oldest is None else changed.oldest,
        counted=MappingProxyType({**dict.fromkeys(counted_names(namespaces), epoch), **changed.counted}),
    )
    kept = [(invite, invites.open_kept(keys, invite)) for invite in await tx.invites.invites(context_id)]
    others = {*_PROFILES, CONTROLLER_SLOT, *(each.slot for each in KNOWN.values()), *namespaces}
    links = keys.renew(after, every_sub_key(after.partitions, others), services.entropy)
    await tx.contexts.put_roster(holders.sign_roster(after, keys))
    await tx.rotation.add_links(links)
    await begin_slots(tx, services, keys, after.counted, after.partitions)
    await tx.grants.delete_keyrings_before(context_id, after.epoch)
    # An offer of control holds the root of before.
    await tx.contexts.delete_handover(context_id)
    await _seal_keyrings(tx, services, session, namespaces)
    for invite, opened in kept:
        await tx.invites.delete(context_id, invite.lookup_id)
        await tx.invites.add(invites.seal_kept(keys, invite, opened, services.entropy))
        opened.code.wipe()


async def begin_rotation(services: Services, session: OpenSession) -> None:
    """Change all keys now. Raises ForbiddenError for anybody but the owner, LockedError, ConflictError."""
    async with services.store.write() as tx:
        await renew_keys(tx, services, session)
        await record_managed(tx, services, session, Action.KEY_ROTATED, _KEYS)


async def rotation_left(services: Services, session: OpenSession) -> Left:
    """What is left to do. Raises ForbiddenError for anybody but the owner."""
    require_owner(session)
    roster = session.keyring.roster
    if roster.oldest is None:
        return Left(under_way=False)
    async with services.store.read() as tx:
        left = await tx.rotation.left(roster.context_id, roster.generation)
    return Left(under_way=True, rows=MappingProxyType({kind: number for kind, number in left.items() if number}))


class Rotating:
    """The steps of one change of keys, taken by one request or command of its owner.

    ``damaged``: rows that did not open where they lie. They are left as they are.
    """

    def __init__(self, services: Services, session: OpenSession) -> None:
        require_owner(session)
        self._services = services
        self._session = session
        self._skipped: dict[RotatedKind, int] = dict.fromkeys(_KINDS, 0)
        self._untaggable = 0
        self._swept = False

    @property
    def damaged(self) -> int:
        """How many rows did not open."""
        return sum(self._skipped.values()) + self._untaggable

    async def step(self) -> int:
        """Seal the next rows anew; how many were dealt with, 0 when there is nothing left that opens."""
        async with calling(self._services, acting_as(self._session), Action.KEY_RESEALED, "memory", "keys") as call:
            if call.acting.keys.roster.oldest is None:
                raise ConflictError("no keys are being changed")
            await self._admit(call)
            async with self._services.store.write() as tx:
                done = await self._next(tx, call)
                call.decrypted = done > 0
                call.counts.update(records=done, damaged=self.damaged)
                await call.record(tx)
            return done

    async def end(self, *, leave_damaged: bool = False) -> None:
        """Retire the older keys. Raises ConflictError while anything is left under them, or missing.

        With ``leave_damaged`` what did not open in these steps may be left: it will never open again.
        """
        services, session = self._services, self._session
        context_id, generation = session.context.context_id, session.keyring.roster.generation
        async with services.store.write() as tx:
            await hold_open(tx, session)
            left = sum((await tx.rotation.left(context_id, generation)).values())
            if left > (self.damaged if leave_damaged else 0):
                raise ConflictError(f"{left} records are still sealed under the earlier keys")
            if not await is_empty_behind(tx, services, session.keyring) and not leave_damaged:
                raise ConflictError("rows that were counted are missing")
            await change_roster(tx, session, _all_of_one_generation)
            await tx.rotation.end(context_id, generation)
            await tx.heads.end(context_id, generation)
            await record_managed(tx, services, session, Action.KEY_RETIRED, _KEYS)

    async def _admit(self, call: Call) -> None:
        """What is signed by its author is admitted first, unless its time is over: nobody else can seal it anew."""
        if not self._swept:
            await sweep(self._services, call.acting.context)
            self._swept = True
        live = call.acting.keys.roster.generation
        async with self._services.store.read() as tx:
            left = await tx.rotation.left(call.acting.context_id, live)
        slots = [memory_slot(each, sensitive=True) for each in call.acting.keys.roster.partitions]
        if left["inbox"]:
            await admit_waiting(call, slots)
        if left["proposals"]:
            await settle_quarantined(call)

    async def _next(self, tx: Transaction, call: Call) -> int:
        for kind in _KINDS:
            done = await self._reseal(tx, call, kind)
            if done:
                return done
        return await self._tag(tx, call) or await self._index(tx, call)

    async def _reseal(self, tx: Transaction, call: Call, kind: RotatedKind) -> int:
        keys, entropy = call.acting.keys, self._services.entropy
        rows = await tx.rotation.behind(
            keys.context_id, kind, keys.roster.generation, ROWS_A_STEP, skip=self._skipped[kind]
        )
        for row in rows:
            try:
                sealed = reseal(keys, row, entropy)
            except CorruptError:
                self._skipped[kind] += 1
                continue
            await tx.rotation.reseal(kind, sealed, row)
        return len(rows)

    async def _tag(self, tx: Transaction, call: Call) -> int:
        """Give paths their tag of the live generation."""
        keys = call.acting.keys
        heads = await tx.rotation.untagged(keys.context_id, keys.roster.generation, ROWS_A_STEP, skip=self._untaggable)
        for head in heads:
            try:
                *_, (generation, tag) = records.path_tags(keys, records.open_head(keys, head).path)
                await tx.pages.claim(keys.context_id, head.page_id, generation, tag)
            except (CorruptError, ConflictError):
                self._untaggable += 1
        return len(heads)

    async def _index(self, tx: Transaction, call: Call) -> int:
        """Make one slot's search index again: its words are spread by a key of their generation."""
        roster = call.acting.keys.roster
        slots = [memory_slot(each, sensitive=flag) for each in roster.partitions for flag in (False, True)]
        for row in await tx.index.slots(roster.context_id, slots):
            if row.generation < roster.generation:
                if self.damaged:
                    # An index is made of every page of a slot or not at all; without one, searches read the pages.
                    await tx.index.clear(roster.context_id, row.slot)
                    await tx.index.set_slot(replace(row, generation=roster.generation, segments=0))
                else:
                    await rebuild_slot(tx, self._services, call.acting, row.slot, lambda: None)
                return 1
        return 0


def _all_of_one_generation(roster: Roster) -> Roster:
    return replace(roster, oldest=None, counted=MappingProxyType(dict.fromkeys(roster.counted, roster.generation)))


async def _seal_keyrings(
    tx: Transaction, services: Services, session: OpenSession, namespaces: Collection[str]
) -> None:
    """A keyring for everybody who is left; a grant that its principal has not signed as it stands gets none."""
    keys, context = session.keyring, session.context
    await tx.grants.put_keyring(holders.seal_owner_keyring(keys))
    offer = replace(context.offer, review=keys.roster.review != "off")
    await seal_members(tx, keys, offer)
    # A grant keeps the keys of extensions that are turned off for now: it needs them when they are on again.
    every = replace(offer, extensions=tuple(sorted({*offer.extensions, *KNOWN, *namespaces} - {*_PROFILES})))
    for grant in await tx.grants.list_grants(context.context_id):
        if not still_acts(keys.roster, grant):
            continue
        try:
            keyring = holders.reseal_grant(keys, grant, every)
        except CorruptError:
            await record_managed(
                tx, services, session, Action.TAMPERING_FOUND, _KEYS, outcome=Outcome.ERROR, actor=grant.actor
            )
            continue
        await tx.grants.put_keyring(keyring)
