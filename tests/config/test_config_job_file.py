"""A job file: any name, anywhere, beside anything; and every way to get it wrong."""

from __future__ import annotations

import pytest

from elastic_fsm.config import compose

MINE = """\
defaults: [elastic]
transitions:
  mine: {trigger: worker_exited, source: [HEALTHY], dest: FAILED}
"""


@pytest.mark.parametrize("name", ["job.yaml", "my job-1.yaml", "run.yaml", "config.yaml", "j.yml"])
def test_no_defaults_are_needed(folder, name):
    job = folder(name, "spec: {max_restarts: 2}\nlogs: {mode: files}\n")
    values = compose([], job_file=job).values
    assert values["spec"]["max_restarts"] == 2
    assert values["logs"]["mode"] == "files"
    assert values["logs"]["tail_lines"] == 20
    assert values["machine"] == compose([]).values["machine"]


def test_anywhere(folder, tmp_path):
    folder("far/away/job.yaml", "spec: {role: r}\n")
    assert compose([], job_file="far/away/job.yaml").values["spec"]["role"] == "r"
    absolute = tmp_path / "far/away/job.yaml"
    assert compose([], job_file=absolute).values["spec"]["role"] == "r"


@pytest.mark.parametrize(
    "defaults",
    [
        "[{machine: fail_fast}, {logs: files}]",
        "[run, {machine: fail_fast}, {logs: files}, _self_]",
        "[_self_, {override machine: fail_fast}, {/logs: files}]",
        "[elastic_fsm/run, {elastic_fsm/machine: fail_fast}, {override /logs: files}]",
    ],
)
def test_groups_are_chosen_plainly(folder, defaults):
    job = folder("job.yaml", f"defaults: {defaults}\nlogs: {{tail_lines: 3}}\n")
    values = compose([], job_file=job).values
    assert values["machine"] == compose(["machine=fail_fast"]).values["machine"]
    assert (values["logs"]["mode"], values["logs"]["tail_lines"]) == ("files", 3)


def test_the_command_line_wins(folder):
    job = folder("job.yaml", "defaults: [{logs: files}]\nspec: {max_restarts: 2}\n")
    values = compose(["logs=console", "spec.max_restarts=5"], job_file=job).values
    assert values["logs"]["mode"] == "console"
    assert values["spec"]["max_restarts"] == 5


def test_a_machine_beside_the_job_file_extends_ours(folder):
    folder("machine/mine.yaml", MINE)
    plain = compose([]).values["machine"]
    chosen = compose([], job_file=folder("job.yaml", "defaults: [{machine: mine}]\n"))
    typed = compose(["machine=mine"], job_file=folder("other.yaml", ""))
    assert chosen.values["machine"] == typed.values["machine"]
    transitions = dict(chosen.values["machine"]["transitions"])
    assert transitions.pop("mine")["dest"] == "FAILED"
    assert transitions == plain["transitions"]
    assert chosen.origin("machine.transitions.mine.dest") == "machine/mine.yaml:3"


def test_nothing_leaks_in_from_another_application(folder):
    folder("config.yaml", "db: {host: x}\n")
    folder("machine/elastic.yaml", "broken: [\n")
    folder("logs/files.yaml", "nope: 1\n")
    folder("logs/tee.yaml", "nope: 1\n")
    folder("run.yaml", "db: 1\n")
    folder("schema.yaml", "db: 1\n")
    folder("run_dir/x.yaml", "db: 1\n")
    folder("spec.yaml", "db: 1\n")
    job = folder("job.yaml", "defaults: [{logs: files}]\n")
    assert compose([], job_file=job).values == compose(["logs=files"]).values
    values = compose(["run_dir=x", "logs=tee"], job_file=job).values
    assert values == compose(["run_dir=x"]).values


def test_two_job_files_share_a_third(folder):
    folder(
        "common.yaml", "defaults: [{machine: fail_fast}, {logs: files}]\nspec: {role: c, cwd: d}"
    )
    first = folder("a.yaml", "defaults: [common]\nspec: {role: a}\n")
    second = folder("b.yaml", "defaults: [common, {logs: console}]\n")
    one, two = (compose([], job_file=job).values for job in (first, second))
    assert (one["spec"]["role"], one["spec"]["cwd"], one["logs"]["mode"]) == ("a", "d", "files")
    assert (two["spec"]["role"], two["spec"]["cwd"], two["logs"]["mode"]) == ("c", "d", "console")
    assert one["machine"] == compose(["machine=fail_fast"]).values["machine"]


def test_a_group_of_the_users_own_for_global_values(folder):
    folder("experiment/big.yaml", "# @package _global_\nspec: {max_restarts: 9, env: {A: 0115}}\n")
    job = folder("job.yaml", "")
    values = compose(["+experiment=big"], job_file=job).values
    assert values["spec"]["max_restarts"] == 9
    assert values["spec"]["env"] == {"A": "0115"}


def test_empty_files_are_fine(folder):
    for text in ("", "# nothing\n", "---\n", "{}\n"):
        assert compose([], job_file=folder("job.yaml", text)).values == compose([]).values


def test_numbers_where_text_is_wanted(folder):
    job = folder("job.yaml", "run_id: 20240101_120000\nspec: {role: 0115, cwd: null}\n")
    values = compose([], job_file=job).values
    assert values["run_id"] == "20240101_120000"
    assert values["spec"]["role"] == "0115"
    assert values["spec"]["cwd"] is None


def test_mistakes_are_named_together_with_their_lines(folder, refused):
    job = folder(
        "sub/job.yaml",
        "defaults:\n  - machine: fail_fast\nspec:\n  max_restart: 2\n  local_world_size: zero\n"
        "nope: {deep: 1, er: 2}\nstop: {grace: x}\nlogs: 5\nspec2: 1\n",
    )
    found = {p.path: (p.where, p.fix) for p in refused(job=job)}
    assert {path: where for path, (where, _) in found.items()} == {
        "spec.max_restart": "sub/job.yaml:4",
        "spec.local_world_size": "sub/job.yaml:5",
        "nope": "sub/job.yaml:6",
        "stop.grace": "sub/job.yaml:7",
        "logs": "sub/job.yaml:8",
        "spec2": "sub/job.yaml:9",
    }
    assert "spec.max_restarts" in found["spec.max_restart"][1]


@pytest.mark.parametrize(
    ("text", "where", "what", "fix"),
    [
        ("spec:\n  a: b: c\n", "job.yaml:2:7", "mapping values", "a: b: c"),
        ("spec:\n\trole: x\n", "job.yaml:2:1", "cannot start", "tab"),
        ("spec: [1\n", "job.yaml:2:1", "", "too early"),
        ("spec: {role: a}\nspec: {role: b}\n", "job.yaml:2", "first in line 1", "remove"),
        ("machine: {states: {on: {}}}\n", "job.yaml:1", "the key on as bool", "quote"),
        ("- a\n", "job.yaml", "a list", "key: value"),
        ("text\n", "job.yaml", "a single value", "key: value"),
        ("a: 1\n---\nb: 1\n", "job.yaml:2:1", "expected a single document", "---"),
        ("spec: !!python/name:os.system {}\n", "job.yaml:1", "!!python/name", "plain text"),
        ("machine: {states: {A: {x: =}}}\n", "job.yaml:1", "YAML reads =", "quote"),
        ("spec: &a {args: [*a]}\n", "job.yaml", "holds itself", "alias"),
        ("plugins: ${spec.role}\n", "job.yaml:1", "'default' does not fit", "a list"),
        ("machine: {doc: '${x'}\n", "job.yaml:1", "", "${"),
        ("spec: {role: [1]}\n", "job.yaml:1", "does not fit", "text"),
        ("spec: {args: x}\n", "job.yaml:1", "'x' does not fit", "a list"),
        ("spec: {args: [{a: 1}]}\n", "job.yaml:1", "not one text", "single value"),
        ("spec: {env: {A: [1]}}\n", "job.yaml:1", "not one text", "single value"),
        ("spec: 3\n", "job.yaml:1", "3 does not fit", "a mapping"),
        ("plugins: 3\n", "job.yaml:1", "3 does not fit", "a list"),
        ("machine: 3\n", "job.yaml:1", "3 does not fit", "a mapping"),
        ("spec:\n  role: ???\n", "job.yaml:2", "no value", "spec.role="),
        ("spec: {role: null}\n", "job.yaml:1", "null does not fit", "text"),
        ("run_dir: ${nope}\n", "job.yaml:1", "nope", "root"),
        ("run_dir: ${nope\n", "job.yaml:1", "", ""),
        ("machine: '${nope}'\n", "job.yaml:1", "'${nope}' does not fit", "a mapping"),
        ("machine: '${spec}'\n", "job.yaml:1", "'${spec}' does not fit", "a mapping"),
        ("machine: '${..}'\n", "job.yaml:1", "'${..}' does not fit", "a mapping"),
        ("spec: {worker_env: {0: null}}\n", "job.yaml:1", "null does not", "such as {NAME: text}"),
        ("spec: {worker_env: {0: [x]}}\n", "job.yaml:1", "['x'] does not", "such as {NAME: text}"),
        ("spec: {worker_env: {0: x}}\n", "job.yaml:1", "'x' does not", "such as {NAME: text}"),
        ("spec: {worker_env: {null: 1}}\n", "job.yaml:1", "None is no local rank", "{0: {NAME"),
        ("spec: {worker_env: {a: {B: c}}}\n", "job.yaml:1", "'a' is no local rank", "{0: {NAME"),
        ("defaults: [{machine: }]\n", "job.yaml", "its entry is empty", "{machine: elastic}"),
        ("defaults: [{machine: 3}]\n", "job.yaml", "Unsupported item value", "defaults: ["),
        (
            "defaults: [{machine: elastic}, {override /machine: fail_fast}]\n",
            "job.yaml",
            "machine is chosen more than once: 'elastic' and 'fail_fast'",
            "keep one of them",
        ),
        ("defaults: 3\n", "job.yaml", "not a list", "defaults: ["),
        ("defaults: [3]\n", "job.yaml", "cannot use 3", "machine: fail_fast"),
        ("defaults: [{machine: mine}]\n", "job.yaml:1", "no machine called 'mine'", "elastic"),
        ("defaults:\n  - commn\n", "job.yaml:2", "commn.yaml", "beside the job file"),
        ("defaults: [job]\n", "job.yaml", "circles", "name itself"),
        ("defaults: [{nope: x}]\n", "job.yaml:1", "nope/x", "beside the job file"),
        ("spec.max_restarts: 2\n", "job.yaml:1", "dots do not nest", "spec: {max_restarts: …}"),
        ("machine.states.A: {x: 1}\n", "job.yaml:1", "dots", "machine: {states: {A: {x: …}}}"),
        ("hydra: {run: {dir: x}}\n", "job.yaml:1", "no such key", ""),
    ],
)
def test_files_with_one_mistake(folder, refused, text, where, what, fix):
    (problem,) = refused(job=folder("job.yaml", text))
    assert problem.where == where or problem.where.startswith(where + ":")
    assert what in problem.what
    assert fix in problem.fix


def test_files_that_cannot_be_read(folder, refused, tmp_path):
    folder("job.yaml", "")
    (missing,) = refused(job=tmp_path / "jbo.yaml")
    assert "no such file" in missing.what
    assert "job.yaml" in missing.fix
    (lost,) = refused(job=tmp_path / "nowhere/job.yaml")
    assert "no folder" in lost.fix
    (directory,) = refused(job=tmp_path)
    assert "directory" in directory.what
    (tmp_path / "latin.yaml").write_bytes(b"run_dir: caf\xe9\n")
    (latin,) = refused(job=tmp_path / "latin.yaml")
    assert "not UTF-8" in latin.what
    assert "0xe9" in latin.what


def test_mistakes_in_a_chosen_group_file(folder, refused):
    folder("spec/mine.yaml", "max_restart: 1\nrole: [x]\n")
    problems = refused(job=folder("job.yaml", "defaults: [{spec: mine}]\n"))
    assert {(p.path, p.where) for p in problems} == {
        ("spec.max_restart", "spec/mine.yaml:1"),
        ("spec.role", "spec/mine.yaml:2"),
    }


DEFAULTS = {
    "{a: b}": ("machine/mine.yaml", "defaults must be a list", "defaults: ["),
    "[_self_, _self_]": ("machine/mine.yaml", "Duplicate _self_", "mend the list"),
    "['${x}']": ("machine/mine.yaml:1", "interpolation 'machine/${x}'", "mend the list"),
    "[{a: b, c: d}]": ("machine/mine.yaml", "Too many keys", "defaults: ["),
    "[other]": (
        "machine/mine.yaml",
        "in circles, among machine/mine.yaml, machine/other.yaml",
        "a file must not name itself, nor one that names it",
    ),
}


@pytest.mark.parametrize("defaults", DEFAULTS)
def test_a_list_of_defaults_is_blamed_in_the_file_that_has_it(folder, refused, defaults):
    folder("machine/mine.yaml", f"defaults: {defaults}\n")
    folder("machine/other.yaml", "defaults: [mine]\n")
    where, what, fix = DEFAULTS[defaults]
    (problem,) = refused("machine=mine", job=folder("job.yaml", ""))
    assert (problem.path, problem.where) == ("defaults", where)
    assert what in problem.what
    assert fix in problem.fix


OWN_GROUP = {
    "cluster=a": ("nothing is chosen yet", "+cluster=a"),
    "cluster=2": ("nothing is chosen yet", "+cluster="),
    "~cluster": ("nothing to remove", "leave it out"),
    "+cluster=c": ("no cluster called 'c'", "known: a"),
}


@pytest.mark.parametrize("word", OWN_GROUP)
def test_a_choice_that_was_typed_is_blamed_on_the_command_line(folder, refused, word):
    folder("cluster/a.yaml", "# @package _global_\nspec: {role: a}\n")
    (problem,) = refused(word, job=folder("job.yaml", "spec: {cwd: c}\n"))
    assert (problem.path, problem.where) == ("cluster", "command line")
    assert OWN_GROUP[word][0] in problem.what
    assert OWN_GROUP[word][1] in problem.fix


def test_a_choice_is_added_once(folder, refused):
    for name in ("a", "2"):
        folder(f"cluster/{name}.yaml", f"# @package _global_\nspec: {{role: r{name}}}\n")
    job = folder("job.yaml", "defaults: [{cluster: a}]\n")
    assert compose(["cluster=2"], job_file=job).values["spec"]["role"] == "r2"
    (problem,) = refused("+cluster=2", job=job)
    assert (problem.path, problem.where) == ("cluster", "command line")
    assert (problem.what, problem.fix) == ("is chosen already", "leave the + out")


def test_keys_of_a_group_that_is_no_key_are_found_in_its_file(folder, refused):
    folder("cluster/a.yaml", "nope: 1\n")
    (problem,) = refused("+cluster=a", job=folder("job.yaml", ""))
    assert problem.where == "cluster/a.yaml"
    assert "under 'cluster'" in problem.what
    assert "# @package _global_" in problem.fix


def test_a_file_that_only_names_others_needs_no_place(folder):
    folder("cluster/a.yaml", "defaults: [base]\n")
    folder("cluster/base.yaml", "# @package _global_\nspec: {role: base}\n")
    values = compose(["+cluster=a"], job_file=folder("job.yaml", "")).values
    assert values["spec"]["role"] == "base"


def test_a_byte_order_mark_is_no_mistake(folder, tmp_path):
    job = folder("job.yaml", "\ufeffspec: {role: r}\n")
    assert compose([], job_file=job).values["spec"]["role"] == "r"
