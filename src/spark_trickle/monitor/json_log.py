"""Log records as JSON, one object per line, for whatever collects them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

FIELDS = "trickle"  # `extra={FIELDS: {...}}` of a record: its fields enter the object


class JsonFormatter(logging.Formatter):
    """For any handler: `handler.setFormatter(JsonFormatter())`.

    >>> record = logging.LogRecord("a", logging.WARNING, "", 0, "%s is late", ("s.a",), None)
    >>> record.created = 0.25
    >>> JsonFormatter().format(record)
    '{"at": "1970-01-01T00:00:00.250+00:00", "level": "WARNING", "logger": "a", "message": "s.a is late"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        fields |= {k: v for k, v in (getattr(record, FIELDS, None) or {}).items() if k not in fields}
        return json.dumps(fields, default=str, ensure_ascii=False)
