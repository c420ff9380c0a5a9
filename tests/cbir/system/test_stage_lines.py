"""Progress in a log."""

import time

from cbir.system.console import StageBars, StageLines


def test_a_line_every_some_seconds_even_while_a_stage_stands_still(capsys):
    with StageLines(first=0.05, every=0.05) as lines:
        time.sleep(0.1)
        lines.show("training", 3, 5, "mAP 0.5")
        time.sleep(0.3)
    printed = capsys.readouterr().err.splitlines()
    assert printed[0].startswith("starting (")
    assert len(printed) >= 3
    assert printed[-1].startswith("training: 3 of 5, mAP 0.5 (")


def test_a_short_command_prints_no_line(capsys):
    with StageBars() as bars:
        bars.show("searching", 1, 2)
    assert capsys.readouterr().err == ""


def test_an_unknown_total_is_left_out(capsys):
    with StageLines(first=0.01, every=10) as lines:
        lines.show("indexing", 7, None)
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("indexing: 7 (")


def test_a_stage_without_steps_is_named_alone(capsys):
    with StageLines(first=0.01, every=10) as lines:
        lines.show("fitting", 0, None)
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("fitting (")


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with StageBars() as bars:
        bars.show("fitting")
        bars.show("testing", 2, 5, "mAP 0.5")
    printed = capsys.readouterr().err
    assert "fitting" in printed
    assert [task.description for task in bars._bars.tasks] == ["fitting", "testing"]
    assert "2/5" in printed


def test_a_stage_of_one_step_shows_no_count(capsys):
    with StageLines(first=0.01, every=10) as lines:
        lines.show("finding similar images", 0, 1)
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("finding similar images (")
