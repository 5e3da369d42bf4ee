"""Prices and context windows of models."""

from __future__ import annotations

import pytest

from jupyter_agent.models.facts import FactBook, Facts, Price


def test_what_is_configured_comes_before_what_is_known() -> None:
    book = FactBook({"anthropic:claude-*": {"window": 1_000_000}, "*": {"window": 8_000}})
    assert book.of("anthropic:claude-sonnet-5-5").window == 1_000_000
    assert book.of("anthropic:other").window == 8_000


def test_what_nobody_says_is_unknown() -> None:
    assert FactBook().of("lab:llama") == Facts()
    assert FactBook().of("anthropic:claude-sonnet-5-5").price is None


def test_each_fact_comes_from_the_first_that_says_it() -> None:
    book = FactBook({"lab:big": {"window": 9}, "lab:*": {"price": {"input": 1, "output": 2}}})
    assert book.of("lab:big") == Facts(window=9, price=Price(input=1, output=2))


def test_cached_tokens_cost_as_others_unless_a_price_is_given() -> None:
    same, cheaper = Price(input=2, output=8), Price(input=2, output=8, cache_read=0.5)
    used = {"input": 1_000_000, "output": 0, "cache_read": 1_000_000, "cache_write": 0}
    assert same.of(**used) == 4
    assert cheaper.of(**used) == 2.5


@pytest.mark.parametrize(
    "facts", [{"price": {"input": -1, "output": 1}}, {"window": 0}, {"windows": 5}]
)
def test_facts_that_do_not_fit_are_refused_with_the_field(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"(?s)model_facts: .*(price.input|window)"):
        FactBook({"lab:big": facts})  # type: ignore[dict-item]
