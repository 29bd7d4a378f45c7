"""Text of a policy file -> plain JSON values, with a line and a column for every JSON Pointer.

YAML is 1.1 as PyYAML reads it, with three differences: timestamps stay text, a key must be text and may stand only once
in a mapping, and what JSON has no value for (sets, binary, Python objects) is refused. Anchors, aliases and merge keys
work; what aliases expand to is bounded, so that a few lines can't become gigabytes. JSON may have lines that begin with
`//`. Data flow: `read_text` -> PyYAML's nodes, or `json` and a walk over the tokens -> Document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from onpath.policy.document import MAX_DEPTH, SURROGATE, Place, Unreadable, refused
from onpath.policy.document import Document as Document
from onpath.policy.json_text import COMMENT_LINE, read_json
from onpath.policy.problems import Problem, pointer

MAX_EXPANDED: Final = 100_000  # values that aliases and merge keys may add to what is written out
MAX_BITS: Final = 10_000  # of a whole number

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"
_RECORDING: Final = re.compile(r'[\s\[]*\{\s*"resource(?:Spans|Logs|Metrics|Profiles)"\s*:')


def read_text(text: str, name: str) -> Document:
    """`name` ends in .json for JSON, .yaml or .yml for YAML; otherwise the text itself tells. Never raises."""
    text = text.removeprefix("\ufeff")
    if _RECORDING.match(text):
        return refused(name, "this is a recording (OTLP/JSON), no policy; see it with `onpath steps`", Place(1, 1))
    ending = name.rpartition(".")[2].lower()
    if ending in ("json", "jsonc"):
        return read_json(text, name)
    if ending not in ("yaml", "yml") and COMMENT_LINE.sub("", text).lstrip()[:1] in ("{", "["):
        document = read_json(text, name)
        if document.usable:
            return document
    return _read_yaml(text, name)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without timestamps and with a bound on nesting."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, form) for tag, form in forms if tag != _TAG + "timestamp"]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise Unreadable(f"nested more than {MAX_DEPTH} deep", _mark(event.start_mark))
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _read_yaml(text: str, name: str) -> Document:
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return Document(name)
            builder = _Builder(loader, name)
            data = builder.value(node, "", 1, ())
        finally:
            loader.dispose()
    except Unreadable as error:
        return refused(name, error.message, error.place, error.at)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return refused(name, f"not YAML: {error.reason}", Place(line, 1))
    except yaml.MarkedYAMLError as error:
        said = ", ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        return refused(name, f"not YAML: {said}", _mark(mark) if mark else None)
    return Document(name, data, builder.places, tuple(builder.problems))


def _mark(mark: yaml.Mark) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _Builder:
    """Makes values of nodes. An alias is its node once more, so a node may be met in several places."""

    def __init__(self, loader: _Loader, name: str) -> None:
        self.loader = loader
        self.name = name
        self.places: dict[str, Place] = {}
        self.problems: list[Problem] = []
        self._met: set[int] = set()
        self._expanded = 0

    def value(self, node: yaml.Node, at: str, depth: int, inside: tuple[int, ...]) -> Any:
        self.places.setdefault(at, _mark(node.start_mark))
        if id(node) in inside:
            raise Unreadable("this alias stands inside what it names", _mark(node.start_mark), at)
        if depth > MAX_DEPTH:
            raise Unreadable(f"nested more than {MAX_DEPTH} deep", _mark(node.start_mark), at)
        self._spend(node, at)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        inside = (*inside, id(node))
        if isinstance(node, yaml.SequenceNode):
            self._expect_tag(node, "seq", at)
            return [self.value(item, at + pointer(i), depth + 1, inside) for i, item in enumerate(node.value)]
        self._expect_tag(node, "map", at)
        assert isinstance(node, yaml.MappingNode)  # there is no fourth kind
        return self._mapping(node, at, depth, inside)

    def _spend(self, node: yaml.Node, at: str) -> None:
        if id(node) not in self._met:
            self._met.add(id(node))
            return
        self._expanded += 1
        if self._expanded > MAX_EXPANDED:
            place = _mark(node.start_mark)
            raise Unreadable(f"aliases expand to more than {MAX_EXPANDED:,} values", place, at)

    def _mapping(self, node: yaml.MappingNode, at: str, depth: int, inside: tuple[int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._key(key_node, at)
            if key is None:
                continue
            below = at + pointer(key)
            if key in found:
                first = self.places[below].line
                self._problem(below, f"this key is given twice in one mapping (first on line {first})", key_node)
                continue
            self.places[below] = _mark(key_node.start_mark)
            found[key] = self.value(value_node, below, depth + 1, inside)
        for key_node, value_node in self._merged(node, at, inside):
            key = self._key(key_node, at)
            if key is not None and key not in found:
                self.places[at + pointer(key)] = _mark(key_node.start_mark)
                found[key] = self.value(value_node, at + pointer(key), depth + 1, inside)
        return found

    def _merged(
        self, node: yaml.MappingNode, at: str, inside: tuple[int, ...]
    ) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """What `<<` brings in, the strongest first: own keys of a source before those that it merges itself."""
        for key_node, value_node in node.value:
            if key_node.tag != _MERGE:
                continue
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in sources:
                if not isinstance(source, yaml.MappingNode):
                    self._problem(at + "/<<", "a merge key takes a mapping or a list of mappings", key_node)
                    continue
                if id(source) in inside or len(inside) > MAX_DEPTH:
                    raise Unreadable("this alias stands inside what it names", _mark(key_node.start_mark), at + "/<<")
                for pair in source.value:
                    self._spend(pair[0], at)
                    if pair[0].tag != _MERGE:
                        yield pair
                yield from self._merged(source, at, (*inside, id(source)))

    def _key(self, node: yaml.Node, at: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problem(at, "a key must be text, not a list or a mapping", node)
            return None
        if node.tag != _TAG + "str" and not (node.tag == _TAG + "value" or node.tag == _MERGE):
            read_as = {"bool": "true or false", "int": "a number", "float": "a number", "null": "null"}
            kind = read_as.get(node.tag.removeprefix(_TAG), f"{node.tag}")
            self._problem(
                at + pointer(node.value), f"a key must be text; YAML reads this as {kind}: put it in quotes", node
            )
            return None
        return self._text(node.value, at + pointer(node.value), node)

    def _scalar(self, node: yaml.ScalarNode, at: str) -> Any:
        kind = node.tag.removeprefix(_TAG)
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return self.loader.construct_yaml_bool(node)
            if kind == "int":
                return _bounded(self.loader.construct_yaml_int(node))
            if kind == "float":
                return self.loader.construct_yaml_float(node)
        except (ValueError, KeyError, OverflowError):
            self._problem(at, f"not a value of type {kind}", node)
            return None
        if kind in ("str", "timestamp", "value", "merge"):
            return self._text(node.value, at, node)
        self._problem(at, f"the tag {node.tag} has no meaning here", node)
        return None

    def _text(self, text: str, at: str, node: yaml.Node) -> str:
        if SURROGATE.search(text):
            self._problem(at, "half of a surrogate pair is no text", node)
        return text

    def _expect_tag(self, node: yaml.Node, kind: str, at: str) -> None:
        if node.tag != _TAG + kind:
            self._problem(at, f"the tag {node.tag} has no meaning here", node)

    def _problem(self, at: str, message: str, node: yaml.Node) -> None:
        place = _mark(node.start_mark)
        self.problems.append(Problem(at, message, file=self.name, line=place.line, column=place.column))


def _bounded(number: int) -> int:
    """Python writes no longer number as decimal text; in hexadecimal one can be written down."""
    if number.bit_length() > MAX_BITS:
        raise OverflowError
    return number
