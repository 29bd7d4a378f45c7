"""Spellings, models, dated snapshots and sums of usage."""

from __future__ import annotations

import pytest

from onpath.usage import SPELLINGS, amount, canonical, totals


@pytest.mark.parametrize("group", SPELLINGS)
def test_every_spelling_is_one_metric(group: tuple[str, ...]) -> None:
    assert {canonical(name) for name in group} == {group[0]}
    assert {amount({f"m:{written}": 7}, asked) for written in group for asked in group} == {7}


def test_canonical_keeps_what_has_one_spelling() -> None:
    assert canonical("total_tokens") == "total_tokens"
    assert canonical("web_searches") == "web_searches"
    assert canonical("prompt_tokens_long_context") == "input_tokens_long_context"


def test_a_model_counts_once_by_the_first_spelling_that_holds_a_number() -> None:
    assert amount({"m:prompt_tokens": 9, "m:input_tokens": 10}, "input_tokens") == 10
    assert amount({"m:prompt_tokens": 9, "m:input_tokens": "10"}, "input_tokens") == 9
    assert amount({"m:prompt_tokens": 9, "n:input_tokens": 10, "input_text_tokens": 1}, "input_tokens") == 20


def test_the_last_colon_divides_and_a_number_without_a_model_counts_for_no_model() -> None:
    usage = {"ollama/llama3:8b:input_tokens": 3, "input_tokens": 4}
    assert amount(usage, "ollama/llama3:8b:prompt_tokens") == 3
    assert amount(usage, "ollama/llama3:input_tokens") is None
    assert amount(usage, "input_tokens") == 7


@pytest.mark.parametrize(
    ("recorded", "counts"),
    [
        ("m", True),
        ("m-20251001", True),
        ("m-2025-10-01", True),
        ("m-2025-1001", False),
        ("m-20251301", False),
        ("m-mini", False),
        ("m-20251001-x", False),
        ("m2", False),
    ],
)
def test_a_dated_snapshot_is_its_model(recorded: str, counts: bool) -> None:
    assert (amount({f"{recorded}:input_tokens": 1}, "m:input_tokens") is not None) is counts


def test_long_context_is_a_part_that_is_added() -> None:
    usage = {"m:input_tokens": 10, "m:prompt_tokens_long_context": 5}
    assert amount(usage, "prompt_tokens") == 15
    assert amount(usage, "input_tokens_long_context") == 5
    assert totals(usage) == {"input_tokens": 15}


def test_the_total_is_the_recorded_one_else_both_halves() -> None:
    assert amount({"m:total_tokens": 20, "m:input_tokens": 10, "m:output_tokens": 4}, "total_tokens") == 20
    assert amount({"m:prompt_tokens": 10, "m:completion_tokens": 4}, "total_tokens") == 14
    assert amount({"m:input_tokens": 10}, "total_tokens") is None
    assert amount({"m:total_tokens": 20, "n:input_tokens": 1, "n:output_tokens": 2}, "total_tokens") == 23


@pytest.mark.parametrize("value", [True, "10", None, -1, float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_not_there(value: object) -> None:
    assert amount({"m:input_tokens": value}, "input_tokens") is None
    assert totals({"m:input_tokens": value}) == {}


def test_totals_are_summed_over_models_under_canonical_names() -> None:
    usage = {"a:prompt_tokens": 1, "b:input_tokens": 2, "b:completion_tokens": 3, "cached_tokens": 4, "web_searches": 1}
    assert totals(usage) == {
        "input_tokens": 3,
        "output_tokens": 3,
        "cache_read_input_tokens": 4,
        "web_searches": 1,
        "total_tokens": 5,
    }
