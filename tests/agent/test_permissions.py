"""The table of permissions, row by row, and the rules that override it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_agent.agent.permissions import Act, Grant, Policy, Rule, decide
from jupyter_agent.choices import MODES
from jupyter_agent.tools.base import Action

TABLE: dict[Action, str] = {
    "read": "run run run run",
    "edit": "deny ask run run",
    "delete": "deny ask run run",
    "run": "deny ask ask run",
    "restart": "deny ask ask ask",
    "interrupt": "deny ask ask ask",
    "stop": "deny run run run",
}


def act(action: Action = "edit", *, tool: str = "tool", elsewhere: bool = False) -> Act:
    return Act(tool=tool, action=action, notebook="sub/n.ipynb", elsewhere=elsewhere)


def test_instructions_that_are_written_and_run_by_one_call_need_a_person_too() -> None:
    wanted = Act(tool="create_cells", action="run", notebook="sub/AGENTS.md", writes=True)
    assert (
        decide(wanted, Policy(mode="auto", preapproved_tools=frozenset({"create_cells"}))).verdict
        == "ask"
    )


@pytest.mark.parametrize("action", TABLE)
def test_each_row_of_the_table(action: Action) -> None:
    verdicts = [decide(act(action), Policy(mode=mode)).verdict for mode in MODES]
    assert " ".join(verdicts) == TABLE[action]


def test_the_first_change_in_another_notebook_asks_in_mode_edit() -> None:
    verdicts = [decide(act(elsewhere=True), Policy(mode=mode)).verdict for mode in MODES]
    assert verdicts == ["deny", "ask", "ask", "run"]


def test_reading_another_notebook_never_asks() -> None:
    assert decide(act("read", elsewhere=True), Policy(mode="ask")).verdict == "run"


def test_the_ceiling_limits_the_mode_and_what_allow_can_do() -> None:
    assert decide(act("run"), Policy(mode="auto", max_mode="edit")).verdict == "ask"
    forbidden = decide(
        act("run"), Policy(mode="auto", max_mode="read", preapproved_tools=frozenset({"tool"}))
    )
    assert forbidden.verdict == "deny"
    assert "administrator" in forbidden.reason


def test_deny_rules_win_over_ask_rules_and_these_over_allow_rules() -> None:
    deny = Rule(verdict="deny", tool="delete_*")
    ask = Rule(verdict="ask", notebook="sub/*")
    allow = Rule(verdict="allow")
    edits = Policy(mode="auto", rules=[allow, ask, deny])
    assert decide(act(tool="delete_cell"), edits).verdict == "deny"
    assert decide(act(), edits).verdict == "ask"
    assert decide(act(), Policy(mode="ask", rules=[allow])).verdict == "run"
    asking = Policy(mode="auto", rules=[ask], preapproved_tools=frozenset({"tool"}))
    assert decide(act(), asking).verdict == "ask"
    assert (
        decide(act(), Policy(mode="ask", rules=[Rule(verdict="deny", tool="x")])).verdict == "ask"
    )


def test_a_rule_for_what_is_in_a_folder_holds_for_listing_it() -> None:
    policy = Policy(mode="auto", rules=[Rule(verdict="deny", notebook="exam/*")])
    for folder, verdict in (("exam", "deny"), ("examples", "run")):
        listing = Act(tool="list_files", action="read", notebook=folder)
        assert decide(listing, policy).verdict == verdict


def test_a_grant_is_for_one_tool_one_notebook_and_one_life_of_its_kernel() -> None:
    grant = Grant(tool="run_cell", notebook="n.ipynb", kernel="life")
    granted = Act(tool="run_cell", action="run", notebook="n.ipynb", kernel="life")
    for wanted, verdict in (
        (granted, "run"),
        (replace(granted, kernel="another life"), "ask"),
        (replace(granted, leaves_language=True), "ask"),
        (replace(granted, notebook="other.ipynb"), "ask"),
        (replace(granted, tool="run_all"), "ask"),
        (replace(granted, loads=("https://example.org/x.png",)), "ask"),
    ):
        assert decide(wanted, Policy(mode="ask", standing_grants=[grant])).verdict == verdict, (
            wanted
        )


def test_a_call_that_does_the_work_of_several_tools_needs_each_to_be_allowed() -> None:
    both = replace(act("run"), powers=(("create_cells",), ("run_cell", "run_cells")))
    for allowed, verdict in (
        ({"create_cells"}, "ask"),
        ({"run_cells"}, "ask"),
        ({"create_cells", "run_cells"}, "run"),
    ):
        assert (
            decide(both, Policy(mode="ask", preapproved_tools=frozenset(allowed))).verdict
            == verdict
        )


def test_only_in_mode_auto_may_an_administrator_let_edits_load_from_elsewhere() -> None:
    loading = replace(act(), loads=("https://example.org/x.png",))
    for allowed, expected in ((False, "deny ask ask ask"), (True, "deny ask ask run")):
        policies = [Policy(mode=mode, allow_remote_content=allowed) for mode in MODES]
        verdicts = [decide(loading, policy).verdict for policy in policies]
        assert " ".join(verdicts) == expected


@pytest.mark.parametrize("pattern", ["prod/*", "/prod/*", "./prod/*", "prod/x.ipynb"])
def test_a_rule_folds_case_only_where_the_file_system_does(pattern: str) -> None:
    policy = Policy(mode="auto", rules=[Rule(verdict="deny", notebook=pattern)])
    for name, folds_case, verdict in (
        ("prod/x.ipynb", False, "deny"),
        ("PROD/X.ipynb", True, "deny"),
        ("PROD/X.ipynb", False, "run"),
        ("production/x.ipynb", True, "run"),
    ):
        named = Act(tool="tool", action="edit", notebook=name, folds_case=folds_case)
        assert decide(named, policy).verdict == verdict, name


def test_through_a_link_a_denial_of_either_name_holds_and_an_allowance_of_the_real_one() -> None:
    linked = Act(tool="tool", action="edit", notebook="real/x.ipynb", path="link/x.ipynb")
    for pattern in ("real/*", "link/*"):
        for verdict in ("deny", "ask"):
            rule = Rule(verdict=verdict, notebook=pattern)
            assert decide(linked, Policy(mode="auto", rules=[rule])).verdict == verdict
    for pattern, verdict in (("real/*", "run"), ("link/*", "ask")):
        rule = Rule(verdict="allow", notebook=pattern)
        assert decide(linked, Policy(mode="ask", rules=[rule])).verdict == verdict


def test_what_the_caller_allows_runs_also_where_the_mode_would_refuse() -> None:
    assert decide(act(), Policy(mode="ask", preapproved_tools=frozenset({"tool"}))).verdict == "run"


def test_the_reason_names_the_mode() -> None:
    assert decide(act("run", tool="run_cell"), Policy(mode="read")).reason == (
        "Mode `read` forbids `run_cell`; the user can choose a freer mode."
    )


@pytest.mark.parametrize("path", ["AGENTS.md", "sub/claude.md"])
def test_only_a_person_lets_a_model_write_instructions(path: str) -> None:
    def verdict(policy: Policy, action: Action = "edit") -> str:
        return decide(Act(tool="tool", action=action, notebook=path), policy).verdict

    rule = Rule(verdict="allow")
    assert [verdict(Policy(mode=mode)) for mode in MODES] == ["deny", "ask", "ask", "ask"]
    assert (
        verdict(Policy(mode="auto", preapproved_tools=frozenset({"tool"}), rules=[rule])) == "ask"
    )
    assert verdict(Policy(mode="auto", rules=[Rule(verdict="deny")])) == "deny"
    assert verdict(Policy(mode="auto"), "read") == "run"
