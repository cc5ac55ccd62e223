"""A job as text, JSON or YAML, as ``POST /api/v1/jobs`` takes it. Pure."""

from __future__ import annotations

import json
from typing import Any

import yaml

MOST_CHARACTERS = 100_000
DEEPEST = 10
FORMATS = ("yaml", "json")


class NoJob(ValueError):
    """The text is no job; the message says why, for who wrote it."""


class _Dumper(yaml.SafeDumper):
    """Writes a string of several lines as lines."""


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _string)


def written(body: dict[str, Any], form: str) -> str:
    if form == "json":
        return json.dumps(body, indent=2, ensure_ascii=False)
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100) if body else ""


def read(text: str) -> dict[str, Any]:
    """The object in the text, whichever of the two it is in.

    Raises:
        NoJob: it is neither, or no object.
    """
    if len(text) > MOST_CHARACTERS:
        raise NoJob(f"It is longer than {MOST_CHARACTERS:,} characters.")
    body = _json(text) if text.lstrip().startswith("{") else _yaml(text)
    if not isinstance(body, dict):
        raise NoJob("A job is an object with fields such as “name:”.")
    return body


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise NoJob("It is nested too deeply.") from error
    except ValueError as error:
        raise NoJob(f"This is not JSON: {error}") from error


def _yaml(text: str) -> Any:
    try:
        _check(text)
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, NoJob):
            raise
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where is not None else ""
        raise NoJob(f"This is not YAML{line}: {getattr(error, 'problem', None) or error}") from error


def _check(text: str) -> None:
    """Refuse what would take more time or memory than any job is worth: an alias can stand for more than fits."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise NoJob("Aliases (*name) are not taken.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise NoJob("It is nested too deeply.")
