"""Settings of what speaks to Kafka: the receiver of traces and the exporter of reports, neither without brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from onpath_collector.config_values import Address, Duration, Size, Time

_BROKERS: Final = ("bootstrap.servers", "metadata.broker.list")
_OWN: Final[Mapping[str, str]] = {
    **dict.fromkeys(_BROKERS, "brokers says where they are"),
    "group.id": "group_id names the group",
    "auto.offset.reset": "initial_offset says where to begin",
    "enable.auto.commit": "offsets are committed when what they hold is settled",
    "enable.auto.offset.store": "offsets are committed when what they hold is settled",
    "partition.assignment.strategy": "it is cooperative-sticky",
    "group.protocol": "it is classic",
    "compression.codec": "compression.type is its name",
}


def _option(value: object) -> object:
    """As librdkafka takes them: texts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("expected a text, a number, true or false")
    return value


def _options(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if name in _OWN:
            raise ValueError(f"{name} can't be set here: {_OWN[name]}")
    return value


Options = Annotated[dict[str, Annotated[str, BeforeValidator(_option)]], AfterValidator(_options)]
Topic = Annotated[str, Field(min_length=1, max_length=249)]


class _Kafka(BaseModel):
    """`options` are librdkafka's own: TLS, SASL, time limits. What it does not know it refuses when it starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    brokers: list[Address] = []  # none: no Kafka
    options: Options = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.model_fields_set and "brokers" not in self.model_fields_set:
            raise ValueError("brokers are needed: HOST:PORT of one or more of them")
        return self


class KafkaReceiverSettings(_Kafka):
    topics: Annotated[list[Topic], Field(min_length=1)] = ["otlp_spans"]  # one with ^ before it is an expression
    encoding: Literal["otlp_proto", "otlp_json"] = "otlp_proto"
    group_id: Annotated[str, Field(min_length=1)] = "onpath"
    initial_offset: Literal["earliest", "latest"] = "earliest"  # where the group has committed nothing
    commit_interval: Time = 1.0
    look_back: Duration = 30.0  # what comes so late to a settled trace is known as late also after a handover
    dead_letter_topic: Topic | None = None
    forward: bool = True
    max_request: Size = 64 << 20


class KafkaResultsConfig(_Kafka):
    topic: Topic = "onpath_reports"


def hidden(found: dict[str, Any]) -> None:
    """Takes what may be a secret out of dumped settings."""
    found["options"] = dict.fromkeys(found["options"], "(hidden)")
