"""The verb, as typed: where it writes, what it refuses, and how it tells a stale page."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from graph_machines import HERE, spec_of

from elastic_fsm import actions, conditions
from elastic_fsm.cli import run_command_line
from elastic_fsm.config import compose
from elastic_fsm.graph import machine_diagram, pictures
from elastic_fsm.graph.drawing import Drawing
from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.pictures import HOW_TO_GET_PICTURES, find_program, made_of
from elastic_fsm.graph.words import split_graph_words
from elastic_fsm.machine import load_machine
from elastic_fsm.problems import BadInput
from elastic_fsm.registry import Registry
from elastic_fsm.testing import Scenario, settings_for

REPOSITORY = HERE.parent.parent
draws = pytest.mark.skipif(find_program() is None, reason="no program that draws")


def shipped_machine():
    settings = settings_for("elastic")
    return load_machine(settings["machine"], Registry([conditions, actions]), settings)


def test_a_picture_holds_no_secret(capsys, tmp_path):
    argv = "[mail, --token, SECRET1, 'https://u:SECRET2@h/x']"
    job = tmp_path / "job.yaml"
    job.write_text(
        f"machine: {{states: {{FAILED: {{on_enter: {{run_command: {{argv: {argv}}}}}}}}}}}"
    )
    assert run_command_line(["graph", "-c", str(job)]) == 0
    shown = capsys.readouterr().out
    assert "mail" in shown
    assert "SECRET" not in shown


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def graph(capfd):
    def run(*words):
        code = run_command_line(["graph", *words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def no_program(monkeypatch):
    monkeypatch.setattr(pictures, "find_program", lambda: None)


@pytest.fixture
def job(tmp_path):
    """The odd machine as a job file's."""
    data = yaml.safe_load((HERE / "quirks.yaml").read_text())
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump({"machine": data}, sort_keys=False))
    return path


def test_text_without_a_word(graph):
    code, out, _ = graph()
    assert code == 0
    assert out == str(machine_diagram("elastic"))


def test_overrides_are_drawn(graph):
    _, out, _ = graph(
        "+machine.transitions.mine={trigger: membership_changed, source: BACKOFF, dest: JOINING}",
        "~machine.transitions.not_needed",
    )
    assert "membership_changed -> JOINING" in out
    assert "run_finished" not in out


def test_a_job_file_is_drawn(graph, job):
    code, out, _ = graph("-c", str(job))
    assert code == 0
    assert out.startswith("odd: ")
    assert "* WAITING" in out


def test_a_job_that_is_no_file_names_no_machine(graph):
    assert graph("-c", "/dev/null")[1].startswith("machine: ")


def test_a_job_file_in_list_form_is_drawn(graph, tmp_path):
    data = {
        "initial": "A",
        "states": ["A", {"name": "B", "final": True, "exit_code": 0}],
        "transitions": [["run_requested", "A", "B"]],
    }
    (tmp_path / "lists.yaml").write_text(yaml.safe_dump({"machine": data}))
    code, out, err = graph("-c", "lists.yaml")
    assert (code, err) == (0, "")
    assert "run_requested -> B" in out


def test_help(graph):
    assert graph("--help") == graph("-h")
    assert "--check FILE" in graph("--help")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--formt", "dot"], "unknown option --formt"),
        (["--format"], "--format needs a value"),
        (["--format", "dott"], "did you mean 'dot'?"),
        (["-o", "machine.gif"], "'machine.gif' does not say which format"),
        (["-o", "nowhere/machine.dot"], "nowhere/machine.dot: cannot be written: No such file"),
        (["-o", "."], "does not say which format"),
        (["--check", "nothing.md"], "nothing.md: cannot be read: No such file"),
        (["--diff", "machine=elastic"], "does not name two machines"),
        (["--diff", "machine=elastic,fail_fast", "--run"], "do not go together"),
        (["--run", "nowhere"], "there is no run in nowhere"),
        (["train.py"], "'train.py' means nothing here"),
        (["machine.initial=INTI"], "machine.initial: unknown state 'INTI'"),
        (["machine.transitions.begin.dest=JONING"], "did you mean 'JOINING'?"),
        (["--format", "png"], "a PNG goes into a file"),
    ],
)
def test_bad_input(graph, words, said):
    code, out, err = graph(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_place_without_permission(graph, tmp_path):
    if os.geteuid() == 0:
        target = "/proc/machine.dot"  # what even root cannot write
    else:
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        target = "machine.dot"
    code, _, err = graph("-o", target)
    assert code == 2
    assert "cannot be written" in err


@pytest.mark.parametrize("suffix", ["txt", "dot", "mmd", "json", "scxml"])
def test_the_name_says_the_format(graph, suffix):
    form = {"txt": "text", "mmd": "mermaid", "json": "xstate"}.get(suffix, suffix)
    assert graph("-o", f"m.{suffix}") == (0, "", "")
    assert Path(f"m.{suffix}").read_text() == machine_diagram("elastic").render(form)


def test_format_goes_before_the_name(graph):
    assert graph("--format", "transitions", "-o", "m.json")[0] == 0
    assert json.loads(Path("m.json").read_text())["auto_transitions"] is False


# -- pictures ----------------------------------------------------------------------------------


@draws
@pytest.mark.slow
def test_svg_and_png(graph):
    assert graph("-o", "m.svg") == (0, "", "")
    assert graph("-o", "m.png") == (0, "", "")
    svg = Path("m.svg").read_text()
    assert "prefers-color-scheme: dark" in svg
    assert svg.count("<svg") == 1
    assert Path("m.png").read_bytes().startswith(b"\x89PNG")
    assert graph("--format", "svg")[1] == svg


@draws
@pytest.mark.slow
def test_every_colour_of_a_picture_has_a_dark_partner(graph):
    """A colour that the style sheet forgets would be unreadable on the other ground."""
    from elastic_fsm.graph.palette import dark_style

    graph("--diff", "machine=elastic,fail_fast", "-o", "diff.svg")
    graph("-o", "m.svg")
    used = set()
    for name in ("diff.svg", "m.svg"):
        body = Path(name).read_text().partition("</style>")[2]
        used |= set(re.findall(r'(?:fill|stroke)="(#\w+)"', body))
    assert len(used) > 20
    assert {colour for colour in used if colour not in dark_style()} == set()
    assert 'fill="black"' not in body


def test_nothing_that_draws(graph, no_program):
    code, out, err = graph("-o", "m.svg")
    assert (code, out) == (1, "")
    assert "m.dot was written, not m.svg" in err
    assert err.endswith(f"{HOW_TO_GET_PICTURES}\n")
    assert Path("m.dot").read_text() == machine_diagram("elastic").render("dot")
    assert not Path("m.svg").exists()
    code, out, err = graph("--format", "svg")
    assert code == 1
    assert out.startswith("digraph")
    assert HOW_TO_GET_PICTURES in err


def test_programs_are_looked_for_in_order(monkeypatch, tmp_path):
    for name in ("dot", "graphviz-pure"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program() == [str(tmp_path / "dot")]
    (tmp_path / "dot").unlink()
    assert find_program() == [str(tmp_path / "graphviz-pure")]


@pytest.mark.slow
def test_a_program_that_fails_is_told(graph, monkeypatch, tmp_path):
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\necho no fonts >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    code, _, err = graph("-o", "m.svg")
    assert code == 2
    assert "no fonts" in err


@pytest.mark.parametrize("written", [b"", b"no picture", b"<svg>\xff</svg>"])
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_program_that_draws_nothing_is_told(graph, monkeypatch, kind, written):
    done = subprocess.CompletedProcess([], 0, stdout=written)
    monkeypatch.setattr(pictures, "find_program", lambda: ["dot"])
    monkeypatch.setattr(pictures.subprocess, "run", lambda *_, **__: done)
    code, _, err = graph("-o", f"m.{kind}")
    assert code == 2
    assert f"dot failed: what it wrote is no {kind.upper()}" in err
    assert not Path(f"m.{kind}").exists()


# -- pages -------------------------------------------------------------------------------------


def test_a_new_page_then_a_stale_one(graph):
    assert graph("machine=fail_fast", "-o", "page.md") == (0, "", "")
    assert graph("--check", "page.md") == (0, "", "")
    page = Path("page.md")
    page.write_text(page.read_text().replace("| INIT | `run_", "| BEGIN | `run_"))
    code, _, err = graph("--check", "page.md")
    assert code == 1
    line = (
        page.read_text()
        .splitlines()
        .index(next(x for x in page.read_text().splitlines() if "BEGIN" in x))
    )
    assert err == (
        f"elastic-fsm: page.md:{line + 1} is stale; to renew it: elastic-fsm graph -o page.md\n"
    )
    assert graph("-o", "page.md")[0] == 0
    assert graph("--check", "page.md")[0] == 0


def test_what_stands_around_the_blocks_is_kept(graph):
    text = "above\n\n<!-- elastic-fsm graph {} -->\n{}<!-- end -->\n\nbelow\n"
    Path("page.md").write_text(text.format("--format mermaid machine=fail_fast", "old\n"))
    assert graph("-o", "page.md")[0] == 0
    mermaid = machine_diagram("fail_fast").render("mermaid")
    filled = text.format("--format mermaid machine=fail_fast", f"\n```mermaid\n{mermaid}```\n\n")
    assert Path("page.md").read_text() == filled


def test_a_page_that_is_not_ours_is_left_alone(graph):
    Path("page.md").write_text("# Mine\n")
    code, _, err = graph("-o", "page.md")
    assert code == 2
    assert "has no block for a graph" in err
    assert Path("page.md").read_text() == "# Mine\n"


def test_a_line_too_many_is_stale(graph):
    graph("-o", "page.md")
    page = Path("page.md")
    page.write_text(page.read_text().replace("\n<!-- end -->", "one more\n<!-- end -->"))
    assert graph("--check", "page.md")[0] == 1


@pytest.mark.parametrize(
    "page",
    [
        "docs/machine.md",
        *sorted(
            str(p.relative_to(REPOSITORY))
            for p in (REPOSITORY / "docs" / "pictures").glob("*.svg")
            if not p.with_suffix(".dot").exists()  # that one is no machine's
        ),
    ],
)
def test_our_own_pages_and_pictures_are_up_to_date(graph, monkeypatch, page):
    monkeypatch.chdir(REPOSITORY)
    assert graph("--check", page) == (0, "", "")


def test_a_stale_picture(graph, no_program):
    """Told without drawing, by what the picture says that it was made of."""
    drawing = machine_diagram("fail_fast")
    stamp = pictures.stamp(drawing.render("dot"), "machine=fail_fast")
    Path("m.svg").write_text(f"{stamp}\n<svg/>")
    assert graph("--check", "m.svg") == (0, "", "")
    Path("m.svg").write_text(stamp.replace("machine=fail_fast", "machine=elastic") + "\n<svg/>")
    code, _, err = graph("--check", "m.svg")
    assert code == 1
    assert err.endswith("elastic-fsm graph machine=elastic -o m.svg\n")
    assert graph("--check", "m.svg", "--check", "m.svg")[0] == 1
    Path("m.svg").write_text("<svg/>")
    assert graph("--check", "m.svg")[0] == 2


def test_stamps_keep_the_words():
    words = split_graph_words(["machine=a", "--diff", "machine=a,b", "--no-any", "--run", "a dir"])
    found = made_of(pictures.stamp("digraph", words.again()))
    assert found is not None
    again = split_graph_words(shlex.split(found[0]))
    assert again == words
    assert "--" not in found[1].removeprefix("<!--").removesuffix("-->")


# -- runs --------------------------------------------------------------------------------------


@pytest.fixture
def played(tmp_path):
    """A run with one restart, stopped in the middle; the folder of its node."""
    folder = tmp_path / "elastic_runs" / "one" / "host"
    folder.mkdir(parents=True)
    (tmp_path / "elastic_runs" / "latest").symlink_to("one")
    run = Scenario("elastic", max_restarts=2, journal=folder / "journal.jsonl")
    run.exits(1, code=3, at=40)
    run.signal("SIGUSR1", at=50)
    run.signal("SIGTERM", at=100)
    run.play()
    return folder


def test_a_run_is_lit(graph, played):
    code, out, err = graph("--run")
    assert (code, err) == (0, "")
    assert "run scenario on node-0: ended in STOPPED" in out
    assert "  HEALTHY 1:40 min\n" in out
    assert "workers_started -> HEALTHY  ×2\n" in out
    assert "signal_received -> stays  ×1\n" in out
    assert "workers_stopped -> STOPPED  ×1, last\n" in out
    assert graph("--run", str(played)) == (0, out, "")
    assert graph("--run=elastic_runs/one") == (0, out, "")


def test_a_run_that_is_not_over_and_whose_last_line_is_torn(graph, played):
    journal = played / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    kept = next(n for n, line in enumerate(lines) if '"transition":"worker_lost"' in line)
    journal.write_text("".join(lines[: kept + 1]) + lines[kept + 1][:30])
    _, out, _ = graph("--run")
    assert "run scenario on node-0: in UNHEALTHY" in out
    assert "worker_exited [worker_failed] -> UNHEALTHY  ×1, last\n" in out


def test_a_run_before_its_first_event(graph, played):
    journal = played / "journal.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    _, out, _ = graph("--run")
    assert "in INIT after 0 lines" in out


def test_the_pictures_of_a_run(graph, played):
    dot = graph("--run", "--format", "dot")[1]
    lit = [line for line in dot.splitlines() if "#ffd84a" in line]
    assert [line.strip().split()[0] for line in lit] == ['"STOPPED"']
    assert "×2" in dot
    assert graph("--run", "--format", "mermaid")[1].count("×2") == 2


def test_several_nodes(graph, played):
    other = played.parent / "other"
    other.mkdir()
    (other / "journal.jsonl").write_text((played / "journal.jsonl").read_text())
    code, _, err = graph("--run")
    assert code == 2
    assert "the run has 2 nodes, and one picture holds one: host, other" in err
    assert f"--run {played}" in err
    assert graph("--run", str(other))[0] == 0


def test_a_damaged_line_of_a_run_is_said(graph, played):
    path = played / "journal.jsonl"
    path.write_text(path.read_text() + '{"outcome":"\\u001b"}\n')
    code, out, err = graph("--run", "--format", "dot")
    assert code == 0
    assert out.startswith("digraph")
    assert err.startswith("elastic-fsm: left out, for it cannot be used: ")
    assert "\x1b" not in err


# -- two machines ------------------------------------------------------------------------------


def test_the_difference_of_two_machines(graph):
    code, out, _ = graph("--diff", "machine=elastic,fail_fast")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "from elastic to fail_fast"
    assert "- state BACKOFF" in lines
    assert "+ transition node_lost: STARTING, HEALTHY on membership_changed -> UNHEALTHY" in lines
    assert not any("started" in line.split(":")[0] for line in lines)


def test_no_difference(graph):
    _, out, _ = graph("--diff", "machine=elastic,elastic")
    assert out == "from elastic to elastic\n  no difference\n"


def test_the_difference_the_other_way_round(graph):
    there = graph("--diff", "machine=elastic,fail_fast")[1].splitlines()[1:]
    back = graph("--diff", "machine=fail_fast,elastic")[1].splitlines()[1:]
    signs = str.maketrans("+-", "-+")
    changed = [line for line in there if line[0] in "+-"]
    assert sorted(line[0].translate(signs) + line[1:] for line in changed) == sorted(
        line for line in back if line[0] in "+-"
    )


def test_the_picture_of_a_difference(graph):
    dot = graph("--diff", "machine=elastic,fail_fast", "--format", "dot")[1]
    label, line = [x for x in dot.splitlines() if "HEALTHY -> REFORMING" in x]
    assert "membership_changed -" in label
    assert "dashed" in line
    label, line = [x for x in dot.splitlines() if "JOINING -> STARTING" in x]
    assert "rendezvous_completed -" not in label  # it is there in both


# -- notebooks and programs --------------------------------------------------------------------


def test_a_diagram_for_programs(tmp_path):
    spec = spec_of("quirks")
    drawing = machine_diagram(spec)
    assert drawing.diagram == diagram_of(spec)
    assert machine_diagram(compose(["machine=fail_fast"]).values["machine"]).diagram.road
    assert machine_diagram(shipped_machine()).diagram.initial == "INIT"
    assert drawing.save(tmp_path / "m.dot")
    with pytest.raises(BadInput):
        drawing.save(tmp_path / "m.gif")
    with pytest.raises(BadInput, match="must be a mapping"):
        machine_diagram({"initial": "A", "states": 3, "transitions": {}})


@draws
@pytest.mark.slow
def test_a_notebook_shows_it():
    drawing = machine_diagram("fail_fast")
    bundle = drawing._repr_mimebundle_()
    assert bundle["text/plain"] == str(drawing)
    assert bundle["image/svg+xml"] == drawing._repr_svg_()
    assert "<svg" in bundle["image/svg+xml"]


def test_a_notebook_without_pictures(no_program):
    drawing = Drawing(diagram_of(spec_of("quirks")))
    assert list(drawing._repr_mimebundle_()) == ["text/plain"]
    assert drawing._repr_svg_() is None
    assert not drawing.save("m.png")


def test_the_notebook_extension():
    """IPython looks formatters up by the names of classes; this is its part in that."""
    import elastic_fsm

    class Formatter(dict):
        def for_type_by_name(self, module, name, function):
            self[module, name] = function

    class IPython:
        class display_formatter:
            mimebundle_formatter = Formatter()

    elastic_fsm.load_ipython_extension(IPython)
    found = IPython.display_formatter.mimebundle_formatter
    spec, machine = spec_of("quirks"), shipped_machine()
    for shown in (spec, machine):
        key = type(shown).__module__, type(shown).__name__
        assert found[key](shown)["text/plain"].startswith("machine: ")
