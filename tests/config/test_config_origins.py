"""Where a value came from, and what is hidden when it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from elastic_fsm.config import compose, resolve
from elastic_fsm.config.masking import MASK, is_secret, mask_env
from elastic_fsm.config.paths import conf_dir
from elastic_fsm.problems import Problem

if TYPE_CHECKING:
    from pathlib import Path


def line_of(path: Path, start: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(start))


def test_origins(folder):
    folder("machine/mine.yaml", "defaults: [elastic]\nstates:\n  NEW: {final: true}\n")
    job = folder(
        "job.yaml",
        "defaults: [{machine: mine}]\nspec:\n  max_restarts: 2\n  args:\n    - a\n    - b\n"
        "stop: {grace: 3s, signals: [TERM]}\n",
    )
    words = ["stop.grace=4", "spec.env.A=b", "machine.transitions.x={trigger: t}", "logs=files"]
    words += ["~machine.transitions.reform"]
    composed = compose(words, job_file=job)
    conf = conf_dir() / "elastic_fsm"
    stop, elastic = conf / "stop/default.yaml", conf / "machine/elastic.yaml"
    assert composed.origin("spec.max_restarts") == "job.yaml:3"
    assert composed.origin("spec.args.1") == "job.yaml:6"
    assert composed.origin("stop.signals") == "job.yaml:7"
    assert composed.origin("stop.grace") == "command line: stop.grace=4"
    assert composed.origin("spec.env.A") == "command line: spec.env.A=b"
    assert composed.origin("machine.transitions.x.trigger") == f"command line: {words[2]}"
    assert composed.origin("machine.states.NEW.final") == "machine/mine.yaml:3"
    assert composed.origin("stop.window") == f"{stop}:{line_of(stop, 'window:')}"
    assert composed.origin("machine.states.INIT.doc").startswith(f"{elastic}:")
    assert composed.origin("logs.mode") == f"{conf / 'logs/files.yaml'}:3"
    assert composed.origin("machine.transitions.reform.dest") == "default"
    assert composed.origin("no.such.key") == "default"


def test_a_list_takes_the_place_of_another(folder):
    job = folder("job.yaml", "stop: {signals: [TERM]}\n")
    assert compose([], job_file=job).origin("stop.signals.3") == "default"


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("machine.transitions.restart.conditions.0=foo", "machine.transitions.restart.conditions"),
        ("spec.args.1=x", "spec.args"),
        ("stop.signals.0=INT", "stop.signals"),
    ],
)
def test_an_entry_that_was_typed_makes_a_list_the_command_lines(folder, word, path):
    job = folder("job.yaml", "spec: {args: [a, b]}\nstop: {signals: [TERM]}\n")
    composed = compose([word], job_file=job)
    assert composed.origin(path) == f"command line: {word}"
    assert composed.locate(Problem("x", path=path)).where == f"command line: {word}"
    (line,) = [line for line in composed.to_yaml(origin=True).splitlines() if word in line]
    assert line.strip().startswith(f"{path.rpartition('.')[2]}: [")


def test_a_finding_without_a_place_gets_the_nearest(folder):
    folder("machine/mine.yaml", "defaults: [elastic]\nstates:\n  NEW:\n    on_enter: [x]\n")
    composed = compose(["machine=mine"], job_file=folder("job.yaml", ""))
    lost = composed.locate(Problem("no dest", path="machine.states.NEW.worker_state"))
    assert lost.where == "machine/mine.yaml:3"
    assert composed.locate(Problem("x", path="machine.states.NEW.on_enter.0")).where.endswith(":4")
    kept = Problem("x", path="machine.states.NEW", where="elsewhere")
    assert composed.locate(kept) == kept
    assert composed.locate(Problem("x", path="nowhere")).where == ""
    assert composed.locate(Problem("x")).where == ""


def test_what_stands_in_one_word_comes_from_that_word():
    words = ["spec.env={A: b}", "machine.states.INIT={timeouts: {x: 3}}"]
    composed = compose(words)
    for word, paths in {
        words[0]: ["spec.env.A"],
        words[1]: ["machine.states.INIT.timeouts", "machine.states.INIT.timeouts.x"],
    }.items():
        assert {composed.origin(path) for path in paths} == {f"command line: {word}"}


def test_the_calling_program_is_named():
    composed = resolve({"spec": {"max_restarts": 3}})
    assert composed.origin("spec.max_restarts") == "the calling program"


def test_relative_names_below_the_current_folder(monkeypatch):
    monkeypatch.chdir(conf_dir().parent)
    assert compose([]).origin("run_dir").startswith("conf/elastic_fsm/run.yaml:")


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN",
        "hf_token",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PASSWD",
        "API_KEY",
        "ApiKey",
        "private_key",
    ],
)
def test_secret_names(name):
    assert is_secret(name)
    assert mask_env({name: "x", "LANG": "C"}) == {name: MASK, "LANG": "C"}


def test_names_that_only_look_secret():
    assert not is_secret("TOKENIZERS_PARALLELISM")
    assert not is_secret("KEYBOARD")


def test_secrets_are_hidden_everywhere(monkeypatch, folder):
    monkeypatch.setenv("OUTER_TOKEN", "outer-secret")
    job = folder(
        "job.yaml",
        "run_dir: /r/${oc.env:OUTER_TOKEN}/${spec.env.API_KEY}\n"
        "spec:\n  env: {API_KEY: inner-secret, A: x-inner-secret-y, SHORT_TOKEN: ab}\n"
        "  worker_env: {0: {PASSWORD: pw}}\n  role: http://user:pass@host/x\n"
        "  args: [--api-key, third-secret, --token=fourth-secret, --tokenizer, keep-this, ab]\n",
    )
    composed = compose([], job_file=job)
    text = composed.to_yaml() + composed.to_yaml(origin=True) + repr(composed.masked())
    for secret in ("outer-secret", "inner-secret", "third-secret", "fourth-secret", "pass@", "pw"):
        assert secret not in text
    masked = composed.masked()
    assert masked["run_dir"] == f"/r/{MASK}/{MASK}"
    assert masked["spec"]["env"] == {"API_KEY": MASK, "A": f"x-{MASK}-y", "SHORT_TOKEN": MASK}
    assert masked["spec"]["role"] == f"http://user:{MASK}@host/x"
    assert masked["spec"]["args"] == [
        *["--api-key", MASK, f"--token={MASK}", "--tokenizer", "keep-this", "ab"]
    ]
    assert composed.values["spec"]["env"]["API_KEY"] == "inner-secret"


def test_secrets_are_hidden_in_origins_too():
    text = compose(["spec.env.TOKEN=hunter2222", "run_dir=/r/hunter2222"]).to_yaml(origin=True)
    assert "hunter2222" not in text


def test_words_that_are_not_unicode_can_be_shown():
    composed = compose([b"spec.env.X=\xff".decode("utf-8", "surrogateescape")])
    for origin in (True, False):
        composed.to_yaml(origin=origin).encode("utf-8")


@pytest.mark.parametrize("origin", [True, False])
def test_yaml_reads_back(folder, origin):
    words = ["spec.env.A=0115", "spec.env.ON=yes", "spec.args=['', '# x', 'a: b', é, '${x}']"]
    words += ["spec.worker_env.0.B=1e3", "spec.env.N=a\nb"]
    first = compose(words)
    text = first.to_yaml(origin=origin)
    assert yaml.safe_load(text) == first.masked()
    again = compose([], job_file=folder("job.yaml", text))
    assert again.values == first.values
