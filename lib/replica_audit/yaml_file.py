"""Strict parsing of a YAML file of settings: one mapping, no duplicate key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from replica_audit.errors import UsageError

#: Most values of a file, with each alias counted at full size; settings have far fewer.
_MOST_VALUES = 10_000


class PlacedMapping(dict[Any, Any]):
    """A mapping that knows the line it begins in."""

    line = 0


class _StrictLoader(yaml.SafeLoader):
    """A loader that rejects duplicate keys, of which PyYAML silently keeps the last.

    It also rejects a few lines of nested aliases that would expand beyond memory.
    """

    def get_single_node(self) -> yaml.Node | None:
        document = super().get_single_node()
        waiting, count = [document], 0
        while waiting:
            node = waiting.pop()
            count += 1
            if count > _MOST_VALUES:
                problem = f"more than {_MOST_VALUES} values, those that aliases stand for included"
                raise yaml.constructor.ConstructorError(None, None, problem, None)
            if isinstance(node, yaml.SequenceNode):
                waiting += node.value
            elif isinstance(node, yaml.MappingNode):
                waiting += [one for pair in node.value for one in pair]
        return document

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is not text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is set twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_yaml_map(self, node: yaml.MappingNode) -> Iterator[PlacedMapping]:
        placed = PlacedMapping()
        placed.line = node.start_mark.line + 1
        yield placed
        placed.update(self.construct_mapping(node))


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _StrictLoader.construct_yaml_map)


def parse_yaml_mapping(path: str, origin: str) -> dict[Any, Any]:
    """The mapping in the file at `path`, {} for an empty file. Raises UsageError naming file and line."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except OSError as error:
        raise UsageError(f"{origin}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start}: expected UTF-8 text") from error
    return parse_yaml_text(text, path)


def parse_yaml_text(text: str, path: str) -> dict[Any, Any]:
    """The mapping in `text`, {} if it is empty. Raises UsageError naming `path` and line."""
    try:
        content = yaml.load(text, _StrictLoader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark is not None else ""
        raise UsageError(f"{path}:{line} {getattr(error, 'problem', None) or 'is not YAML'}") from error
    except RecursionError:
        raise UsageError(f"{path}: lists and settings within each other are nested too deep") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML raises errors of its constructors of numbers and times as they are: `2026-13-01`, `!!bool 5`.
        reason = "a value that its type does not have" + (f": {error}" if isinstance(error, ValueError) else "")
        raise UsageError(f"{path}: {reason}; put text in quotes") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected lines such as 'name: value', found {type(content).__name__}")
    return content
