"""``dcgmi diag -j`` of DCGM 2, 3 and 4.

DCGM 2 and 3: root ``DCGM GPU Diagnostic``, results by ``gpu_id`` or ``gpu_ids`` (a list as text).
DCGM 4: root ``DCGM Diagnostic``, results by entity with a ``test_summary``; ``metadata`` and
``entity_groups`` beside the root. Every device's result is kept; no form is read by its first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.model import (
    DiagEntity,
    DiagMessage,
    DiagReport,
    DiagResult,
    DiagStatus,
    status_of,
)

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")


def diag_report(document: object) -> DiagReport:
    """A report from a JSON document.

    Raises NotUnderstoodError when a part is not of the known shapes.
    """
    top = _mapping(document, "the document")
    root = next((top[name] for name in ROOTS if name in top), None)
    runtime_error = _text(top.get("runtime_error", ""))
    if root is None and not runtime_error:
        known = "' or '".join(ROOTS)
        raise NotUnderstoodError(
            f"The document has neither '{known}' but {sorted(map(str, top))[:5]}."
        )
    body = _mapping(root or {}, "the diagnostic")
    runtime_error = runtime_error or _text(body.get("runtime_error", ""))
    iterations = body.get("iterations")
    results: list[DiagResult] = []
    if iterations is not None:
        for number, one in enumerate(_list(iterations, "iterations"), 1):
            inner = _mapping(one, f"iteration {number}")
            runtime_error = runtime_error or _text(inner.get("runtime_error", ""))
            results.extend(_results(inner, number))
    else:
        results.extend(_results(body, None))
    if not results and not runtime_error and "test_categories" not in body and not iterations:
        raise NotUnderstoodError("The diagnostic has neither 'test_categories' nor an error.")
    meta = _mapping(top.get("metadata", {}), "metadata")
    return DiagReport(
        form="json",
        results=tuple(results),
        dcgm_version=_text(meta.get("version", body.get("version", ""))),
        driver_version=_text(
            meta.get("Driver Version Detected", body.get("Driver Version Detected", ""))
        ),
        device_ids=_device_ids(meta, body),
        entities=_entities(top.get("entity_groups", [])),
        runtime_error=runtime_error,
    )


def _device_ids(meta: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[str, ...]:
    found = meta.get("GPU Device IDs", body.get("GPU Device IDs", []))
    return tuple(map(_text, found)) if isinstance(found, list) else ()


def _entities(groups: object) -> tuple[DiagEntity, ...]:
    found = []
    for group in _list(groups, "entity_groups"):
        group = _mapping(group, "an entity group")  # noqa: PLW2901 - the same thing, checked
        for entity in _list(group.get("entities", []), "entities"):
            entity = _mapping(entity, "an entity")  # noqa: PLW2901 - the same thing, checked
            found.append(
                DiagEntity(
                    group=_text(group.get("entity_group", "")),
                    entity_id=_integer(entity.get("entity_id")),
                    device_id=_text(entity.get("device_id", "")),
                    serial=_text(entity.get("serial_num", "")),
                )
            )
    return tuple(found)


def _results(body: Mapping[str, Any], iteration: int | None) -> Iterator[DiagResult]:
    for raw_category in _list(body.get("test_categories", []), "test_categories"):
        category = _mapping(raw_category, "a test category")
        name = _text(category.get("category", ""))
        for raw_test in _list(category.get("tests", []), f"the tests of '{name}'"):
            yield from _test(_mapping(raw_test, f"a test of '{name}'"), name, iteration)


def _test(test: Mapping[str, Any], category: str, iteration: int | None) -> Iterator[DiagResult]:
    name = _text(test.get("name", ""))
    results = _list(test.get("results", []), f"the results of '{name}'")
    summary = test.get("test_summary")
    for raw in results:
        result = _mapping(raw, f"a result of '{name}'")
        for group, entity in _of_whom(result):
            yield _result(result, name, category, (group, entity), iteration=iteration)
    if summary is not None:
        yield _result(
            _mapping(summary, f"the summary of '{name}'"),
            name,
            category,
            ("", None),
            iteration=iteration,
            summary=bool(results),
        )
    elif not results:
        yield DiagResult(name, DiagStatus.UNKNOWN, category, iteration=iteration)


def _of_whom(result: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    if "entity_id" in result:
        return [(_text(result.get("entity_group", "")), _integer(result["entity_id"]))]
    listed = result.get("gpu_ids", result.get("gpu_id"))
    if listed is None:
        return [("", None)]
    numbers = [int(word[:9]) for word in re.findall(r"[0-9]+", _text(listed)[:100_000])]
    return [("GPU", number) for number in numbers] or [("GPU", None)]


def _result(
    result: Mapping[str, Any],
    test: str,
    category: str,
    whom: tuple[str, int | None],
    *,
    iteration: int | None,
    summary: bool = False,
) -> DiagResult:
    word = _text(result.get("status", ""))
    return DiagResult(
        test=test,
        status=status_of(word),
        category=category,
        entity_group=whom[0],
        entity_id=whom[1],
        status_text=word,
        messages=tuple(_messages(result.get("warnings", result.get("errors", [])))),
        info=tuple(_infos(result.get("info", []))),
        summary=summary,
        iteration=iteration,
    )


def _messages(warnings: object) -> Iterator[DiagMessage]:
    for warning in warnings if isinstance(warnings, list) else [warnings]:
        if isinstance(warning, dict):
            yield DiagMessage(
                _text(warning.get("warning", warning.get("error", ""))),
                error_id=_integer(warning.get("error_id")),
                error_category=_integer(warning.get("error_category")),
                error_severity=_integer(warning.get("error_severity")),
            )
        elif warning:
            yield DiagMessage(_text(warning))


def _infos(info: object) -> Iterator[str]:
    for one in info if isinstance(info, list) else [info]:
        if one:
            yield _text(one)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"In the diagnostic, {what} was expected to be an object.")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise NotUnderstoodError(f"In the diagnostic, {what} was expected to be a list.")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)[:10_000]


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:18])
    return None
