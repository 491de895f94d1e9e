"""Settings, read once from the environment; each has a safe default and a sentence on who would change it.

No setting holds a key or a passphrase. A non-loopback public URL that is not https is refused (AUTH-05).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from zkpcp.core.redirects import PRIVATE_USE_SCHEMES, is_listable
from zkpcp.errors import UnavailableError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class Settings(BaseSettings):
    """What an operator can choose, each as ``ZKPCP_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix="ZKPCP_", frozen=True, extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: Path.home() / ".local" / "share" / "zkpcp",
        description="Where the embedded database lies. Set it to a volume that is backed up.",
    )
    database_url: str = Field(
        default="",
        description="sqlite:///absolute/path.db or postgresql://…; empty: the embedded SQLite in the data directory.",
    )
    host: str = Field(default="127.0.0.1", description="The address to listen on. Behind a proxy leave it on loopback.")
    port: int = Field(default=8765, ge=1, le=65535, description="The port to listen on.")
    public_url: str = Field(
        default="",
        description="The origin clients see, such as https://memory.example; https unless it is loopback.",
    )
    layout: Literal["paths", "single", "hosts"] = Field(
        default="paths",
        description=(
            "paths: many contexts at /c/<handle>; single: one context at the origin itself; "
            "hosts: each context at a host name of its own, <handle>.<host of the public URL>."
        ),
    )
    single_handle: str | None = Field(default=None, description="The handle of the one context of layout single.")
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Web origins, besides our own, whose pages may call the MCP endpoint (a JSON list)."
    )
    strong_passphrases: bool = Field(
        default=False, description="256 MiB Argon2id for new passphrases: 1.7 s a sign-in, harder to guess from a copy."
    )
    refresh_reuse_grace_seconds: int = Field(
        default=0,
        ge=0,
        le=3600,
        description="For clients that refresh in parallel: a used refresh token works this long; 0 revokes on reuse.",
    )
    client_documents: bool = Field(
        default=True,
        description="Know apps by the document that their client id names; the server then fetches it, from outside.",
    )
    redirect_schemes: Annotated[tuple[str, ...], NoDecode] = Field(
        default=tuple(sorted(PRIVATE_USE_SCHEMES)),
        description="URI schemes of desktop apps that consent may lead to, besides https and loopback (a JSON list).",
    )
    limits: str = Field(
        default="memory",
        repr=False,
        description="Where attempts are counted: memory, database, or the URL of a Redis or Valkey server.",
    )
    mcp_calls_per_minute: int = Field(default=600, ge=1, description="MCP requests a minute, for each connected app.")
    deleted_retention_days: int = Field(
        default=30, ge=0, le=3650, description="How long the owner can put a deleted page back, in days."
    )
    history_versions: int = Field(
        default=100, ge=0, le=10_000, description="How many earlier versions of each page are kept; 0 keeps none."
    )
    history_days: int = Field(
        default=730, ge=0, le=36_500, description="How long an earlier version is kept, in days; 0 keeps none."
    )
    mcp_lenient_era: bool = Field(
        default=False, description="Serve MCP requests whose header and body name different protocol eras."
    )
    extension_schemas: Path | None = Field(
        default=None, description="A folder of schemas for further profile extensions, <namespace>.schema.json each."
    )
    wipe_on_free: bool = Field(
        default=True, description="Start the process with allocators that overwrite freed memory; costs some speed."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            parts = urlsplit(self.origin)
        except ValueError:
            raise ValueError("ZKPCP_HOST and ZKPCP_PUBLIC_URL must hold a host name or an address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("ZKPCP_PUBLIC_URL must be an origin such as https://memory.example")
        if parts.path or parts.query or parts.fragment or parts.username:
            raise ValueError("ZKPCP_PUBLIC_URL must be an origin only, without path, query or user")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
            raise ValueError("ZKPCP_PUBLIC_URL must be https: only a loopback address may use http")
        if self.layout == "single" and not self.single_handle:
            raise ValueError("ZKPCP_SINGLE_HANDLE must name the context of layout single")
        if self.layout == "hosts" and not (
            self.public_url and parts.hostname[-1].isalpha() and ":" not in parts.hostname
        ):
            raise ValueError("ZKPCP_PUBLIC_URL must have a host name, which layout hosts puts handles in front of")
        return self

    @field_validator("allowed_origins", "redirect_schemes", mode="before")
    @classmethod
    def _read_list(cls, value: object) -> object:
        # Not left to the settings library: its own error says neither which setting it was nor what it has to be.
        if not isinstance(value, str):
            return value
        try:
            items = json.loads(value)
        except (ValueError, RecursionError):
            items = None
        if not isinstance(items, list):
            raise ValueError('must be a JSON list such as ["one", "two"]')  # noqa: TRY004 - pydantic wants ValueError
        return items

    @field_validator("redirect_schemes")
    @classmethod
    def _check_schemes(cls, schemes: tuple[str, ...]) -> tuple[str, ...]:
        if not all(is_listable(scheme) for scheme in schemes):
            raise ValueError(
                "each must be a scheme of an app, in lower case; none that browsers run or open themselves"
            )
        return schemes

    @field_validator("limits")
    @classmethod
    def _check_limits(cls, limits: str) -> str:
        if limits not in ("memory", "database") and limits.partition(":")[0] not in ("redis", "rediss", "valkey"):
            raise ValueError("must be memory, database, or a URL that starts with redis://, rediss:// or valkey://")
        return limits

    @property
    def origin(self) -> str:
        """The public origin, without a trailing slash."""
        if self.public_url:
            return self.public_url.rstrip("/").lower()
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - recognised, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the public origin."""
        return urlsplit(self.origin).hostname in LOOPBACK_HOSTS

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.data_dir.expanduser().absolute() / 'zkpcp.db'}"


def load_settings(**overrides: object) -> Settings:
    """Read the settings. Raises UnavailableError that names each wrong one and its rule, never its value."""
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})  # type: ignore[arg-type]  # pydantic checks
    except ValidationError as error:
        problems = [_problem(tuple(item["loc"]), item["msg"]) for item in error.errors(include_input=False)]
    raise UnavailableError("the settings are not usable: " + "; ".join(problems))


def _problem(location: tuple[int | str, ...], message: str) -> str:
    name = f"ZKPCP_{str(location[0]).upper()}: " if location else ""
    return name + message.removeprefix("Value error, ")
