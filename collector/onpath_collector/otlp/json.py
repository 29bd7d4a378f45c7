"""OTLP/JSON requests -> the protobuf requests that they stand for.

    text -> its lists, item by item, down to the records -> a record as Python values -> its message -> the request

The rules are OTLP's own, not protobuf's JSON mapping: ids are hex in either case, enums are integers, names are
lowerCamelCase alone, unknown fields are ignored; 64-bit integers are decimal strings (numbers are accepted), bytes are
base64, null is a field that is not there. The messages' own descriptors say which fields there are and of which type.
Source: OpenTelemetry protocol specification, "JSON Protobuf Encoding".

Python values take ten times the memory of their text, and parsing lets no other thread run: so one record is parsed at
a time, never the whole request.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, NoReturn, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.otlp.wire import DecodeError

_REQUESTS: Final[Mapping[str, Any]] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}
_RECORDS: Final = {"spans": "spans", "metrics": "metrics", "logRecords": "log_records"}
_GROUPS: Final = {
    f"{level}{signal}": f"{level}_{signal.lower()}"
    for level in ("resource", "scope")
    for signal in ("Spans", "Metrics", "Logs")
}
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})  # the bytes that are hex
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_OBJECT: Final = 232  # bytes of a dict with a few entries, as CPython makes them
_ITEM: Final = 64  # of a value and its place in a list or dict, its text not counted

_Put: TypeAlias = Callable[[Any, Any], None]
"""Puts a JSON value into its field of a message. Raises _Wrong."""


class _Wrong(Exception):
    """A value that its field can't take. `path` grows on the way out, the innermost part first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []


def most_memory(body: bytes) -> int:
    """Bytes that the values of a body take at most: those of one that is a single record."""
    return len(body) * 2 + body.count(b"{") * _OBJECT + (body.count(b",") + body.count(b"[")) * _ITEM


def from_json(signal: Literal["traces", "metrics", "logs"], body: bytes) -> bytes:
    """The serialised Export...ServiceRequest of a JSON body. Raises DecodeError with the path of the first bad value.

    Ids of any length are passed on: which spans are sound is `split`'s to say.
    """
    request = _REQUESTS[signal]()
    try:
        _Text(body.decode("utf-8-sig")).read(request)
        serialised: bytes = request.SerializeToString()
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8 text at byte {error.start}") from None
    except _Wrong as wrong:
        path = "".join(reversed(wrong.path)).removeprefix(".")
        raise DecodeError(f"{path[:300] or 'the body'}: {wrong}") from None
    except RecursionError:
        raise DecodeError("JSON nested too deep") from None
    except ValueError as error:
        raise DecodeError(f"not JSON: {error}") from None
    return serialised


class _Text:
    """JSON text and how far it is read: the outer lists by hand, each record by the library."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode

    def read(self, request: Any) -> None:
        self._object(request)
        if self._next():
            self._fault("something after the request")

    def _object(self, message: Any) -> None:
        if self._next() != "{":
            _refuse("an object", self._value())
        fields = _fields(message.DESCRIPTOR)
        more = self._enter("}")
        while more:
            if self._next() != '"':
                self._fault("expected a name in quotes")
            name = self._value()
            self._take(":")
            try:
                self._member(message, name, fields.get(name))
            except _Wrong as wrong:
                wrong.path.append("." + name)
                raise
            more = self._goes_on("}")

    def _member(self, message: Any, name: str, put: _Put | None) -> None:
        if put is not None and self._next() == "[":
            if name in _GROUPS:
                return self._list(getattr(message, _GROUPS[name]), self._object)
            if name in _RECORDS:
                return self._list(getattr(message, _RECORDS[name]), self._record)
        value = self._value()
        if put is not None and value is not None:
            put(message, value)

    def _list(self, container: Any, read: Callable[[Any], None]) -> None:
        number = 0
        more = self._enter("]")
        while more:
            try:
                read(container.add())
            except _Wrong as wrong:
                wrong.path.append(f"[{number}]")
                raise
            number += 1
            more = self._goes_on("]")

    def _record(self, message: Any) -> None:
        _fill(message, self._value())

    def _enter(self, closing: str) -> bool:
        """Past an opening bracket; whether there is anything before the closing one, which else is passed too."""
        self._at += 1
        found = self._next() == closing
        self._at += found
        return not found

    def _goes_on(self, closing: str) -> bool:
        """Past a comma, or past the closing bracket."""
        if self._next() == ",":
            self._at += 1
            return True
        self._take(closing)
        return False

    def _next(self) -> str:
        """The next character that is not white space; nothing at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        if self._next() != character:
            self._fault(f"expected {character}")
        self._at += 1

    def _value(self) -> Any:
        self._next()
        value, self._at = self._decode(self._text, self._at)
        return value

    def _fault(self, problem: str) -> NoReturn:
        raise json.JSONDecodeError(problem, self._text, self._at)


def _fill(message: Any, value: Any) -> None:
    """Sets the fields of a message that a JSON object names."""
    if type(value) is not dict:
        _refuse("an object", value)
    fields = _fields(message.DESCRIPTOR)
    for name, held in value.items():
        put = fields.get(name)
        if put is None or held is None:
            continue
        try:
            put(message, held)
        except _Wrong as wrong:
            wrong.path.append("." + name)
            raise


@cache
def _fields(descriptor: Descriptor) -> Mapping[str, _Put]:
    return {field.json_name: _put(field) for field in descriptor.fields}


def _put(field: FieldDescriptor) -> _Put:
    if field.message_type is not None:
        return _messages(field.name) if field.is_repeated else _message(field.name)
    read = _reader(field)
    return _scalars(field.name, read) if field.is_repeated else _scalar(field.name, read)


def _message(name: str) -> _Put:
    def put(message: Any, value: Any) -> None:
        inner = getattr(message, name)
        inner.SetInParent()  # an empty array or list of pairs is a value too
        _fill(inner, value)

    return put


def _messages(name: str) -> _Put:
    def put(message: Any, value: Any) -> None:
        add = getattr(message, name).add
        for number, item in enumerate(_list(value)):
            try:
                _fill(add(), item)
            except _Wrong as wrong:
                wrong.path.append(f"[{number}]")
                raise

    return put


def _scalar(name: str, read: Callable[[Any], Any]) -> _Put:
    def put(message: Any, value: Any) -> None:
        try:
            setattr(message, name, read(value))
        except ValueError:
            raise _Wrong("a number out of range") from None

    return put


def _scalars(name: str, read: Callable[[Any], Any]) -> _Put:
    def put(message: Any, value: Any) -> None:
        try:
            getattr(message, name).extend([read(item) for item in _list(value)])
        except ValueError:
            raise _Wrong("a number out of range") from None

    return put


def _reader(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _hex if field.name in _IDS else _base64
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum
    return _READERS[field.cpp_type]


def _text(value: Any) -> str:
    """Half of a surrogate pair, which JavaScript leaves where it cuts a text, becomes U+FFFD."""
    if not isinstance(value, str):
        _refuse("text", value)
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return int(value)
    _refuse("an integer or a decimal string", value)


def _enum(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    _refuse("an enum's integer", value)


def _double(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _Wrong("a number out of range") from None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    _refuse("a number", value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    _refuse("true or false", value)


def _hex(value: Any) -> bytes:
    try:
        return binascii.unhexlify(value)
    except (ValueError, TypeError):
        raise _Wrong("expected an id of hex digits") from None


def _base64(value: Any) -> bytes:
    text = _text(value).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise _Wrong("expected base64") from None


_READERS: Final[Mapping[int, Callable[[Any], Any]]] = {
    FieldDescriptor.CPPTYPE_STRING: _text,
    FieldDescriptor.CPPTYPE_INT32: _int,
    FieldDescriptor.CPPTYPE_INT64: _int,
    FieldDescriptor.CPPTYPE_UINT32: _int,
    FieldDescriptor.CPPTYPE_UINT64: _int,
    FieldDescriptor.CPPTYPE_DOUBLE: _double,
    FieldDescriptor.CPPTYPE_FLOAT: _double,
    FieldDescriptor.CPPTYPE_BOOL: _bool,
}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        _refuse("a list", value)
    return value


def _refuse(expected: str, value: Any) -> NoReturn:
    raise _Wrong(f"expected {expected}, got {_kind(value)}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names[type(value)]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
