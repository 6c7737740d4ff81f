"""Metadata files of views, written as Iceberg would. Spark need not analyze the text: the columns are known."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

from spark_trickle.lake import jvm
from spark_trickle.lake.pins import new_pin, warehouse
from spark_trickle.model import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_source_view(
    session: SparkSession, name: TableName, format: str, schema_json: str, text: str, *, pinned: bool
) -> str:
    """A view that shows a source; `pinned`: for one attempt or cut alone. Returns where its metadata file is."""
    schema = json.loads(schema_json)
    folder = f"{warehouse(session)}/{'/'.join(name.parts)}"
    now = int(time.time() * 1000)
    body = {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": folder,
        "schemas": [schema],
        "current-version-id": 1,
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": now,
                "schema-id": schema["schema-id"],
                "summary": {"engine-name": "spark", "operation": "create"},
                "default-namespace": name.namespace.split("."),
                "representations": [
                    {"type": "sql", "sql": text, "dialect": "spark"},
                ],
            }
        ],
        "version-log": [{"timestamp-ms": now, "version-id": 1}],
        "properties": {"trickle.source": format},
    }
    location = new_pin(session) if pinned else f"{folder}/metadata/trickle-source-{uuid.uuid4()}.metadata.json"
    parser = jvm.handles(session).jvm.org.apache.iceberg.view.ViewMetadataParser
    parser.write(parser.fromJson(json.dumps(body)), jvm.file_io(session).newOutputFile(location))
    return location
