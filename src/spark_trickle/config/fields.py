"""What can be set, and which values are possible."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from spark_trickle.config.urls import POSTGRES, read_url
from spark_trickle.config.webhook import Webhook
from spark_trickle.errors import TrickleError
from spark_trickle.schedule import check_schedule, parse_duration

ENV_PREFIX = "TRICKLE_"
LIVE: Any = {"live": True}  # of a setting that takes effect while the process runs
_SHORTEST_TOKEN = 16


class Fields(BaseSettings):
    """The settings, one field each. Their descriptions are docs/configuration.md."""

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

    # --- validation --------------------------------------------------------------------------------

    @model_validator(mode="before")
    @classmethod
    def _location_may_be_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("location", "")).startswith(POSTGRES):
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
        if not text.startswith(POSTGRES):
            raise ValueError("it must start with postgresql://")
        url = read_url(text)
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
            check_token(value.get_secret_value())
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
        conf = flat(value)
        for key in conf:
            if not key.startswith("spark."):
                raise ValueError(f"{key!r} does not start with 'spark.'")
        return conf

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
        return flat(value) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _warehouse_for_postgres(self) -> Self:
        if self.catalog_url is not None and self.warehouse is None:
            raise ValueError("a PostgreSQL catalog needs `warehouse`: where the table files go")
        return self


def check_token(text: str) -> None:
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"a token has at least {_SHORTEST_TOKEN} printable ASCII characters and no space")


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Spark's flat names from TOML's tables (`spark.sql.x = 1` unquoted is a nested table there)."""
    out: dict[str, str] = {}
    for key, v in value.items():
        if isinstance(v, Mapping):
            out.update(flat(v, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = str(v).lower() if isinstance(v, bool) else str(v)
    return out
