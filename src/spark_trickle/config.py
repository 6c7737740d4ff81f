"""Settings of a lake: where it is, how Spark runs, how refreshes decide.

Sources, strongest first: keywords of `connect`, environment variables `TRICKLE_<NAME>`, one `trickle.toml`,
defaults. An unknown name or an impossible value is an error that names it and where it came from. A password
in the catalog's URL is never shown.

    settings = Settings.load("lakehouse", shuffle_partitions=8)
    settings = Settings.load("postgresql://me:secret@db/lake", warehouse="s3a://bucket/lake")
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from spark_trickle.errors import TrickleError
from spark_trickle.schedule import check_schedule, parse_duration

if TYPE_CHECKING:
    from sqlalchemy import URL

ENV_PREFIX = "TRICKLE_"
FILE_NAME = "trickle.toml"
DATABASE_NAME = "catalog.db"
SECRET_PREFIX = "whsec_"
LIVE: Any = {"live": True}  # of a setting that takes effect while the process runs
_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_WHERE = ("location", "catalog_url", "warehouse")  # which lake: decided together, by one source
_SHORTEST_TOKEN = 16
_SECRET = re.compile(r"password|secret|token|credential|access[._-]?key", re.IGNORECASE)
# libpq's words for what the JDBC driver spells otherwise.
_JDBC_WORDS = {"connect_timeout": "connectTimeout", "application_name": "ApplicationName"}


class Webhook(BaseModel):
    """Where alerts are sent. Path and secret are never shown: the path of a webhook often is one."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: SecretStr
    secret: SecretStr | None = None

    @field_validator("url")
    @classmethod
    def _http(cls, value: SecretStr) -> SecretStr:
        try:
            parts = urlsplit(value.get_secret_value())
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
            fits = fits and (parts.port or 1) > 0
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("a webhook is an http or https URL, without user and password")
        return value

    @field_validator("secret")
    @classmethod
    def _readable(cls, value: SecretStr | None) -> SecretStr | None:
        text = "" if value is None else value.get_secret_value()
        if value is not None and not text:
            raise ValueError("the secret is empty")
        if text.startswith(SECRET_PREFIX):
            try:
                base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
            except ValueError:
                raise ValueError(f"what follows {SECRET_PREFIX} is not base64") from None
        return value

    @property
    def target(self) -> str:
        """What it is called in the catalog, which does not know the URL."""
        return hashlib.sha256(self.url.get_secret_value().encode()).hexdigest()[:16]

    @property
    def key(self) -> bytes | None:
        """What signs: the secret's bytes, or those that it says in base64 after `whsec_`."""
        if self.secret is None:
            return None
        text = self.secret.get_secret_value()
        encoded = text.removeprefix(SECRET_PREFIX)
        return text.encode() if encoded == text else base64.b64decode(encoded)

    def __str__(self) -> str:
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.scheme}://{parts.netloc}/…"


class Settings(BaseSettings):
    """One frozen value; `load` gathers it. The descriptions below are docs/configuration.md."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True
    )

    location: Path = Field(
        Path("lakehouse"),
        description="Folder of the lake: `catalog.db` and `warehouse/` live in it. Also accepts a PostgreSQL "
        "URL, which is then the `catalog_url`.",
    )
    catalog_url: SecretStr | None = Field(
        None,
        description="`postgresql://user:password@host:port/database` for a catalog in PostgreSQL. "
        "Unset: SQLite in the folder.",
    )
    warehouse: str | None = Field(
        None,
        description="Where table files go: a path or any URI that Spark can write. Unset: `warehouse/` in "
        "the folder. Required with a PostgreSQL catalog.",
    )
    master: str = Field("local[*]", min_length=1, description="Spark master. Takes effect when Spark starts.")
    driver_memory: str = Field(
        "2g",
        pattern=r"^[1-9]\d*[kmgtKMGT]$",
        description="Memory of the driver. Takes effect when Spark starts.",
    )
    class_archive: bool = Field(
        True,
        description="Use the archive of Spark's classes in `~/.cache/spark-trickle` (170 MB), which `trickle doctor` "
        "makes and with which Spark starts in about half the time. Takes effect when Spark starts.",
    )
    shuffle_partitions: int = Field(4, ge=1, description="`spark.sql.shuffle.partitions`: raise it on a cluster.")
    time_zone: str = Field(
        "UTC", description="Session time zone. A stream table keeps the one it was created with (settings.md)."
    )
    extra_packages: tuple[str, ...] = Field(
        (),
        description="More Maven coordinates for Spark, such as an object store's file system. "
        "Takes effect when Spark starts.",
    )
    delta_lake: bool = Field(
        False,
        description="Load Delta Lake's jars even though the lake has no Delta Lake source yet; a lake that has one "
        "loads them by itself. Takes effect when Spark starts.",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        description="Further Spark configuration. Entries of several sources are merged; per entry the strongest "
        "source wins. A stream table keeps those that bear on its rows as they were at its creation (settings.md).",
    )
    max_change_ratio: float = Field(
        0.15,
        ge=0,
        allow_inf_nan=False,
        json_schema_extra=LIVE,
        description="AUTO recomputes when changed rows / rows of an input exceed this.",
    )
    lease_seconds: float = Field(
        30, ge=1, description="A refresh that gives no sign of life for this long has lost its lease."
    )
    lease_wait_seconds: float = Field(
        60,
        ge=0,
        json_schema_extra=LIVE,
        description="How long a refresh waits for another one of the same stream table.",
    )
    min_schedule_seconds: float = Field(
        1, gt=0, json_schema_extra=LIVE, description="The shortest schedule that is accepted."
    )
    default_schedule: str = Field(
        "1m", json_schema_extra=LIVE, description="Schedule of a stream table that names none."
    )
    canonical_periods: bool = Field(
        True,
        json_schema_extra=LIVE,
        description="Schedules of 48 s and more are shortened to 48 s times a power of two, so that stream tables of "
        "one DAG are due together; off: as written. A schedule such as `50s exact` is kept as written in any case.",
    )
    diamond_consistency: Literal["atomic", "none"] = Field(
        "atomic",
        json_schema_extra=LIVE,
        description="Stream tables that reach a source or stream table along two paths are published together with "
        "all that lies between. `none`: each by itself. A stream table may have its own.",
    )
    diamond_schedule_policy: Literal["fastest", "slowest"] = Field(
        "fastest",
        json_schema_extra=LIVE,
        description="When such a group is due whose members have different schedules: when the first of them is, or "
        "when all are. A stream table may have its own.",
    )
    allow_circular: bool = Field(
        False,
        json_schema_extra=LIVE,
        description="Whether stream tables may read each other (docs/cycles.md). Else a cycle is refused.",
    )
    max_fixpoint_iterations: int = Field(
        100, ge=1, json_schema_extra=LIVE, description="Rounds after which a cycle that still grows is an error."
    )
    max_fixpoint_rows: int = Field(
        10_000_000, ge=1, json_schema_extra=LIVE, description="Rows at which a cycle that still grows is an error."
    )
    max_concurrent_refreshes: int = Field(
        2, ge=1, json_schema_extra=LIVE, description="How many refreshes the scheduler runs at once."
    )
    max_consecutive_errors: int = Field(
        3,
        ge=1,
        json_schema_extra=LIVE,
        description="The scheduler suspends a stream table after this many failed refreshes in a row.",
    )
    alert_stale_periods: float = Field(
        2,
        ge=1,
        json_schema_extra=LIVE,
        description="A stream table is STALE when it is this many periods of its schedule behind (alerts.md).",
    )
    alert_change_log_entries: int = Field(
        400,
        ge=1,
        json_schema_extra=LIVE,
        description="Entries of a change log that no consumer has read from which on CHANGE_LOG_GROWING is raised.",
    )
    alert_completed: tuple[str, ...] = Field(
        (),
        json_schema_extra=LIVE,
        description="Stream tables whose every refresh that changed them is an alert, REFRESH_COMPLETED: names and "
        'patterns such as `["shop.revenue", "finance.*"]`; `["*"]` for all.',
    )
    webhooks: tuple[Webhook, ...] = Field(
        (),
        json_schema_extra=LIVE,
        description="Where alerts are sent: URLs, or tables of `url` and `secret`, with which what is sent is signed "
        "(alerts.md). Shown without path and secret.",
    )
    notify_channel: str = Field(
        "trickle",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,62})?$",
        json_schema_extra=LIVE,
        description="The channel of PostgreSQL's NOTIFY on which alerts are told, if the catalog is PostgreSQL. Empty: "
        "none.",
    )
    volatile_functions: Literal["reject", "warn", "allow"] = Field(
        "reject",
        json_schema_extra=LIVE,
        description="What to do with a new definition that uses functions such as `rand()` or `uuid()`, which give "
        "different results: refuse it, allow it with a notice, or allow it. Its refreshes are FULL.",
    )
    rest_catalog_storage: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of storage that the REST catalog of `trickle up` gives to its clients with every "
        "table, such as `s3.endpoint` and `client.region`. Unset, they get none and use their own. A credential here "
        "is handed to everyone who may read the catalog.",
    )
    service_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="The address at which `trickle up` listens. Any but one of the loopback interface needs a token.",
    )
    service_port: int = Field(8787, ge=0, lt=65536, description="Its port; 0: any that is free.")
    service_token: SecretStr | None = Field(
        None,
        description="The token that requests to `trickle up` must carry, of 16 characters at least; other commands "
        "send it, too. Unset: none is needed, and only this machine may ask.",
    )
    service_token_file: Path | None = Field(None, description="A file that holds the token instead.")
    service_names: tuple[str, ...] = Field(
        (),
        description="Host names by which `trickle up` may be called, besides `localhost` and IP addresses. Requests "
        "to others are refused: a foreign web page could have sent them.",
    )
    check_definition: Literal["auto", "always", "off"] = Field(
        "auto",
        json_schema_extra=LIVE,
        description="Whether creating a stream table also runs its text as written and compares row count and hash "
        "with our form of it; if they differ, it is kept FULL with reason DEFINITION_CHECK. `auto`: while its inputs "
        "have at most a million rows.",
    )
    protect: Literal["lazy", "always", "off"] = Field(
        "lazy",
        description="Tags that keep the source snapshots which stream tables reflect from being expired. `lazy` tags "
        "a snapshot once the source has moved past it, at most one commit per source and refresh; `always` tags every "
        "one; `off` sets none and removes those there are.",
    )
    maintenance: Literal["automatic", "manual", "off"] = Field(
        "automatic",
        description="Compaction of stream tables, expiry of their snapshots, old files and old history. `automatic`: "
        "the scheduler that leads does it between refreshes; `manual`: `trickle maintain` only; `off`: never "
        "(maintenance.md).",
        json_schema_extra=LIVE,
    )
    retain: str = Field(
        "7d",
        description="How long a stream table can be read as it was: snapshots that are older expire. Named cuts keep "
        "theirs for as long as they are.",
        json_schema_extra=LIVE,
    )
    retain_snapshots: int = Field(
        100,
        ge=2,
        description="How many snapshots of a stream table are kept at most, the newest. Every refresh writes them all "
        "into its metadata file.",
        json_schema_extra=LIVE,
    )
    reader_grace: str = Field(
        "1h",
        description="How long files stay that no snapshot refers to any more, for reads that began before and are not "
        "at a cut.",
        json_schema_extra=LIVE,
    )
    orphan_age: str = Field(
        "1d",
        description="How old a file in the folder of a stream table must be before maintenance deletes it because "
        "nothing refers to it. It looks for such files after a process has died.",
        json_schema_extra=LIVE,
    )
    history_retain: str = Field(
        "30d",
        description="How long refreshes stay in the history. The totals of `/metrics` go on counting them.",
        json_schema_extra=LIVE,
    )
    target_file_size: int = Field(
        128_000_000,
        ge=1_000_000,
        description="Bytes of a data file that compaction aims at. A table's own `write.target-file-size-bytes` goes "
        "before it.",
        json_schema_extra=LIVE,
    )
    compact_files: int = Field(
        16,
        ge=2,
        description="Small files of about one size, in one partition, that are merged when there are so many.",
        json_schema_extra=LIVE,
    )
    log_level: Literal["OFF", "ERROR", "WARN", "INFO", "DEBUG"] = Field(
        "ERROR", description="Spark's log level. Above ERROR, everything Spark writes goes to standard error."
    )

    _given: tuple[Any, dict[str, Any]] | None = PrivateAttr(None)  # what `load` was called with
    _file_read: Path | None = PrivateAttr(None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # `load` merges the sources itself, because it must be able to say where a wrong value came from.
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    # --- gathering ---------------------------------------------------------------------------------

    @classmethod
    def load(cls, path_or_url: str | os.PathLike[str] | None = None, **options: Any) -> Settings:
        """Settings from all sources. `path_or_url`: a folder, a `trickle.toml` or a PostgreSQL URL.

        Whoever names the lake explicitly means it: location, catalog_url and warehouse then come from the
        keywords and the lake's own file, never from the environment or from another folder's file.
        """
        keywords = {k: v for k, v in options.items() if v is not None}
        environment = cls._environment()
        explicit_file: Path | None = None
        if path_or_url is not None:
            text = os.fspath(path_or_url)
            if "location" in keywords:
                raise _invalid("location", "keyword", "it is given twice, as path_or_url and as keyword")
            if text.endswith(".toml"):
                explicit_file = Path(text)
            else:
                keywords["location"] = text
        named = path_or_url is not None or "location" in keywords or "catalog_url" in keywords
        if named:
            environment = {k: v for k, v in environment.items() if k not in _WHERE}
        file, values = cls._file(explicit_file, named, {**environment, **keywords})

        sources: list[tuple[str, Mapping[str, Any]]] = [
            ("keyword", keywords),
            ("environment", environment),
            (str(file) if file else FILE_NAME, values),
        ]
        merged: dict[str, Any] = {}
        origin: dict[str, str] = {}
        for label, found in reversed(sources):
            for name, value in found.items():
                where = f"environment variable {ENV_PREFIX}{name.upper()}" if label == "environment" else label
                if name not in cls.model_fields:
                    raise _unknown(name, where, cls.model_fields)
                if name == "spark_conf" and isinstance(value, Mapping) and isinstance(merged.get(name), dict):
                    merged[name] = {**merged[name], **_flat(value)}
                else:
                    merged[name] = _flat(value) if name == "spark_conf" and isinstance(value, Mapping) else value
                origin[name] = where
        settings = cls._build(merged, origin)
        settings._given = path_or_url, options
        settings._file_read = None if file is None else file.absolute()
        return settings

    def loaded_again(self) -> Settings:
        """From the same sources, as they are now."""
        if self._given is None:
            return self
        path_or_url, options = self._given
        again = type(self).load(path_or_url, **options)
        if again.file != self.file:  # a relative path, and the process has gone to another folder
            raise _invalid("location", "keyword", f"settings would come from {again.file} now, no longer {self.file}")
        return again

    @property
    def file(self) -> Path | None:
        """The `trickle.toml` that was read, or that would be if it were there."""
        if self._file_read is not None:
            return self._file_read
        return None if self.is_postgres or self._given is None else self.location / FILE_NAME

    @classmethod
    def live(cls) -> tuple[str, ...]:
        """The settings that take effect while a process runs."""
        return tuple(name for name, field in cls.model_fields.items() if field.json_schema_extra == LIVE)

    @classmethod
    def _build(cls, values: dict[str, Any], origin: Mapping[str, str]) -> Settings:
        try:
            return cls(**values)
        except ValidationError as e:
            first = e.errors(include_input=False, include_url=False)[0]
            name = str(first["loc"][0]) if first["loc"] else "location"
            why = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
            given = values.get(name)
            hide = (
                given is None
                or name in ("catalog_url", "rest_catalog_storage", "service_token", "webhooks")
                or "://" in str(given)
                or why.startswith(repr(given))
            )
            shown = "" if hide else f" {given!r}:"
            raise _invalid(name, origin.get(name, "default"), f"{shown} {why}".strip()) from None

    @classmethod
    def _environment(cls) -> dict[str, Any]:
        known = {f"{ENV_PREFIX}{name}".upper() for name in cls.model_fields}
        for variable in sorted(os.environ):
            if variable.upper().startswith(ENV_PREFIX) and variable.upper() not in known:
                name = variable[len(ENV_PREFIX) :].lower()
                raise _unknown(name, f"environment variable {variable}", cls.model_fields)
        try:
            return dict(EnvSettingsSource(cls, env_prefix=ENV_PREFIX)())
        except SettingsError as e:
            name = next((n for n in cls.model_fields if f'"{n}"' in str(e)), "spark_conf")
            raise _invalid(
                name, f"environment variable {ENV_PREFIX}{name.upper()}", "it must be written as JSON"
            ) from None

    @classmethod
    def _file(
        cls, explicit: Path | None, named: bool, stronger: Mapping[str, Any]
    ) -> tuple[Path | None, dict[str, Any]]:
        """The one file that counts: the given one, the lake folder's, or the current folder's."""
        if explicit is not None:
            if not explicit.is_file():
                raise _invalid("location", "keyword", f"there is no file {explicit}")
            values = _read_toml(explicit)
            if not ({"location", "catalog_url"} & values.keys()):
                values["location"] = os.path.abspath(explicit.parent)
        else:
            here = Path(FILE_NAME)
            folder = str(stronger.get("location", cls.model_fields["location"].default))
            there = None if folder.startswith(_POSTGRES) else Path(folder) / FILE_NAME
            if (
                there is not None
                and "catalog_url" not in stronger
                and (named or not here.is_file())
                and there.is_file()
            ):
                values, explicit = _read_toml(there), there
                values.setdefault("location", os.path.abspath(there.parent))
            elif not named and here.is_file():
                values, explicit = _read_toml(here), here
            else:
                return None, {}
        # Paths in a file are relative to the file, so that it means the same from everywhere.
        for name in ("location", "warehouse"):
            value = values.get(name)
            if isinstance(value, str) and "://" not in value:
                values[name] = str(explicit.parent / Path(value).expanduser())
        return explicit, values

    # --- validation --------------------------------------------------------------------------------

    @model_validator(mode="before")
    @classmethod
    def _location_may_be_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("location", "")).startswith(_POSTGRES):
            return {**data, "catalog_url": data["location"], "location": cls.model_fields["location"].default}
        return data

    @field_validator("location", mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise ValueError("it is empty")
        return value

    @field_validator("location", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        if "://" in str(value) or ":/" in str(value):
            raise ValueError("neither a folder nor a PostgreSQL URL; put a remote store into `warehouse`")
        if "?" in str(value):
            raise ValueError("the folder's name has a question mark, which the SQLite driver cannot take")
        return Path(os.path.abspath(value.expanduser()))

    @field_validator("catalog_url", mode="after")
    @classmethod
    def _postgres_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        text = value.get_secret_value()
        if not text.startswith(_POSTGRES):
            raise ValueError("it must start with postgresql://")
        url = _read_url(text)
        if not (url.database or "").strip("/"):
            raise ValueError("the URL names no database: postgresql://user@host/database")
        if not url.host or "host" in url.query:
            raise ValueError("the URL names no host; Spark reaches the catalog over TCP, not over a socket file")
        return value

    @field_validator("time_zone")
    @classmethod
    def _time_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone; write it as UTC or Europe/Berlin") from None
        return value

    @field_validator("retain", "reader_grace", "orphan_age", "history_retain")
    @classmethod
    def _duration(cls, value: str) -> str:
        try:
            parse_duration(value)
        except TrickleError as error:
            raise ValueError(f"{error.message}: write it as '30m', '1h 30m' or '7d'") from None
        return value

    @field_validator("default_schedule")
    @classmethod
    def _schedule(cls, value: str, info: ValidationInfo) -> str:
        # Whoever raises the minimum alone has not asked for the default schedule.
        given = value != cls.model_fields["default_schedule"].default
        try:
            check_schedule(value, info.data.get("min_schedule_seconds", 0) if given else 0)
        except TrickleError as error:
            raise ValueError(f"{error.message}. {error.hint}") from None
        return value.strip()

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("service_token")
    @classmethod
    def _long_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _check_token(value.get_secret_value())
        return value

    @field_validator("service_names", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return [n.strip().lower() for n in value.split(",")] if isinstance(value, str) else value

    @field_validator("extra_packages", mode="before")
    @classmethod
    def _packages(cls, value: Any) -> Any:
        parts = [p.strip() for p in value.split(",")] if isinstance(value, str) else value
        if isinstance(parts, (list, tuple)) and any(
            not re.fullmatch(r"[^:\s]+:[^:\s]+:[^:\s]+", str(p)) for p in parts
        ):
            raise ValueError("write Maven coordinates as group:artifact:version")
        return parts

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _conf(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        flat = _flat(value)
        for key in flat:
            if not key.startswith("spark."):
                raise ValueError(f"{key!r} does not start with 'spark.'")
        return flat

    @field_validator("webhooks", mode="before")
    @classmethod
    def _webhooks(cls, value: Any) -> Any:
        if isinstance(value, (str, Webhook, Mapping)):
            value = [value]
        if not isinstance(value, (list, tuple)):
            return value
        found = [{"url": one} if isinstance(one, str) else one for one in value]
        urls = [dict(one).get("url") for one in found if isinstance(one, (Mapping, Webhook))]
        if any(urls.count(url) > 1 for url in urls):
            raise ValueError("a URL is given twice")
        return tuple(found)

    @field_validator("alert_completed", mode="before")
    @classmethod
    def _patterns(cls, value: Any) -> Any:
        return tuple(p.strip() for p in value.split(",")) if isinstance(value, str) else value

    @field_validator("rest_catalog_storage", mode="before")
    @classmethod
    def _properties(cls, value: Any) -> Any:
        return _flat(value) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _warehouse_for_postgres(self) -> Settings:
        if self.catalog_url is not None and self.warehouse is None:
            raise ValueError("a PostgreSQL catalog needs `warehouse`: where the table files go")
        return self

    # --- derived -----------------------------------------------------------------------------------

    @property
    def token(self) -> SecretStr | None:
        """What requests to the service must carry."""
        if self.service_token is not None or self.service_token_file is None:
            return self.service_token
        try:
            text = self.service_token_file.expanduser().read_text(encoding="utf-8").strip()
            _check_token(text)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise _invalid("service_token_file", str(self.service_token_file), str(why)) from None
        return SecretStr(text)

    @property
    def is_postgres(self) -> bool:
        return self.catalog_url is not None

    @property
    def database(self) -> Path:
        """The SQLite file of an embedded lake."""
        return self.location / DATABASE_NAME

    @property
    def warehouse_uri(self) -> str:
        """The warehouse with its scheme, as Iceberg gets it."""
        text = self.warehouse or str(self.location / "warehouse")
        if "://" in text or text.startswith("file:"):
            return text.rstrip("/")
        return "file://" + os.path.abspath(os.path.expanduser(text))

    @property
    def warehouse_path(self) -> Path | None:
        """The warehouse as a local folder, None for an object store."""
        uri = self.warehouse_uri
        return Path(re.sub(r"^file:(//)?", "", uri)) if uri.startswith("file:") else None

    @property
    def jdbc_url(self) -> str:
        """For Java; without user and password, which are in `jdbc_properties`."""
        if self.catalog_url is None:
            return f"jdbc:sqlite:{self.database}"
        return _bare(self.sqlalchemy_url, "jdbc:postgresql")

    @property
    def jdbc_properties(self) -> dict[str, str]:
        """Connection properties for Java. They hold the password: for the driver only."""
        if self.catalog_url is None:
            # Every write takes the lock at BEGIN: one that upgrades a read lock fails whatever the timeout.
            return {"busy_timeout": "60000", "transaction_mode": "IMMEDIATE"}
        url = self.sqlalchemy_url
        properties = {_JDBC_WORDS.get(k, k): values[-1] for k, values in url.normalized_query.items()}
        if url.username:
            properties["user"] = url.username
        if url.password:
            properties["password"] = str(url.password)
        return properties

    @property
    def sqlalchemy_url(self) -> URL:
        """For SQLAlchemy, password included. Its text hides that one, but not one in the query: never to be shown."""
        from sqlalchemy import URL

        if self.catalog_url is None:
            return URL.create("sqlite", database=str(self.database))
        url = _read_url(self.catalog_url.get_secret_value())
        return url.set(drivername="postgresql+psycopg", port=url.port or 5432)

    @property
    def shown_catalog(self) -> str:
        """The catalog for messages: no password."""
        if self.catalog_url is None:
            return str(self.database)
        url = self.sqlalchemy_url
        return _bare(url, "postgresql", url.username)

    def shown(self) -> dict[str, Any]:
        """All settings as plain values that may be printed."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        storage = self.rest_catalog_storage
        values["rest_catalog_storage"] = {k: "***" if _SECRET.search(k) else v for k, v in storage.items()}
        values["location"] = str(self.location)
        values["catalog_url"] = self.shown_catalog if self.is_postgres else None
        values["service_token"] = None if self.service_token is None else "***"
        values["service_token_file"] = None if self.service_token_file is None else str(self.service_token_file)
        values["service_names"] = list(self.service_names)
        values["extra_packages"] = list(self.extra_packages)
        values["alert_completed"] = list(self.alert_completed)
        values["webhooks"] = list(map(str, self.webhooks))
        values["spark_conf"] = {k: "***" if _SECRET.search(k) else v for k, v in self.spark_conf.items()}
        return values

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{k}={v!r}' for k, v in self.shown().items())})"

    __str__ = __repr__


def _check_token(text: str) -> None:
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"a token has at least {_SHORTEST_TOKEN} printable ASCII characters and no space")


def _read_url(text: str) -> URL:
    """The parts of a PostgreSQL URL; an error does not repeat the text, which may hold a password."""
    from sqlalchemy import make_url  # late: most lakes are folders, and reading settings must be fast
    from sqlalchemy.exc import ArgumentError

    # SQLAlchemy takes the first @ for the end of the password: the rest of one would be the host, which is shown.
    if re.fullmatch(r"[^:]+://([^@/?#]*@)?[^@]*", text):
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            pass
        else:
            if 0 <= (url.port or 0) < 65536:
                return url
    raise ValueError("the URL cannot be read; percent-encode special characters in it, such as @ in the password")


def _bare(url: URL, drivername: str, username: str | None = None) -> str:
    """Where a database is. Without the query: a password may be there too."""
    from sqlalchemy import URL

    return URL.create(drivername, username, host=url.host, port=url.port, database=url.database).render_as_string()


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as f:
            return tomllib.load(f)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TrickleError("INVALID_SETTING", f"{file} is not TOML: {e}.", hint="Correct the named line.") from None
    except OSError as e:
        raise TrickleError("INVALID_SETTING", f"{file} cannot be read: {e.strerror}.") from None


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Spark's flat names from TOML's tables (`spark.sql.x = 1` unquoted is a nested table there)."""
    out: dict[str, str] = {}
    for key, v in value.items():
        if isinstance(v, Mapping):
            out.update(_flat(v, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = str(v).lower() if isinstance(v, bool) else str(v)
    return out


def _invalid(name: str, where: str, why: str) -> TrickleError:
    return TrickleError("INVALID_SETTING", f"Setting {name!r} ({where}): {why.rstrip('.')}.")


def _unknown(name: str, where: str, known: Mapping[str, Any]) -> TrickleError:
    close = difflib.get_close_matches(name.lower(), list(known), n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Known settings: {', '.join(known)}."
    return TrickleError("INVALID_SETTING", f"Unknown setting {name!r} ({where}).", hint=hint)
