"""The refund agent that every program builds: its tools, what its model asks for, and a ledger of what really ran.

A scenario is a list of turns; a turn is the list of tool calls that the model asks for at once, and after the last turn
it answers `DONE`. Programs give the tools to their framework as they are. `Ledger.show` prints what the tools
themselves saw, which is the truth that the tests hold onpath's reading of the spans against. Standard library only:
each program runs in an environment of its own.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PROMPT = "Refund 49.99 to customer C-1001."
DONE = "The refund is on its way."

Call = tuple[str, dict[str, Any]]

LOOKUP: Call = ("lookup_customer", {"customer_id": "C-1001"})
BALANCE: Call = ("check_balance", {"customer_id": "C-1001"})
FRAUD: Call = ("check_fraud", {"customer_id": "C-1001"})
OVERRIDE: Call = ("override_limit", {"customer_id": "C-1001", "limit": 10000})
PAYMENT: Call = ("process_payment", {"customer_id": "C-1001", "amount": 49.99})
RECEIPT: Call = ("send_receipt", {"email": "ada@example.com"})
FILED = "R-5001"  # what file_refund calls the record that it files
FILE: Call = ("file_refund", {"customer_id": "C-1001", "amount": 49.99, "reason": "arrived broken"})
FILED_BEFORE = "R-4000"  # a record of another customer
READ: Call = ("read_refund", {"refund_id": FILED})
READ_ANOTHER: Call = ("read_refund", {"refund_id": FILED_BEFORE})

SCENARIOS: dict[str, list[list[Call]]] = {
    "good": [[LOOKUP], [BALANCE], [PAYMENT], [RECEIPT]],
    "skipped": [[LOOKUP], [PAYMENT], [RECEIPT]],
    "prohibited": [[LOOKUP], [BALANCE], [OVERRIDE], [PAYMENT], [RECEIPT]],
    "parallel": [[LOOKUP], [BALANCE, FRAUD], [PAYMENT], [RECEIPT]],
    "retry": [[LOOKUP], [BALANCE], [BALANCE], [PAYMENT], [RECEIPT]],
    "failed": [[LOOKUP], [BALANCE], [PAYMENT], [RECEIPT]],
}
# A refund is filed and read back by the id that filing it gave.
FILING_SCENARIOS: dict[str, list[list[Call]]] = {
    "filed": [[FILE], [READ]],
    "field_dropped": [[FILE], [READ]],
    "another_read": [[FILE], [READ_ANOTHER]],
    "read_too_early": [[FILE, READ]],
}
SCRIPTS = {**SCENARIOS, **FILING_SCENARIOS}
TOGETHER = ("parallel", "read_too_early")  # two calls of a turn wait for each other
FAILURES = {"retry": 1, "failed": 1}  # how many calls of check_balance fail in a scenario
SECONDS = 0.02  # how long a tool works
PATIENCE = 10  # seconds that a call waits for the other one of its turn


def asked_for(scenario: str, calls_so_far: int) -> list[Call]:
    """What the model asks for after `calls_so_far` calls; nothing when it is done."""
    for turn in SCRIPTS[scenario]:
        if calls_so_far <= 0:
            return turn
        calls_so_far -= len(turn)
    return []


class BankError(Exception):
    """The tool could not do its work."""


class Ledger:
    """Writes down each call of a tool from inside the tool."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def keeps(self, tool: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(tool)
        def kept(*args: Any, **kwargs: Any) -> Any:
            names = tool.__code__.co_varnames
            entry = {"tool": tool.__name__, "args": {**dict(zip(names, args, strict=False)), **kwargs}}
            entry.update(result=None, error=None, start_ns=time.time_ns())
            with self._lock:
                self._calls.append(entry)
            try:
                entry["result"] = tool(*args, **kwargs)
            except BaseException as error:
                entry["error"] = str(error)
                raise
            finally:
                entry["end_ns"] = time.time_ns()
            return entry["result"]

        return kept

    def show(self) -> None:
        print(json.dumps(self._calls), flush=True)


class RefundTools:
    """`error` is what the framework at hand takes for a failure that the model may answer."""

    def __init__(self, scenario: str, error: type[Exception] = BankError) -> None:
        self.ledger = Ledger()
        failures = FAILURES.get(scenario, 0)
        together = threading.Barrier(2 if scenario in TOGETHER else 1)
        records = {FILED_BEFORE: {"customer_id": "C-2002", "amount": 12.0, "reason": "never came"}}

        def work(at_once: bool = False) -> None:
            """With `at_once` it ends only when the other call of the turn runs too, so that both surely overlap."""
            time.sleep(SECONDS)
            if at_once:
                together.wait(PATIENCE)

        def lookup_customer(customer_id: str) -> dict[str, Any]:
            """Look a customer up."""
            work()
            return {"customer_id": customer_id, "name": "Ada Lovelace", "email": "ada@example.com"}

        def check_balance(customer_id: str) -> dict[str, Any]:
            """Tell what a customer's balance is."""
            nonlocal failures
            work(at_once=True)
            if failures > 0:
                failures -= 1
                raise error("the bank does not answer")
            return {"customer_id": customer_id, "balance": 120.5, "currency": "EUR"}

        def check_fraud(customer_id: str) -> dict[str, Any]:
            """Tell how risky a customer is."""
            work(at_once=True)
            return {"customer_id": customer_id, "risk": "low"}

        def override_limit(customer_id: str, limit: int) -> str:
            """Raise a customer's refund limit."""
            work()
            return f"limit of {customer_id} is {limit}"

        def process_payment(customer_id: str, amount: float) -> dict[str, Any]:
            """Pay money to a customer."""
            work()
            return {"payment_id": "P-77", "customer_id": customer_id, "amount": amount, "status": "ok"}

        def send_receipt(email: str) -> str:
            """Send a receipt by e-mail."""
            work()
            return f"receipt sent to {email}"

        def file_refund(customer_id: str, amount: float, reason: str) -> dict[str, Any]:
            """File a refund; tells the id of its record."""
            records[FILED] = {"customer_id": customer_id, "amount": amount, "reason": reason}
            if scenario == "field_dropped":
                del records[FILED]["reason"]
            work(at_once=True)  # once it is filed: who reads at once finds it
            return {"refund_id": FILED, "filed": True}

        def read_refund(refund_id: str) -> dict[str, Any]:
            """Read the record of a refund."""
            work(at_once=True)
            return {"refund_id": refund_id, **records[refund_id]}

        paying = (lookup_customer, check_balance, check_fraud, override_limit, process_payment, send_receipt)
        self.all = [self.ledger.keeps(tool) for tool in (*paying, file_refund, read_refund)]
        self.by_name = {tool.__name__: tool for tool in self.all}


def scenario() -> str:
    """The program's one argument."""
    if len(sys.argv) != 2 or sys.argv[1] not in SCRIPTS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(SCRIPTS)}")
    return sys.argv[1]
