"""Settings of a lake: where it is, how Spark runs, how refreshes decide.

Sources, strongest first: keywords of `connect`, environment variables `TRICKLE_<NAME>`, one `trickle.toml`,
defaults. An unknown name or an impossible value is an error that names it and where it came from. A password
in the catalog's URL is never shown.

    settings = Settings.load("lakehouse", shuffle_partitions=8)
    settings = Settings.load("postgresql://me:secret@db/lake", warehouse="s3a://bucket/lake")
"""

from __future__ import annotations

from spark_trickle.config.fields import ENV_PREFIX as ENV_PREFIX
from spark_trickle.config.settings import Settings as Settings
from spark_trickle.config.webhook import Webhook as Webhook
