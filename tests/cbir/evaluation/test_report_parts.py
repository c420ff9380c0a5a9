"""Parts that all reports are made of."""

import cbir
from cbir.evaluation.report.report_parts import render_facts, render_page


def test_facts_keep_what_is_empty_and_take_lists_for_no_conditions():
    facts = {"options": {}, "of_it": {"rates": {}, "sides": [32, 64]}, "none_given": [], "rate": 0.001}
    assert render_facts(facts) == (
        "<dt>options</dt><dd>none</dd><dt>of it</dt><dd>rates none, sides 32, 64</dd>"
        "<dt>none given</dt><dd>none</dd><dt>rate</dt><dd>0.001</dd>"
    )


def test_a_page_ends_with_the_version_and_a_note_if_there_is_one():
    assert f'<p class="note">cbir {cbir.__version__}.</p>' in render_page("t", "s", "b", "")
    assert f'<p class="note">cbir {cbir.__version__}. More.</p>' in render_page("t", "s", "b", "More.")
