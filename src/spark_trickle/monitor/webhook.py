"""One alert to one webhook: signed as the Standard Webhooks specification says, sent once, without redirects."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import random
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any

from spark_trickle import __version__
from spark_trickle.config import Webhook

TIMEOUT = 5.0  # seconds for connecting, and for every answer of the socket
FIRST_RETRY = 5.0  # seconds, doubled with every further attempt
LAST_RETRY = 600.0


class NotDelivered(Exception):
    """Why, without the URL."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Another host would get what this one was to get, signed."""
        return


_opener = urllib.request.build_opener(_NoRedirects)


def post(webhook: Webhook, notice: str, body: str, timestamp: int, timeout: float = TIMEOUT) -> None:
    """Raises NotDelivered unless the answer is 2xx."""
    data = body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"spark-trickle/{__version__}",
        "webhook-id": notice,
        "webhook-timestamp": str(timestamp),
    }
    if webhook.key is not None:
        headers["webhook-signature"] = signature(webhook.key, notice, timestamp, data)
    request = urllib.request.Request(webhook.url.get_secret_value(), data, headers, method="POST")
    try:
        with _opener.open(request, timeout=timeout):
            return
    except urllib.error.HTTPError as error:
        with error:
            why = f"the answer is {error.code}"
    except urllib.error.URLError as error:
        why = str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = type(error).__name__
    raise NotDelivered(why[:200])


def signature(key: bytes, notice: str, timestamp: int, body: bytes) -> str:
    """
    >>> signature(b"secret", "n1", 1700000000, b"{}")
    'v1,htS0zyc06gut08Vr7TGaXk18hLyFVTIjNcyD8li2v9A='
    """
    signed = f"{notice}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def retry_delay(attempts: int, jitter: float | None = None) -> timedelta:
    """Exponential backoff; with jitter, so that what failed together is not tried together.

    >>> [retry_delay(n, jitter=0.5).seconds for n in (1, 2, 3, 20)]
    [5, 10, 20, 600]
    """
    seconds = min(FIRST_RETRY * 2 ** min(attempts - 1, 20), LAST_RETRY)
    return timedelta(seconds=seconds * (0.5 + (random.random() if jitter is None else jitter)))
