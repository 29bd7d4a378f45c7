"""What a workflow's aliases may not be: names that its checks look for, which no step would bear any more."""

from __future__ import annotations

from typing import Any

import pytest

from onpath.policy.load import PolicyError, load_data

OK = {"status": {"eq!": "ok"}}
CALLS = {"extract_from": "tool_calls"}


def problems(entry: dict[str, Any], aliases: dict[str, list[str]] | None = None) -> list[str]:
    workflow = {"name": "w", "aliases": aliases or {"verify": ["kyc"]}, **entry}
    try:
        load_data({"workflows": [workflow]})
    except PolicyError as error:
        return [p.pointer.removeprefix("/workflows/0") for p in error.problems]
    return []


@pytest.mark.parametrize(
    "entry",
    [
        {"adherence": {"expected_steps": ["a"], "prohibited_steps": ["kyc"], **CALLS}},
        {"adherence": {"expected_steps": ["kyc"], **CALLS}},
        {"adherence": {"expected_steps": ["verify"], "required_steps": ["kyc"], **CALLS}},
        {"adherence": {"expected_steps": ["KYC"], "normalise": ["casefold"], **CALLS}},
        {"adherence": {"expected_steps": ["check"], "aliases": {"check": ["kyc"]}, **CALLS}},
        {"seq!": ["a", "kyc"]},
        {"seq!": ["a", "tool:kyc"]},
        {"seq!": ["a", {"kyc": OK}]},
        {"seq!": [{"any!": {"min": 0, "not_contains": ["kyc"]}}]},
        {"seq!": [{"any!": {"contains": ["kyc"]}}]},
        {"seq!": ["a", {"parallel!": ["b", "kyc"]}]},
        {"parallel!": ["b", "kyc"]},
        {"parallel!": ["b", {"seq!": ["c", "kyc"]}]},
        {"kyc": OK},
        {"plan!": {"id": "p", "steps": [{"step": "a", "tool": "kyc"}]}},
        {"seq!": ["a"], "checks": [{"name": "b", "seq!": ["kyc"]}]},
    ],
    ids=lambda entry: str(entry)[:70],
)  # fmt: skip
def test_no_check_asks_for_an_alias(entry: dict[str, Any]) -> None:
    assert problems(entry) == ["/aliases/verify/0"]


@pytest.mark.parametrize(
    "entry",
    [
        {"adherence": {"expected_steps": ["verify"], **CALLS}},
        {"adherence": {"expected_steps": ["verify"], "aliases": {"verify": ["kyc"]}, **CALLS}},
        {"adherence": {"expected_steps": ["check"], "aliases": {"check": ["kyc", "verify"]}, **CALLS}},
        {"adherence": {"expected_steps": ["KYC"], **CALLS}},
        {"adherence": {"expected_steps": ["kyc"]}},  # read from the words of an output, which aliases leave alone
        {"seq!": ["a", "verify"]},
        {"seq!": ["llm:kyc"]},  # a model
        {"seq!": ["team/kyc"]},
        {"output": {"contains!": "kyc"}},
    ],
    ids=lambda entry: str(entry)[:70],
)  # fmt: skip
def test_what_a_check_means_by_the_right_name_stays(entry: dict[str, Any]) -> None:
    assert problems(entry) == []


def test_a_spelling_that_is_equal_to_the_configured_name_may_be_its_alias() -> None:
    check = {"expected_steps": ["verify"], "normalise": ["casefold"], **CALLS}
    assert problems({"adherence": check}, {"verify": ["Verify"]}) == []


def test_the_message_says_which_check_asks_for_what() -> None:
    def told(entry: dict[str, Any]) -> str:
        with pytest.raises(PolicyError) as caught:
            load_data({"aliases": {"verify": ["kyc"]}, **entry})
        return caught.value.problems[0].message

    assert told({"seq!": ["kyc"], "kyc": OK}) == "`kyc` can't be an alias of `verify`: `seq!` asks for `kyc`"
    check = {"expected_steps": ["check"], "aliases": {"check": ["kyc"]}, **CALLS}
    said = "`kyc` can't be an alias of `verify`: for `adherence` it stands for `check`"
    assert told({"adherence": check}) == said


def test_an_agent_before_an_alias_is_warned_of() -> None:
    policy = load_data({"aliases": {"verify": ["kyc"]}, "seq!": ["team/kyc", "llm:team/kyc"]})
    assert [(w.pointer, w.message) for w in policy.warnings] == [
        ("/aliases/verify/0", "`kyc` is `verify` to every check, so `team/kyc` is that step of no agent")
    ]


@pytest.mark.parametrize(
    ("key", "meant"), [("matches", "match"), ("inputs", "input"), ("out_put", "output"), ("adherance", "adherence")]
)
def test_a_key_that_is_like_a_setting_is_warned_of(key: str, meant: str) -> None:
    policy = load_data({"seq!": ["a"], key: {"input": {"contains!": "x"}}})
    said = f"this key is taken for the name of a step, as no setting has it; did you mean `{meant}`?"
    assert [(w.pointer, w.message) for w in policy.warnings] == [(f"/{key}", said)]
    assert load_data({"seq!": ["a"], "fetch_user": {"input": {"contains!": "x"}}}).warnings == ()
