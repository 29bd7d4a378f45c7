"""What is set for Kafka: told with its place when it is wrong, and at the start what librdkafka does not know."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from onpath_collector.config import ConfigError, load_settings, shown
from onpath_collector.kafka import EXTRA, OnceLog
from onpath_collector.serving import StartError, serve
from tests.support.service import ANY_PORTS

BROKERS = ["127.0.0.1:9092"]


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "onpath.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as found:
        load_settings(path, {})
    return [problem.removeprefix(str(tmp_path)) for problem in found.value.problems]


@pytest.mark.parametrize(
    ("kafka", "told"),
    [
        ("{topics: [a]}", "/onpath.yaml:2: /receivers/kafka: brokers are needed: HOST:PORT of one or more of them"),
        ("{brokers: [a]}", "/onpath.yaml:2: /receivers/kafka/brokers/0: expected HOST:PORT"),
        ("{brokers: ['a:1'], topics: []}", "/onpath.yaml:2: /receivers/kafka/topics: List should have at least 1 item"),
        ("{brokers: ['a:1'], encoding: jaeger_proto}", "/onpath.yaml:2: /receivers/kafka/encoding: Input should be"),
        ("{brokers: ['a:1'], option: {}}", "/onpath.yaml:2: /receivers/kafka/option: unknown setting; did you mean o"),
        (
            "{brokers: ['a:1'], options: {group.id: g}}",
            "/receivers/kafka/options: group.id can't be set here: group_id",
        ),
        ("{brokers: ['a:1'], options: {enable.auto.commit: true}}", "enable.auto.commit can't be set here"),
        ("{brokers: ['a:1'], options: {a: [1]}}", "/receivers/kafka/options/a: expected a text, a number, true or"),
    ],
)
def test_problems_have_their_place(tmp_path: Path, kafka: str, told: str) -> None:
    (problem,) = problems(tmp_path, f"receivers:\n  kafka: {kafka}\n")
    assert told in problem


def test_a_journal_is_not_for_what_kafka_keeps(tmp_path: Path) -> None:
    text = "receivers: {kafka: {brokers: ['a:1']}}\ndurability: {mode: journal, directory: j}\n"
    (problem,) = problems(tmp_path, text)
    assert problem == (
        "/onpath.yaml:1: receivers.kafka and a journal don't go together: Kafka itself keeps what is not settled"
    )


def test_options_are_texts_and_hidden(tmp_path: Path) -> None:
    options = {"sasl.password": "secret", "socket.keepalive.enable": True, "session.timeout.ms": 6000}
    kafka = {"brokers": BROKERS, "options": options}
    path = tmp_path / "onpath.yaml"
    path.write_text(yaml.safe_dump({"receivers": {"kafka": kafka}, "results": {"kafka": kafka}}), encoding="utf-8")
    settings = load_settings(path, {})
    assert settings.receivers.kafka.options == {
        "sasl.password": "secret",
        "socket.keepalive.enable": "true",
        "session.timeout.ms": "6000",
    }
    found = shown(settings)
    for part in (found["receivers"]["kafka"], found["results"]["kafka"]):
        assert part["options"] == dict.fromkeys(options, "(hidden)")


async def refused(options: dict[str, Any]) -> StartError:
    with pytest.raises(StartError) as found:
        await serve(load_settings(None, {**ANY_PORTS, **options}), None)
    assert found.value.exit_code == 2
    return found.value


RECEIVER = {"receivers": {**ANY_PORTS["receivers"], "kafka": {"brokers": BROKERS, "options": {"sasl.pasword": "x"}}}}  # type: ignore[dict-item]
REPORTS = {"results": {"kafka": {"brokers": BROKERS, "options": {"acks": "some"}}}}


async def test_options_that_librdkafka_does_not_know_are_told_at_the_start() -> None:
    assert str(await refused(RECEIVER)) == 'receivers.kafka.options: No such configuration property: "sasl.pasword"'
    assert str(await refused(REPORTS)).startswith("results.kafka: Invalid value for configuration property")


@pytest.mark.parametrize("options", [RECEIVER, REPORTS], ids=["receiver", "reports"])
async def test_without_the_extra_its_name_is_told(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert str(await refused(options)) == EXTRA


def test_each_kind_of_trouble_that_librdkafka_logs_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told = OnceLog("receivers.kafka")
    form = "%s [%s] %s"
    for port in (1, 2):
        told.log(40, form, "FAIL", "c#1", f"127.0.0.1:{port}: Connection refused (after {port}ms)")
    told.log(40, form, "FAIL", "c#1", "127.0.0.1:1: Authentication failed")
    told.log(40, form, "CONFWARN", "p#1", "group.id is a consumer property")
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "receivers.kafka: FAIL [c#1] 127.0.0.1:1: Connection refused",
        "receivers.kafka: FAIL [c#1] 127.0.0.1:1: Authentication failed; further ones of this kind are not logged",
    ]
