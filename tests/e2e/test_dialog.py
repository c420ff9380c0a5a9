"""The dialog that asks, service/static/dialog.js, with an action that a test ends when it wants."""

import pytest
from playwright import sync_api
from playwright.sync_api import expect

ASK = """async () => {
  const { ask } = await import("/static/dialog.js");
  globalThis.ended = [];
  globalThis.calls = 0;
  const act = () => new Promise((resolve, reject) => {
    globalThis.calls += 1;
    globalThis.end = (problem) => (problem ? reject(new Error(problem)) : resolve());
  });
  const { html } = await import("/static/vendor/lit.js");
  const body = html`<input name="word" aria-label="Word" autofocus />`;
  ask({ id: "tried", title: "Try it", body, confirm: "Do it", act }).then((agreed) => globalThis.ended.push(agreed));
}"""


@pytest.fixture
def asked(page: sync_api.Page) -> sync_api.Locator:
    page.evaluate(ASK)
    return page.get_by_role("dialog", name="Try it")


def end(page: sync_api.Page, problem: str = "") -> None:
    page.evaluate("(problem) => globalThis.end(problem)", problem)


def test_closed_while_busy_and_then_failed(page: sync_api.Page, asked: sync_api.Locator) -> None:
    asked.get_by_role("button", name="Do it").click()
    expect(asked.get_by_role("button", name="Do it")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(asked).to_have_count(0)
    assert page.evaluate("ended") == []  # what was begun is not over
    end(page, "Not today.")
    assert page.evaluate("ended") == [False]
    assert page.get_by_text("Not today.").count() == 0


def test_closed_while_busy_and_then_done(page: sync_api.Page, asked: sync_api.Locator) -> None:
    asked.get_by_role("button", name="Do it").click()
    page.keyboard.press("Escape")
    end(page)
    assert page.evaluate("ended") == [True]


def test_failed_and_tried_again(page: sync_api.Page, asked: sync_api.Locator) -> None:
    asked.get_by_label("Word").fill("kept")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # busy: no second time
    assert page.evaluate("calls") == 1
    end(page, "Not today.")
    expect(asked.get_by_role("alert")).to_have_text("Not today.")
    expect(asked.get_by_label("Word")).to_be_focused()
    expect(asked.get_by_label("Word")).to_have_value("kept")
    asked.get_by_role("button", name="Do it").click()
    expect(asked.get_by_role("alert")).to_have_count(0)
    end(page)
    expect(asked).to_have_count(0)
    assert page.evaluate("[calls, ended]") == [2, [True]]
