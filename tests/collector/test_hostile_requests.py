"""What an attacker may send to the HTTP port, and the right answer to each: smuggled requests, odd numbers, deep JSON.

The server goes on after each of them, and takes what is sound only.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.support.consumers import KeepingConsumer
from tests.support.http_peers import JSON, PROTOBUF, raw_connection
from tests.support.requests import traces

BODY = traces(1)
TYPE = f"Content-Type: {PROTOBUF}"
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
RAW_DEFLATE = zlib.compress(BODY, wbits=-15)


def http(*fields: str, body: bytes = BODY, line: str = "POST /v1/traces HTTP/1.1") -> bytes:
    return "\r\n".join([line, "Host: a", *fields, "", ""]).encode("latin-1") + body


def coded(coding: str, body: bytes) -> bytes:
    return http(TYPE, f"Content-Encoding: {coding}", f"Content-Length: {len(body)}", body=body)


FRAMING = {
    "a length and chunks": (400, http(TYPE, LENGTH, CHUNKED, body=CHUNKS)),
    "chunks and a length": (400, http(TYPE, CHUNKED, LENGTH, body=CHUNKS)),
    "two lengths": (400, http(TYPE, LENGTH, "Content-Length: 5")),
    "the same length twice": (400, http(TYPE, LENGTH, LENGTH)),
    "a list of lengths": (400, http(TYPE, f"{LENGTH}, {len(BODY)}")),
    "a length with a sign": (400, http(TYPE, f"Content-Length: +{len(BODY)}")),
    "a hexadecimal length": (400, http(TYPE, "Content-Length: 0x10")),
    "a negative length": (400, http(TYPE, "Content-Length: -1")),
    "no length": (400, http(TYPE, "Content-Length:")),
    "a length over 64 bits": (400, http(TYPE, "Content-Length: 18446744073709551616")),
    "a length of 63 bits": (413, http(TYPE, "Content-Length: 9223372036854775807")),
    "an unknown transfer coding": (400, http(TYPE, "Transfer-Encoding: xchunked", body=CHUNKS)),
    "chunks and then another": (400, http(TYPE, "Transfer-Encoding: chunked, identity", body=CHUNKS)),
    "identity": (400, http(TYPE, "Transfer-Encoding: identity")),
    "chunked twice": (400, http(TYPE, CHUNKED, CHUNKED, body=CHUNKS)),
    "a space before the colon": (400, http(TYPE, "Transfer-Encoding : chunked", body=CHUNKS)),
    "a vertical tab": (400, http(TYPE, "Transfer-Encoding:\x0bchunked", body=CHUNKS)),
    "a chunk's size with 0x": (400, http(TYPE, CHUNKED, body=b"0x" + CHUNKS)),
    "a chunk's size with a sign": (400, http(TYPE, CHUNKED, body=b"-5\r\nhello\r\n0\r\n\r\n")),
    "a chunk's size with a space": (400, http(TYPE, CHUNKED, body=CHUNKS.replace(b"\r\n", b" \r\n", 1))),
    "a chunk without its end": (400, http(TYPE, CHUNKED, body=CHUNKS.replace(b"\r\n0\r\n", b"0\r\n"))),
    "chunks by line feeds": (400, http(TYPE, CHUNKED, body=CHUNKS.replace(b"\r\n", b"\n"))),
    "a length in a trailer": (400, http(TYPE, CHUNKED, body=CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n")),
    "a chunk's extension": (200, http(TYPE, CHUNKED, body=CHUNKS.replace(b"\r\n", b";a=b\r\n", 1))),
    "lines by line feeds": (400, http(TYPE, LENGTH).replace(b"\r\n", b"\n")),
    "a folded line": (400, http(TYPE, "X: a\r\n b", LENGTH)),
    "a zero byte": (400, http(TYPE, "X: a\0b", LENGTH)),
    "a bare carriage return": (400, http(TYPE, "X: a\rContent-Length: 0", LENGTH)),
    "the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
    "a version to come": (400, http(TYPE, LENGTH, line="POST /v1/traces HTTP/3.0")),
    "a tunnel": (400, http(line="CONNECT a:1 HTTP/1.1", body=b"")),
    "a greeting of TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100),
    "all bytes there are": (400, bytes(range(256))),
    "no type": (415, http(LENGTH)),
    "two types": (415, http(TYPE, "Content-Type: text/plain", LENGTH)),
    "two members of gzip": (400, coded("gzip", gzip.compress(BODY) + gzip.compress(b""))),
    "bytes behind gzip": (400, coded("gzip", gzip.compress(BODY) + b"x")),
    "gzip of nothing": (200, coded("gzip", gzip.compress(b""))),
    "nothing as gzip": (400, coded("gzip", b"")),
    "deflate without its header": (400, coded("deflate", RAW_DEFLATE)),
    "gzip twice, said once": (400, coded("gzip", gzip.compress(gzip.compress(BODY)))),
    "an empty body": (200, http(TYPE, "Content-Length: 0", body=b"")),
    "no body": (200, http(TYPE, body=b"")),
}


def span(fields: str) -> str:
    ids = f'"traceId":"{"ab" * 16}","spanId":"{"cd" * 8}"'
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{ids},{fields}}}]}}]}}]}}'


def value(of: str) -> str:
    return span(f'"attributes":[{{"key":"k","value":{of}}}]')


LIST = '{"arrayValue":{"values":['
CONTENT = {
    "lists 10,000 deep, open": (400, value(LIST * 10_000)),
    "lists 10,000 deep": (400, value(LIST * 10_000 + "]}}" * 10_000)),
    "lists deeper than protobuf reads": (400, value(LIST * 200 + "{}" + "]}}" * 200)),
    "lists 40 deep": (200, value(LIST * 40 + "{}" + "]}}" * 40)),
    "unknown lists 100,000 deep": (400, '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "resources 5,000 deep": (400, '{"resourceSpans":[' * 5000),
    "a name twice": (200, span('"name":"a","name":"b"')),
    "NaN": (400, value('{"doubleValue":NaN}')),
    "Infinity": (400, value('{"doubleValue":-Infinity}')),
    "NaN in quotes": (200, value('{"doubleValue":"NaN"}')),
    "a number beyond doubles": (200, value('{"doubleValue":1e400}')),
    "an integer beyond doubles": (400, value('{"intValue":1e400}')),
    "an integer of 5,000 digits": (400, value('{"intValue":' + "9" * 5000 + "}")),
    "an integer of 64 bits and a sign": (400, value('{"intValue":"9223372036854775808"}')),
    "half an integer": (400, value('{"intValue":1.5}')),
    "a time before all": (400, span('"startTimeUnixNano":"-1"')),
    "a time beyond 64 bits": (400, span('"startTimeUnixNano":"18446744073709551616"')),
    "the last time": (200, span('"startTimeUnixNano":"18446744073709551615","endTimeUnixNano":0')),
    "half of a surrogate pair": (200, span('"name":"\\ud800"')),
    "an escaped zero": (200, span('"name":"\\u0000"')),
    "a control character": (400, span('"name":"\x01"')),
    "a kind by name": (400, span('"kind":"SPAN_KIND_SERVER"')),
    "a kind beyond 32 bits": (400, span('"kind":99999999999')),
    "negative flags": (400, span('"flags":-1')),
    "true for an id": (400, span('"parentSpanId":true')),
    "an id of no ASCII": (400, span('"parentSpanId":"é"')),
    "an odd id": (400, span('"parentSpanId":"abc"')),
    "something behind": (400, "{}{}"),
    "nothing": (400, ""),
    "a comment": (400, "/**/{}"),
}


@pytest.fixture
async def consumer() -> KeepingConsumer:
    return KeepingConsumer()


async def answered(consumer: KeepingConsumer, request: bytes) -> int:
    """The status; and a sound request is taken afterwards."""
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer)
    address = await receiver.start()
    async with raw_connection(address) as connection:
        await connection.send(request)
        head = await connection.until(b"\r\n\r\n")
    before = len(consumer.kept)
    async with raw_connection(address) as connection:
        await connection.send(http(TYPE, LENGTH))
        assert (await connection.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert len(consumer.kept) == before + 1
    await asyncio.wait_for(receiver.stop(), 10)
    return int(head.split(b" ", 2)[1])


@pytest.mark.parametrize("name", FRAMING)
async def test_framing(name: str, consumer: KeepingConsumer) -> None:
    status, request = FRAMING[name]
    assert await answered(consumer, request) == status
    assert len(consumer.kept) == 1 + (status == 200)


@pytest.mark.parametrize("name", CONTENT)
async def test_content(name: str, consumer: KeepingConsumer) -> None:
    status, text = CONTENT[name]
    body = text.encode()
    request = http(f"Content-Type: {JSON}", f"Content-Length: {len(body)}", body=body)
    assert await answered(consumer, request) == status
    assert len(consumer.kept) == 1 + (status == 200)
