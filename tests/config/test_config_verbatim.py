"""A worker's arguments and variables arrive as they were typed, from wherever they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_fsm.config import compose, resolve
from elastic_fsm.config.verbatim import decode, encode, text_of

TEXTS = [
    "a=b,{c}@#%",
    "true",
    "1e3",
    "0115",
    "é",
    "~/x",
    '"quoted"',
    "'q'",
    "${x}",
    "${oc.env:HOME}",
    "???",
    "",
    " spaced ",
    "back\\slash\\",
    "a\nb",
    "[x",
    "null",
    "--lr=1",
    "a: b",
    "# no comment",
]


@pytest.mark.parametrize("sign", ["", "+", "++"])
@pytest.mark.parametrize("text", TEXTS)
def test_variable_on_the_command_line(text, sign):
    words = [f"{sign}spec.env.NAME={text}", f"{sign}spec.worker_env.0.A.B={text}"]
    spec = compose(words).values["spec"]
    assert spec["env"] == {"NAME": text}
    assert spec["worker_env"] == {0: {"A.B": text}}


@pytest.mark.parametrize("text", TEXTS)
def test_text_in_a_file(text, folder):
    # JSON's strings are YAML's double-quoted ones.
    quoted = json.dumps(text, ensure_ascii=False)
    job = folder(
        "job.yaml",
        f"spec:\n  entrypoint: {quoted}\n  args: [{quoted}, x]\n  env: {{A: {quoted}}}\n"
        f"  worker_env: {{0: {{B: {quoted}}}}}\n",
    )
    spec = compose([], job_file=job).values["spec"]
    assert spec["entrypoint"] == text
    assert spec["args"] == [text, "x"]
    assert spec["env"] == {"A": text}
    assert spec["worker_env"] == {0: {"B": text}}


def test_plain_scalars_in_a_file_keep_their_spelling(folder):
    plain = ["0115", "1e3", "true", "yes", "${x}", "???", "a=b", "null", "~", "1_000", "2024-01-01"]
    plain += [r"back\slash", "0x1F", ".5", "12:30:00"]
    lines = "".join(f"    - {text}\n" for text in plain)
    env = "".join(f"    V{index}: {text}\n" for index, text in enumerate(plain))
    job = folder("job.yaml", f"spec:\n  args:\n{lines}  env:\n{env}    ON: no\n    E:\n")
    spec = compose([], job_file=job).values["spec"]
    assert spec["args"] == plain
    assert spec["env"] == {f"V{i}": text for i, text in enumerate(plain)} | {"ON": "no", "E": ""}


def test_anchors_and_merge_keys(folder):
    job = folder(
        "job.yaml",
        "spec:\n  env: &e\n    A: 0115\n    B: 1e3\n"
        "  worker_env:\n    0:\n      <<: *e\n      B: yes\n",
    )
    spec = compose([], job_file=job).values["spec"]
    assert spec["env"] == {"A": "0115", "B": "1e3"}
    assert spec["worker_env"] == {0: {"A": "0115", "B": "yes"}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.json", '{"spec": {"worker_env": {"0": {"A.B": "1e3"}}}}'),
        ("job.yaml", "spec: {worker_env: {'0': {A.B: 1e3}}}"),
    ],
)
def test_a_local_rank_may_be_written_as_text(folder, name, text):
    composed = compose([], job_file=folder(name, text))
    assert composed.values["spec"]["worker_env"] == {0: {"A.B": "1e3"}}
    assert composed.origin("spec.worker_env.0.A.B") == f"{name}:1"
    program = json.loads('{"spec": {"worker_env": {"0": {"A.B": "1e3"}}}}')
    assert resolve(program).values["spec"]["worker_env"] == {0: {"A.B": "1e3"}}


def test_the_variables_of_one_worker_in_one_word():
    words = ["spec.worker_env.0={A: 1e3}", "spec.worker_env={'0': {B: yes}}"]
    assert compose(words).values["spec"]["worker_env"] == {0: {"A": "1e3", "B": "yes"}}


def test_the_command_line_wins_over_the_file(folder):
    job = folder("job.yaml", "spec: {env: {A: file, B: file}, args: [one, two]}\n")
    spec = compose(["spec.env.A=0x1", "spec.args.1=1e3"], job_file=job).values["spec"]
    assert spec["env"] == {"A": "0x1", "B": "file"}
    assert spec["args"] == ["one", "1e3"]


def test_brackets_on_the_command_line_hold_text():
    words = ["spec.args=[--lr, 1e3, yes, '']", "spec.env={A: 0115, B: no}"]
    spec = compose([*words, "spec.env.C=3", "spec.entrypoint=a=b"]).values["spec"]
    assert spec["args"] == ["--lr", "1e3", "yes", ""]
    assert spec["env"] == {"A": "0115", "B": "no", "C": "3"}
    assert spec["entrypoint"] == "a=b"


def test_no_entrypoint():
    assert compose(["spec.entrypoint=null"]).values["spec"]["entrypoint"] is None


def test_text_can_be_referred_to(folder):
    job = folder("job.yaml", "spec: {env: {A: 0115}}\nrun_dir: runs/${spec.env.A}\n")
    assert compose([], job_file=job).values["run_dir"] == "runs/0115"


@given(st.text(), st.text())
def test_encoding_is_reversible_inside_other_text(text, other):
    other = other.replace("\ue0f0", "").replace("\ue0f1", "")
    assert "$" not in encode(text)
    assert decode({"k": [f"{other}{encode(text)}{other}"]}) == {"k": [f"{other}{text}{other}"]}


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_text_survives_the_command_line(text):
    assert compose([f"spec.env.X={text}"]).values["spec"]["env"] == {"X": text}


def test_words_that_are_not_unicode_survive():
    text = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert compose([f"spec.env.X={text}"]).values["spec"]["env"] == {"X": text}


def test_what_yaml_has_typed_is_written_as_yaml_would():
    assert [text_of(v) for v in (True, False, None, 1, 1e3, "x")] == [
        "true",
        "false",
        "null",
        "1",
        "1000.0",
        "x",
    ]


NAMES = ["a=b", "a b", "a,b", "#7", "Bücher", "[x", "it's", '"quoted"', "a{b", "0115", "x~", "1e3"]


@pytest.mark.parametrize("sign", ["", "++"])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_folders_and_runs_on_the_command_line(name, sign):
    values = compose([f"{sign}{key}={name}" for key in ("run_dir", "run_id", "spec.cwd")]).values
    assert (values["run_dir"], values["run_id"], values["spec"]["cwd"]) == (name, name, name)


def test_names_may_refer_to_other_values():
    values = compose(["run_dir=a=b/${spec.role}", "spec.role=x"]).values
    assert values["run_dir"] == "a=b/x"


def test_no_name():
    values = compose(["run_id=null", "spec.cwd=null"]).values
    assert (values["run_id"], values["spec"]["cwd"]) == (None, None)


def test_the_home_directory(folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    job = folder("job.yaml", 'run_dir: ~/runs\nspec: {cwd: "~"}\n')
    values = compose([], job_file=job).values
    assert (values["run_dir"], values["spec"]["cwd"]) == ("/home/me/runs", "/home/me")
    values = compose(["run_dir=~/a=b", "spec.cwd=x/~/y"]).values
    assert (values["run_dir"], values["spec"]["cwd"]) == ("/home/me/a=b", "x/~/y")
    assert compose(["run_dir=~me"]).values["run_dir"] == "~me"
