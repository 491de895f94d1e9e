"""What the consent page shows, as one value: the page renders it and decides nothing.

Implements PCP §3.6 (AUTH-39): the client and where its name comes from, the context, the account, every scope that was
asked for, and the sensitive categories that were not. Only scopes that were asked for are items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

from zkpcp.core.redirects import is_loopback, redirect_host
from zkpcp.core.roster import CONTROLLER
from zkpcp.core.scopes import known_scopes, scopes_of_role
from zkpcp.core.stored import AuthorizationRow, ClientRow, ContextRow
from zkpcp.usecases.partitions import OpenPartition

NameSource = Literal["dcr", "cimd", "operator", "owner"]
_SOURCES: Final[Mapping[str, NameSource]] = MappingProxyType(
    {"dcr": "dcr", "cimd": "cimd", "operator": "operator", "owner": "owner"}
)


@dataclass(frozen=True, slots=True)
class ConsentItem:
    """One scope with its box: ``sentence`` completes "This app may …". A sensitive one is never ticked beforehand."""

    scope: str
    sentence: str
    preticked: bool
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentView:
    """The consent page's content.

    ``client_name_source``: ``dcr``, the app chose its name itself and nobody checked it; ``cimd``, it stands in the
    document that the client id names, at ``client_host``; ``operator``, whoever runs the server gave it; ``owner``, the
    owner typed it.
    With ``redirect_is_loopback`` the answer goes to a program on this computer, whichever program asked.
    ``readable_by_organization``: the controller is one, and can read the context (CTX-02).
    ``partitions``: where the person may do what, one line each; empty where there is one partition only.
    ``agents`` can act for the person; the form's field ``agent`` names one, or nobody.
    ``not_requested`` are the sentences of the sensitive scopes that the app did not ask for.

    The form is a POST to ``action_url``. Its hidden field ``request`` holds ``request_secret``, one-time and bound to
    the session, which is the CSRF token too. Each item is a checkbox ``scope`` with the scope's name as its value. Two
    buttons are named ``decision``, with the values ``allow`` and ``deny``.
    """

    client_name: str
    client_name_source: NameSource
    client_id: str
    client_host: str | None
    redirect_host: str
    redirect_is_loopback: bool
    context_handle: str
    context_kind: str
    controller: str
    account: str
    items: tuple[ConsentItem, ...]
    not_requested: tuple[str, ...]
    readable_by_organization: bool
    partitions: tuple[str, ...]
    agents: tuple[str, ...]
    request_secret: str = field(repr=False)
    action_url: str


def consent_view(
    context: ContextRow,
    client: ClientRow,
    pending: AuthorizationRow,
    *,
    account: str,
    partitions: Sequence[OpenPartition] = (),
    role: str = CONTROLLER,
    agents: Sequence[str] = (),
    request_secret: str,
    action_url: str,
) -> ConsentView:
    """What the page shows for a pending authorization to somebody of this ``role``: only what is theirs to give."""
    known = known_scopes(context.offer)
    mine = scopes_of_role(role, context.offer)
    asked = [known[name] for name in pending.scopes if name in mine]
    return ConsentView(
        client_name=client.name,
        client_name_source=_SOURCES.get(client.source, "dcr"),
        client_id=client.client_id,
        client_host=urlsplit(client.client_id).hostname if client.source == "cimd" else None,
        redirect_host=redirect_host(pending.redirect_uri),
        redirect_is_loopback=is_loopback(pending.redirect_uri),
        context_handle=context.handle,
        context_kind=context.kind,
        controller=context.controller,
        account=account,
        items=tuple(ConsentItem(info.name, info.sentence, not info.sensitive, info.sensitive) for info in asked),
        not_requested=tuple(
            info.sentence for info in known.values() if info.sensitive and info.name not in pending.scopes
        ),
        readable_by_organization=context.is_organizations,
        partitions=tuple(f"{each.partition.name}: {', '.join(each.rights)}" for each in partitions),
        agents=tuple(agents),
        request_secret=request_secret,
        action_url=action_url,
    )
