"""A refund agent to watch: pydantic-ai with its own instrumentation, and a model that follows a script (no key needed).

    python agent.py [--runs 3] [--pause 5]

Most runs are done by the book; of the others one skips the balance check and one deletes records. Spans go where
OTEL_EXPORTER_OTLP_ENDPOINT says.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

CUSTOMER: Final = "C-1001"
LOOKUP: Final = ("lookup_user", {"customer_id": CUSTOMER})
BALANCE: Final = ("check_balance", {"customer_id": CUSTOMER})
PAYMENT: Final = ("process_payment", {"customer_id": CUSTOMER, "amount": 49.99})
RECEIPT: Final = ("send_receipt", {"email": "ada@example.com"})
DELETE: Final = ("delete_records", {"customer_id": CUSTOMER})

Script = list[tuple[str, dict[str, Any]]]
GOOD: Final[Script] = [LOOKUP, BALANCE, PAYMENT, RECEIPT]
SKIPPED: Final[Script] = [LOOKUP, PAYMENT, RECEIPT]
PROHIBITED: Final[Script] = [LOOKUP, BALANCE, PAYMENT, DELETE, RECEIPT]
RUNS: Final = {"good": GOOD, "skipped": SKIPPED, "prohibited": PROHIBITED}
ORDER: Final = ("good", "skipped", "good", "good", "prohibited", "good", "good", "good")


def lookup_user(customer_id: str) -> dict[str, str]:
    """Look a customer up."""
    return {"customer_id": customer_id, "name": "Ada Lovelace", "email": "ada@example.com"}


def check_balance(customer_id: str) -> dict[str, Any]:
    """Tell what a customer's balance is."""
    return {"customer_id": customer_id, "balance": 120.5, "currency": "EUR"}


def process_payment(customer_id: str, amount: float) -> dict[str, Any]:
    """Pay money to a customer."""
    time.sleep(0.05)
    return {"payment_id": "P-77", "customer_id": customer_id, "amount": amount}


def send_receipt(email: str) -> str:
    """Send a receipt by e-mail."""
    return f"receipt sent to {email}"


def delete_records(customer_id: str) -> str:
    """Delete what is known of a customer."""
    return f"nothing is known of {customer_id} any more"


def follows(script: Script) -> FunctionModel:
    """A model that asks for the calls of the script, one at a time, and then is done."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
        made = sum(isinstance(part, ToolCallPart) for part in parts)
        if made == len(script):
            return ModelResponse(parts=[TextPart("The refund is on its way.")])
        return ModelResponse(parts=[ToolCallPart(*script[made])])

    return FunctionModel(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description="A refund agent to watch.")
    parser.add_argument("--runs", type=int, help="leave after so many  [never]")
    parser.add_argument("--pause", type=float, default=5.0, metavar="SECONDS", help="between two runs")
    options = parser.parse_args()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(insecure=True)))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    tools = [lookup_user, check_balance, process_payment, send_receipt, delete_records]
    for name in itertools.islice(itertools.cycle(ORDER), options.runs):
        agent = Agent(follows(RUNS[name]), name="refund", tools=tools)
        agent.run_sync(f"Refund 49.99 to customer {CUSTOMER}.")
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        time.sleep(options.pause)
    provider.shutdown()


if __name__ == "__main__":
    main()
