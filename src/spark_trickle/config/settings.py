"""The settings of a lake as one value, and what follows from them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from spark_trickle.config.fields import LIVE, Fields, check_token
from spark_trickle.config.sources import FILE_NAME, gather, invalid
from spark_trickle.config.urls import bare, read_url

if TYPE_CHECKING:
    from sqlalchemy import URL

DATABASE_NAME = "catalog.db"
_SECRET = re.compile(r"password|secret|token|credential|access[._-]?key", re.IGNORECASE)
# libpq's words for what the JDBC driver spells otherwise.
_JDBC_WORDS = {"connect_timeout": "connectTimeout", "application_name": "ApplicationName"}


class Settings(Fields):
    """One frozen value; `load` gathers it."""

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

    @classmethod
    def load(cls, path_or_url: str | os.PathLike[str] | None = None, **options: Any) -> Settings:
        """Settings from all sources. `path_or_url`: a folder, a `trickle.toml` or a PostgreSQL URL.

        Whoever names the lake explicitly means it: location, catalog_url and warehouse then come from the
        keywords and the lake's own file, never from the environment or from another folder's file.
        """
        values, origin, file = gather(path_or_url, options)
        settings = cls._build(values, origin)
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
            raise invalid("location", "keyword", f"settings would come from {again.file} now, no longer {self.file}")
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
            raise invalid(name, origin.get(name, "default"), f"{shown} {why}".strip()) from None

    # --- derived -----------------------------------------------------------------------------------

    @property
    def token(self) -> SecretStr | None:
        """What requests to the service must carry."""
        if self.service_token is not None or self.service_token_file is None:
            return self.service_token
        try:
            text = self.service_token_file.expanduser().read_text(encoding="utf-8").strip()
            check_token(text)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise invalid("service_token_file", str(self.service_token_file), str(why)) from None
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
        return bare(self.sqlalchemy_url, "jdbc:postgresql")

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
        url = read_url(self.catalog_url.get_secret_value())
        return url.set(drivername="postgresql+psycopg", port=url.port or 5432)

    @property
    def shown_catalog(self) -> str:
        """The catalog for messages: no password."""
        if self.catalog_url is None:
            return str(self.database)
        url = self.sqlalchemy_url
        return bare(url, "postgresql", url.username)

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
