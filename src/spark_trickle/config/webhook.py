"""A webhook: where alerts are sent, and what signs them."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

SECRET_PREFIX = "whsec_"


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
