"""Explain: somebody who did not see the run can retell it; and the page that can be sent."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.hindsight.explain import story_of
from elastic_fsm.hindsight.explain_text import render
from elastic_fsm.hindsight.gantt import gantt
from elastic_fsm.hindsight.lines import happened
from elastic_fsm.hindsight.page import render_page
from elastic_fsm.journal import Journal
from elastic_fsm.tally import Tally
from elastic_fsm.testing import OnStop


@pytest.fixture
def explained(capsys):
    """What the verb prints, without the journal's place and in the time of the test's clock."""

    def explaining(*words):
        assert run_command_line(["explain", *map(str, words)]) == 0
        return capsys.readouterr().out

    return explaining


# -- two crashes, a change of nodes, a stop -------------------------------------------------------


def test_the_answer_comes_first_and_names_everything(eventful, node, explained):
    text = explained(node)
    why = text.partition("Why\n")[2].partition("What happened")[0]
    assert "The run ended in STOPPED, because of this: SIGTERM was received." in why
    assert "in HEALTHY; told_to_stop was taken (Somebody wants the run to end)" in why
    assert "2s later stopped took it from STOPPING to STOPPED" in why
    assert "It was restarted 3 times:" in why
    first, second, third = why.partition("times:\n")[2].strip().splitlines()
    assert "failure: local rank 3 (pid 1004) exited with 1; healthy again after 5s, 1" in first
    assert "membership change: nodes changed: node-1 left; healthy again after 5s" in second
    assert "restart spent" not in second
    assert "failure: local rank 1 (pid 1010) was ended by SIGKILL (-9); healthy" in third


def test_each_decision_is_told_with_what_decided_it(eventful, node, explained):
    text = explained(node)
    chapter = text.partition("1. ")[2].partition("  2. ")[0]
    assert "HEALTHY -> UNHEALTHY [worker_lost] A worker failed" in chapter
    assert "worker_failed held; not all_done, for all_succeeded did not hold" in chapter
    assert "known then: alive: local rank 0-2; ended: 3 with 1; restarts left: 3 of 3" in chapter
    assert "restart_allowed held; not suspect, for ended_by(stop.signals) did not hold" in chapter
    assert "stopped by the agent: local rank 0-2" in chapter
    assert "healthy again after 5s; 1 restart spent" in chapter


def test_a_state_of_ones_own_in_which_the_workers_stay_healthy(play, node, explained):
    arrow = {"trigger": "signal_received", "conditions": [{"signal_in": ["SIGUSR1"]}]}
    machine = {
        "states": {"RESTING": {"ignores": ["worker_exited", "membership_changed"]}},
        "transitions": {
            "rest": {**arrow, "source": ["HEALTHY"], "dest": "RESTING"},
            "rested": {**arrow, "source": ["RESTING"], "dest": "HEALTHY"},
        },
    }

    def script(run):
        run.signal("SIGUSR1", at=10)
        run.signal("SIGTERM", at=20)

    play(script, machine=machine)
    text = explained(node)
    assert "signal: SIGUSR1 was received" in text
    assert "healthy again" not in text
    assert [cost.kind for cost in story_of(node).costs] == ["told to stop"]


def test_the_ledger_adds_up(eventful, node):
    story = story_of(node)
    assert sum(state.seconds for state in story.states) == pytest.approx(7202)
    assert story.seconds == pytest.approx(7202)
    assert {s.state: s.visits for s in story.states}["HEALTHY"] == 4
    costs = [(c.kind, c.seconds, c.restarts_used, c.healthy_again) for c in story.costs]
    assert costs == [
        ("failure", pytest.approx(5), 1, True),
        ("membership change", pytest.approx(5), 0, True),
        ("failure", pytest.approx(5), 1, True),
        ("told to stop", pytest.approx(2), 0, False),
    ]
    assert (story.restarts_used, story.max_restarts, story.membership_restarts) == (2, 3, 1)
    assert story.attempts == 4


def test_workers_lives_are_told(eventful, node):
    lives = [
        (w.attempt, w.local_rank, w.exit_code, w.stopped_by_agent) for w in story_of(node).workers
    ]
    assert len(lives) == 16
    assert (0, 3, 1, False) in lives
    assert (0, 0, -15, True) in lives
    assert (2, 1, -9, False) in lives
    assert all(w.end is not None and w.start < w.end for w in story_of(node).workers)


def test_for_programs(eventful, node, explained):
    (story,) = json.loads(explained(node, "--json"))
    assert story["ending"]["state"] == "STOPPED"
    assert [c["kind"] for c in story["chapters"]] == [
        "start",
        "failure",
        "membership change",
        "failure",
        "told to stop",
    ]
    assert story["chapters"][1]["lines"][1]["refused"] == [
        ["suspect", "ended_by(stop.signals) did not hold"]
    ]


# -- other endings ------------------------------------------------------------------------------


def test_a_failure_says_why_there_was_no_restart(play, node, explained):
    play(lambda run: [run.exits(0, code=3, at=t) for t in (10, 20)], max_restarts=1)
    text = explained(node)
    assert "The run ended in FAILED, because of this: local rank 0 (pid 1003) exited" in text
    assert "restart, since restart_allowed did not hold" in text
    assert "restarts left: 0 of 1" in text
    assert "It was restarted once:" in text


def test_a_failure_while_starting_again_is_a_chapter_of_its_own(play, node):
    def script(run):
        run.launcher.start_takes = 3
        run.exits(0, code=3, at=10)
        run.exits(0, code=4, at=11)
        run.signal("SIGTERM", at=99)

    play(script, max_restarts=3)
    chapters = story_of(node).chapters
    assert [c.kind for c in chapters] == ["start", "failure", "failure", "told to stop"]
    assert chapters[1].healthy_after is None
    assert chapters[1].restarts_used == 1
    assert chapters[2].healthy_after == pytest.approx(3)
    assert chapters[2].restarts_used == 1


def test_a_success_is_no_failure(play, node, explained):
    play(lambda run: (run.exits(0, at=5), run.exits(1, at=9)))
    text = explained(node)
    assert "The run ended in SUCCEEDED" in text
    assert "It was restarted" not in text
    assert "What it cost" not in text
    assert [c.kind for c in story_of(node).chapters] == ["start", "work done"]


def test_trouble_that_is_nobodys_notice(play, node):
    def script(run):
        run.launcher.start_takes = None

    play(script)
    story = story_of(node)
    assert [c.kind for c in story.chapters] == ["start", "trouble"]
    assert "start_overdue after 300 s" in story.answer[0]


def test_what_changed_no_state_and_what_the_agent_noted_are_told(play, node, explained):
    play(lambda run: (run.signal("SIGUSR1", at=5), run.signal("SIGTERM", at=9)))
    text = explained(node)
    assert "still HEALTHY [other_signal]" in text
    assert "on: SIGUSR1 was received" in text


def test_a_long_story_is_cut_in_the_middle(play, node, explained):
    def script(run):
        for number in range(30):
            run.exits(0, code=3, at=10 * (number + 1))
        run.signal("SIGTERM", at=999)

    play(script, max_restarts=30)
    text = explained(node)
    happened, costs = text.partition("What it cost")[::2]
    for part in (happened, costs):
        assert re.search(r"  … 2[01] more, which --json tells", part)
        assert "  2. " in part
        assert "  31. " in part
    assert "… 24 more\n" in happened
    assert "  5. " not in text
    assert "together: 0s until healthy again, 30 restarts" in costs


def test_a_long_chapter_is_cut_in_the_middle(play, node, explained):
    def script(run):
        for number in range(3000):
            run.signal("SIGUSR1", at=number + 1)
        run.signal("SIGTERM", at=9999)

    play(script)
    text = explained(node)
    assert text.count("SIGUSR1 was received") == 12
    assert "2988 more, which --json tells" in text
    page = render_page([story_of(node)])
    assert page.count("SIGUSR1 was received") == 47  # and three that began the chapter
    assert "2953 more, told by <code>--json</code>" in page


def test_an_event_of_the_users_own_is_told_by_its_name(play, node, explained):
    play(
        machine={
            "states": {"HEALTHY": {"timeouts": {"snow_fell": 7}}},
            "transitions": {
                "snowed_in": {"trigger": "snow_fell", "source": ["HEALTHY"], "dest": "STOPPED"}
            },
        }
    )
    text = explained(node)
    assert "HEALTHY -> STOPPED [snowed_in]" in text
    assert "because of this: snow_fell after 7 s." in text


def test_an_event_that_lacks_what_it_should_tell_is_still_told():
    record = {"event": {"name": "worker_exited", "data": {}}, "facts": {}, "outcome": "ignored"}
    assert happened(record) == "worker_exited"


# -- of a long run ------------------------------------------------------------------------------


def test_dropped_and_torn_lines_are_said(play, node, monkeypatch):
    monkeypatch.setitem(Journal.__init__.__kwdefaults__, "max_bytes", 6000)

    def script(run):
        for number in range(60):
            run.exits(0, code=3, at=10 * (number + 1))
        run.signal("SIGTERM", at=999)

    play(script, max_restarts=60)
    path = node / "journal.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":')
    story = story_of(node)
    dropped, torn = story.remarks
    assert "dropped to keep the journal small" in dropped
    assert "the last line was not written to its end" in torn
    assert (story.restarts_used, story.attempts) == (60, 61)
    assert sum(s.seconds for s in story.states) == pytest.approx(story.seconds) == 999
    assert {s.state: s.visits for s in story.states}["HEALTHY"] == 61
    assert "(dropped)" in {span.state for span in story.spans}


@pytest.fixture
def drop(node):
    """Leaves the lines from one to before another out of a journal, as if it were a long one."""

    def dropping(first, last):
        path = node / "journal.jsonl"
        header, *lines = map(json.loads, path.read_text().splitlines())
        sums = Tally()
        for line in (header, *lines):
            del line["check"]
        for line in lines[:last]:
            sums.add(line)
        head = header | {"part": 6, "carried": sums.to_dict()}
        for name, kept in (("-0", [header, *lines[:first]]), ("", [head, *lines[last:]])):
            text = "".join(json.dumps(line) + "\n" for line in kept)
            path.with_stem(f"journal{name}").write_text(text)

    return dropping


@pytest.fixture
def gapped(eventful, node, drop):
    """From the middle of the first restart to the middle of the last one nothing is left."""
    whole = story_of(node)
    drop(10, 26)
    return whole, story_of(node)


def test_the_sums_are_those_of_the_whole_run(gapped, node, explained):
    whole, story = gapped
    for sums in ("attempts", "restarts_used", "membership_restarts", "events", "transitions"):
        assert getattr(story, sums) == getattr(whole, sums), sums
    assert {s.state: s.visits for s in story.states} == {s.state: s.visits for s in whole.states}
    assert sum(cost.restarts_used for cost in story.costs) == 2
    text = explained(node)
    assert "It was restarted 3 times:" in text
    assert "gap: 16 lines dropped here, of 50m 0s; 1 restart spent, formed anew 1 ×\n" in text
    assert "together: at least 0s until healthy again, 2 restarts" in text
    assert re.search(r">at least 0s</b></td><td class=.number.><b>2</b>", render_page([story]))


def test_a_gap_is_a_chapter_and_connects_nothing(gapped, node, explained):
    _, story = gapped
    assert [c.kind for c in story.chapters] == ["start", "failure", "gap", "told to stop"]
    _, before, gap, after = story.chapters
    assert [line.dest for line in before.lines] == ["UNHEALTHY", "BACKOFF", "JOINING", "STARTING"]
    assert (before.cut, before.healthy_after) == (True, None)
    assert [(line.dest, line.at) for line in gap.lines] == [("", 4002), ("HEALTHY", 4005)]
    assert (gap.at, gap.dropped, gap.healthy_after, after.at) == (1002, 16, None, 7200)
    assert [cost.seconds for cost in story.costs] == [None, None, 2]
    text = explained(node)
    assert "exited with 1; how it went on is not told, 1 restart spent" in text
    assert "after them in STARTING; of the time between only sums are known: 1 restart, " in text
    assert "2. gap: how long is not known (lines are missing), 1 restart" in text
    assert '<td class="number">not known</td>' in render_page([story])


def test_nobody_lives_in_a_gap_who_was_not_seen_at_both_ends(gapped):
    _, story = gapped
    (dropped,) = (span for span in story.spans if span.state == "(dropped)")
    assert (dropped.start, dropped.end) == (1002, 4002)
    lives = {(w.attempt, w.start, w.end) for w in story.workers}
    assert lives == {(0, 0, 1000), (0, 0, 1002), (3, 4002, 7202)}
    assert "attempt 3, pid 1014, its start is not told: stopped by the agent" in gantt(story)


def test_whose_end_was_dropped_is_seen_to_its_beginning(eventful, node, drop):
    drop(11, 26)
    story = story_of(node)
    assert {w.end for w in story.workers if w.attempt == 1} == {1005}
    assert "attempt 1, pid 1008: its end is not told" in gantt(story)


def test_who_outlives_a_gap_in_which_nothing_happened(play, node, drop):
    def script(run):
        for number in range(9):
            run.signal("SIGUSR1", at=number + 1)

    snowed_in = {"trigger": "snow_fell", "source": ["HEALTHY"], "dest": "STOPPED"}
    states = {"HEALTHY": {"timeouts": {"snow_fell": 99}}}
    play(script, machine={"states": states, "transitions": {"snowed_in": snowed_in}})
    drop(5, 10)
    story = story_of(node)
    assert [chapter.kind for chapter in story.chapters] == ["start", "gap", "change"]
    assert [cost.kind for cost in story.costs] == ["change"]
    assert [(w.start, w.end) for w in story.workers] == [(0, None), (0, None)]


def test_a_gap_is_told_also_in_the_middle_of_a_long_story(play, node, drop, explained):
    def script(run):
        for number in range(30):
            run.exits(0, code=3, at=10 * (number + 1))
        run.signal("SIGTERM", at=999)

    play(script, max_restarts=30)
    drop(3 + 10 * 6, 3 + 20 * 6)
    why, happened = explained(node).partition("What happened")[::2]
    assert re.search(r"… 7 more\n.* gap: .*\n    … 7 more\n", why)
    more = "more, which --json tells\n"
    assert re.search(rf"… 8 {more}  11\. .* gap: 60 lines .*\n.*\n  … 3 {more}  15\. ", happened)


def test_what_ended_a_run_may_have_been_dropped(eventful, node, drop, explained):
    drop(20, 30)
    text = explained(node)
    assert "The run ended in STOPPED. What began this is not known: 10 lines dropped here" in text
    assert "0s later stopped took it from STOPPING to STOPPED" in text


@pytest.mark.parametrize(("source", "told"), [(["HEALTHY"], 10), ("any", 5)])
def test_visits_of_a_state_that_was_entered_anew(play, node, drop, source, told):
    anew = {"trigger": "signal_received", "conditions": [{"signal_in": ["SIGUSR1"]}]}
    anew |= {"source": source, "dest": "same", "priority": 1}

    def script(run):
        for number in range(9):
            run.signal("SIGUSR1", at=number + 1)
        run.signal("SIGTERM", at=99)

    play(script, machine={"transitions": {"anew": anew}})
    drop(5, 10)
    story = story_of(node)
    assert {s.state: s.visits for s in story.states}["HEALTHY"] == told
    said = "in dropped lines there were 5 more visits, of states that are not known"
    assert (said in story.remarks) == (told == 5)


@pytest.mark.parametrize(("first", "last"), [(0, 20), (20, 33)])
def test_the_first_lines_or_the_last_may_be_gone(eventful, node, drop, first, last):
    drop(first, last)
    story = story_of(node)
    assert [c.dropped for c in story.chapters if c.dropped] == [last - first]
    assert story.seconds == pytest.approx(7202)
    assert sum(state.seconds for state in story.states) == pytest.approx(7202)
    assert render(story)
    assert render_page([story])


# -- where the journal ends too early -------------------------------------------------------------


@pytest.fixture
def end_after(play, node):
    """The run went on to its good end when its journal could not be written any more."""
    play(lambda run: [run.exits(0, code=3, at=t) for t in (10, 20, 30)], max_restarts=2)
    report = {
        "state": "SUCCEEDED", "final_state": "SUCCEEDED", "exit_code": 0, "restarts_used": 2,
        "why": "[settled] all nodes are done", "attempts": 3 * [{"attempt": 0, "causes": []}],
    }  # fmt: skip
    (node / "report.json").write_text(json.dumps(report))

    def ending(transition):
        path = node / "journal.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        last = next(n for n, line in enumerate(lines) if f'"transition":"{transition}"' in line)
        path.write_text("".join(lines[: last + 1]))
        return node

    return ending


@pytest.fixture
def unwritten(end_after):
    """The last line is that of the first failure."""
    return end_after("worker_lost")


def test_a_run_whose_journal_ends_before_it_did(unwritten, explained):
    text = explained(unwritten)
    assert "SUCCEEDED, exit code 0\n" in text
    assert ", of which the journal covers 10s; 3 attempts; 2 of 2 restarts spent" in text
    assert '<b>10s</b><span class="quiet">in the journal</span>' in render_page(
        [story_of(unwritten)]
    )
    assert "as the report tells, and not the journal: [settled] all nodes are done.\n" in text
    assert "… 2 more of which the journal does not tell" in text
    assert "1. failure: how long is not known" in text
    assert re.search(r"it ends before the run did: the last line is of \S+, in UNHEALTHY", text)


def test_a_restart_that_the_last_line_spends_is_told(end_after, explained):
    text = explained(end_after("again"))
    assert "1. failure: how long is not known (lines are missing), 1 restart" in text
    assert "… 1 more of which the journal does not tell" in text


def test_without_control_a_run_has_not_ended_though_a_report_was_written(unwritten, explained):
    report = {"state": "UNKNOWN", "final_state": "UNKNOWN"}
    (unwritten / "report.json").write_text(json.dumps(report))
    assert "The agent lost control in UNHEALTHY, and ended the run.\n" in explained(unwritten)


# -- what workers left ----------------------------------------------------------------------------


@pytest.fixture
def failed(play, node):
    """A worker of attempt 0 failed and there is no report, as when the agent was killed."""
    play(lambda run: run.exits(1, code=1, at=5))
    log = node / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {n}\n" for n in range(50)) + "ValueError: <nan> & more\n")
    return node


def test_last_lines_come_from_the_log_where_there_is_no_report(failed, explained):
    text = explained(failed)
    assert "rank 1 exited with 1" in text
    assert "| ValueError: <nan> & more" in text
    assert "| line 48" in text
    assert "| line 40" not in text


def test_last_lines_come_from_the_report_where_there_is_one(failed, explained):
    cause = {
        "rank": 5, "local_rank": 1, "exit_code": 1, "message": "ValueError: told",
        "traceback": "", "stderr_tail": ["from the report"],
    }  # fmt: skip
    report = {"exit_code": 1, "attempts": [{"attempt": 0, "causes": [cause]}]}
    (failed / "report.json").write_text(json.dumps(report))
    text = explained(failed)
    assert "rank 5 exited with 1: ValueError: told" in text
    assert "| from the report" in text
    assert "FAILED, exit code 1" in text


# -- the page -------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Collects what a page asks for, and checks that its elements are closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.found, self.links = [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        self.links += [v for k, v in attrs if k in ("href", "src", "xlink:href") and v]
        if tag not in ("meta", "br", "input", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(eventful, node):
    page = render_page([story_of(node)])
    tags = Tags(page)
    assert tags.open == []
    assert "script" not in tags.found
    assert "link" not in tags.found
    assert all(link.startswith("#") for link in tags.links)
    assert not re.search(r"url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_the_page_has_the_timeline_the_failures_and_the_sums(failed, tmp_path, capsys):
    target = tmp_path / "run.html"
    assert run_command_line(["explain", str(failed), "--html", str(target)]) == 0
    assert capsys.readouterr().out == f"wrote {target}\n"
    page = target.read_text()
    assert '<svg class="chart"' in page
    assert ">local rank 1</text>" in page
    assert "attempt 0, pid 1002: exited with 1" in page
    assert "ValueError: &lt;nan&gt; &amp; more" in page
    assert "<nan>" not in page
    assert "Where the time went" in page
    assert "worker_lost" in page


def test_the_page_has_a_table_where_nothing_draws(eventful, node, monkeypatch):
    monkeypatch.setattr("elastic_fsm.graph.pictures.find_program", lambda: None)
    page = render_page([story_of(node)])
    assert "<details open>" in page
    assert '<div class="wide graph">' not in page


def test_the_page_stays_small_however_often_the_machine_moved(play, node, monkeypatch):
    monkeypatch.setattr("elastic_fsm.graph.pictures.find_program", lambda: None)

    def script(run):
        run.launcher.on_stop = {1: OnStop(takes=0.001)}
        for number in range(1000):
            run.exits(0, code=3, at=number + 1)
        run.signal("SIGTERM", at=2000)

    play(script, max_restarts=1000)
    page = render_page([story_of(node)])
    assert "… 922 more" in page  # chapters
    assert "… 921 more" in page  # costs
    assert ">1000</b>" in page
    assert len(page) < 300_000


def test_the_timeline_stays_small_whatever_the_workers_die_of(play, node):
    """Ends that differ from one attempt to the next share what little room there is."""

    def script(run):
        for number in range(500):
            run.exits(number % 2, code=3, at=number + 1)
        run.signal("SIGTERM", at=2000)

    play(script, max_restarts=500)
    drawn = gantt(story_of(node))
    assert " in short; one: " in drawn
    assert drawn.count("<rect") < 600
    assert drawn.count('class="mark"') < 250


def test_the_page_reads_nothing_that_the_story_has_not_read(eventful, node):
    """So that its parts agree while a run is alive."""
    story = story_of(node)
    (node / "journal.jsonl").unlink()
    assert "told_to_stop" in render_page([story])


def test_two_restarts_are_told_as_two(eventful, node):
    story = story_of(node)
    story.chapters[1].restarts_used = 2
    assert "2 restarts spent" in render_page([story])


def test_where_the_page_cannot_be_written(eventful, node, capsys):
    assert run_command_line(["explain", str(node), "--html", "/no/such/place.html"]) == 2
    assert "the page cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hmtl", "x"], "did you mean '--html'?"),
        (["--html"], "--html needs a value"),
        (["one", "two"], "name one only"),
        ([5000 * "x"], "File name too long"),
    ],
)
def test_wrong_words_are_said(words, said, capsys):
    assert run_command_line(["explain", *words]) == 2
    screen = capsys.readouterr().err
    assert said in screen
    assert len(screen) < 24 * 80


@pytest.mark.parametrize("verb", ["explain", "status", "replay"])
def test_help(verb, capsys):
    assert run_command_line([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"elastic-fsm {verb} ")


def test_all_nodes_are_told(eventful, node, explained):
    other = node.with_name("node-1")
    other.mkdir()
    (other / "journal.jsonl").write_bytes((node / "journal.jsonl").read_bytes())
    assert explained(node.parent).count("The run ended in STOPPED") == 2
    page = render_page([story_of(node), story_of(other)])
    ids = re.findall(r' id="([^"]*)"', page)  # those of the pictures would stand there twice
    assert len(ids) == len(set(ids)) == 10
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)


def test_a_bad_node_hides_no_good_one(eventful, node, capsys):
    for name in ("node-1", "node-2"):
        other = node.with_name(name)
        other.mkdir()
        (other / "journal.jsonl").write_bytes((node / "journal.jsonl").read_bytes())
    bad = node.with_name("node-1") / "journal.jsonl"
    bad.write_text("no header\n")
    for verb, told in (("explain", "The run ended in STOPPED"), ("replay", "no difference")):
        assert run_command_line([verb, str(node.parent)]) == 2
        captured = capsys.readouterr()
        assert captured.out.count(told) == 2
        assert f"{bad}: the first line is not a header" in captured.err


# -- what others wrote ----------------------------------------------------------------------------

EVIL = "\x1b]0;x\x07<script>alert(1)</script>\nWhy"


@pytest.fixture
def evil(play, node):
    """A journal and a log that try to do things to whoever reads them."""
    play(lambda run: run.exits(1, code=1, at=5))
    path = node / "journal.jsonl"
    header, *lines = map(json.loads, path.read_text().splitlines())
    header["run_id"] = EVIL
    lines[-1]["source"] = lines[-2]["dest"] = EVIL.replace("1", "2")
    lines[3]["event"]["data"]["reason"] = EVIL
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    log = node / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text(EVIL + "x" * 100_000)
    return node


def test_the_texts_of_others_do_not_reach_the_terminal_raw(evil, capsys):
    for verb in ("explain", "status", "replay"):
        run_command_line([verb, str(evil)])
        out = capsys.readouterr().out
        assert "\\x1b]0;x" in out
        assert not set(map(ord, out)) & ({*range(32), *range(127, 160)} - {10})
        assert len(out) < 10_000
    run_command_line(["explain", str(evil)])
    text = capsys.readouterr().out
    assert "alert(2)" in text
    assert text.count("\nWhy") == 1  # a new line in a text begins no section


def test_the_texts_of_others_do_nothing_in_the_page(evil):
    page = render_page([story_of(evil)])
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;script&gt;alert(2)" in page
    assert "<script" not in page
    assert "\x1b" not in page
    assert Tags(page).open == []


def test_a_report_that_cannot_be_used_is_said(failed, explained):
    (failed / "report.json").write_text('{"attempts": [{"attempt": 0, "causes": [{}]}]}')
    text = explained(failed)
    assert "report.json: attempts[0].causes[0].rank is missing" in text
    assert "| line 48" in text


def test_the_text_has_no_blanks_at_the_ends_of_lines(eventful, node):
    assert not re.search(r" $", render(story_of(node)), re.MULTILINE)
