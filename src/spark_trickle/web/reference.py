"""The API as a page of HTML, from its OpenAPI description. Nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.4 }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }} code {{ font-size: .95em }}
h3 {{ margin-bottom: .2rem; font-family: ui-monospace, monospace; font-size: 1rem }} p, ul {{ margin: .2rem 0 }}</style>
</head><body><h1>{title}</h1><p>{description} For programs: <a href="/openapi.json">openapi.json</a>.</p>
{body}</body></html>
"""


def reference(openapi: Mapping[str, Any]) -> str:
    schemas = openapi.get("components", {}).get("schemas", {})
    groups: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            shown = "\n".join(_operation(f"{method.upper()} {path}", operation, schemas))
            groups.setdefault(operation.get("tags", ["others"])[0], []).append(shown)
    body = "\n".join(f"<h2>{escape(tag)}</h2>\n" + "\n".join(shown) for tag, shown in groups.items())
    info = openapi["info"]
    return _PAGE.format(title=escape(info["title"]), description=escape(info.get("description", "")), body=body)


def _operation(head: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3>{escape(head)}</h3>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    lines = [f"<code>{escape(p['name'])}</code> {escape(_type(p['schema']))}" for p in operation.get("parameters", ())]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        fields = ", ".join(_fields(body, schemas))
        lines.append(f"body: <code>{{{escape(fields)}}}</code>")
    given = operation["responses"].get("200", operation["responses"].get("201", {}))
    answer = given.get("content", {}).get("application/json", {}).get("schema")
    if answer:
        lines.append(f"gives {escape(_type(answer))}")
    if lines:
        yield "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for name in _type(schema).split(" or "):
        found = schemas.get(name, {})
        for field, of in found.get("properties", {}).items():
            yield f'"{field}": {_type(of)}' + ("" if field in found.get("required", ()) else "?")


def _type(schema: Mapping[str, Any]) -> str:
    """
    >>> _type({"anyOf": [{"$ref": "#/components/schemas/Refresh"}, {"type": "null"}]})
    'Refresh'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(s) for s in schema["anyOf"] if s.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("type", "anything"))
