"""Secrets: nothing that is shown or saved of a run holds one, and the workers get them all."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import yaml

from elastic_fsm.config import compose, resolve
from elastic_fsm.config.masking import MASK, hide, masked_texts, secrets_of
from elastic_fsm.declaration import Use
from elastic_fsm.dry_run import describe
from elastic_fsm.machine import load_machine
from elastic_fsm.plugins import rules_for
from elastic_fsm.preparing import prepare
from elastic_fsm.problems import BadInput
from elastic_fsm.server.interrupts import Interrupts
from elastic_fsm.server.setup import Setup

COMMAND = ["dump.py", "--api-key", "HUNTER22", "--token=abc", "https://u:HUNTER44@h/x"]
URL = f"https://u:{MASK}@h/x"
SHOWN = ["dump.py", "--api-key", MASK, f"--token={MASK}", URL]


@pytest.fixture
def prepared(folder):
    """Prepare a run of ``dump.py``: ``prepared("spec.env.A=b", command=[…])``."""
    folder("dump.py", "")

    def run(*words: str, command=(), job=None, module=False):
        return prepare(compose(words, job_file=job), command, module=module)

    return run


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--password", "abc", "--token=x1"], ["--password", MASK, f"--token={MASK}"]),
        (["-pass", "-x", "api_key=a\nb"], ["-pass", MASK, f"api_key={MASK}"]),
        (["--api-key", "--lr", "0.1"], ["--api-key", "--lr", "0.1"]),
        (["--api-key="], [f"--api-key={MASK}"]),
        (["--tokenizer", "keep", "token", "keep", "--token"], None),
        (["--max-tokens", "4096", "--num-key-value-heads=8", "--token", "1e-3"], None),
        (["--password", "1234", "--pwd=5"], ["--password", MASK, f"--pwd={MASK}"]),
    ],
)
def test_the_value_after_an_option_is_hidden_whatever_its_length(words, shown):
    assert hide(words, ()) == (words if shown is None else shown)


def test_short_values_in_a_configuration_and_in_the_word_that_set_them():
    composed = compose(["spec.args=[--password,abc,--token=x1]"])
    assert composed.masked()["spec"]["args"] == ["--password", MASK, f"--token={MASK}"]
    line = next(
        line for line in composed.to_yaml(origin=True).splitlines() if line.startswith("  args:")
    )
    assert "abc" not in line
    assert "x1" not in line
    assert line.endswith(f"# command line: spec.args={MASK}")


def test_a_short_value_is_not_looked_for_in_other_text():
    assert secrets_of({"args": ["--token", "abc", "--token", "abcdef"]}) == ("abcdef",)


@pytest.mark.parametrize(
    "words",
    [
        ["rendezvous.options={user: bob, password: SECRETEEE, pin: {key: k12}}"],
        [
            f"rendezvous.options.{word}"
            for word in ("user=bob", "password=SECRETEEE", "pin.key=k12")
        ],
    ],
)
def test_options_of_the_rendezvous(words):
    composed = compose(words)
    options = {"user": "bob", "password": MASK, "pin": {"key": MASK}}
    assert composed.masked()["rendezvous"]["options"] == options
    assert composed.values["rendezvous"]["options"]["password"] == "SECRETEEE"
    text = composed.to_yaml(origin=True)
    assert "SECRETEEE" not in text
    assert "k12" not in text


def test_a_secret_that_is_named_in_one_place_is_hidden_in_the_others():
    words = ["rendezvous.options.password=SECRETEEE", "run_dir=/r/SECRETEEE"]
    assert compose(words).masked()["run_dir"] == f"/r/{MASK}"


def test_our_own_keys_are_no_names_of_secrets():
    assert compose(["logs.pass_through=true"]).masked()["logs"]["pass_through"] is True
    machine = {"machine": {"states": {"INIT": {"timeouts": {"token_overdue": "30s"}}}}}
    assert resolve(machine).masked()["machine"]["states"]["INIT"]["timeouts"] == {
        "token_overdue": "30s"
    }


# -- actions: the masked configuration and the journal --------------------------------------------

ACTIONS = [
    {"run_command": {"argv": ["echo", "--token", "ab", "https://u:cd@h/x", "--api-key=ef"]}},
    {"run_command": ["say", "SECRETAAA"]},
    {"post": {"url": "h", "token": "gh", "quietly": True}},
    "stop_workers",
]


def test_parameters_of_actions():
    values = {"spec": {"env": {"HF_TOKEN": "SECRETAAA"}}}
    composed = resolve(values | {"machine": {"states": {"SUCCEEDED": {"on_enter": ACTIONS}}}})
    assert composed.masked()["machine"]["states"]["SUCCEEDED"]["on_enter"] == [
        {"run_command": {"argv": ["echo", "--token", MASK, URL, f"--api-key={MASK}"]}},
        {"run_command": ["say", MASK]},
        {"post": {"url": "h", "token": MASK, "quietly": True}},
        "stop_workers",
    ]


def test_the_journals_texts_are_those_of_the_masked_declaration():
    """Else ``replay`` would find a difference."""
    uses = [Use(a) if isinstance(a, str) else Use(*next(iter(a.items()))) for a in ACTIONS]
    shown = hide({"on_enter": ACTIONS}, ("SECRETAAA",))["on_enter"]
    texts = masked_texts(uses, ("SECRETAAA",))
    assert texts == {
        str(use): str(replace(use, arguments=next(iter(action.values()))))
        for use, action in zip(uses, shown, strict=True)
        if use.arguments is not None
    }
    assert texts["run_command(say, SECRETAAA)"] == f"run_command(say, {MASK})"


def test_most_machines_have_no_secret_and_their_texts_stay():
    composed = compose([])
    machine = load_machine(composed.values["machine"], rules_for([]), composed.values)
    assert masked_texts(machine.rules.actions, composed.secrets) == {}


# -- the command at the end of the line -----------------------------------------------------------


def test_a_dry_run_hides_what_the_command_holds(prepared):
    text = describe(prepared("spec.env.COPY=HUNTER22", "run_dir=/r/HUNTER22", command=COMMAND))
    assert shlex.join(SHOWN) in text
    assert f"COPY={shlex.quote(MASK)}" in text
    for secret in ("HUNTER", "abc"):
        assert secret not in text


def test_a_dry_run_hides_arguments_of_a_file(prepared, folder):
    job = folder("job.yaml", yaml.safe_dump({"spec": {"entrypoint": "dump.py", "args": COMMAND}}))
    assert shlex.join(SHOWN) in describe(prepared(job=job))


def test_the_workers_get_them_all(prepared):
    run = prepared("spec.env.TOKEN=HUNTER55", command=COMMAND)
    assert [run.spec.entrypoint, *run.spec.args] == COMMAND
    assert run.spec.env["TOKEN"] == "HUNTER55"


def test_what_is_saved_holds_the_command_and_no_secret(prepared):
    saved = yaml.safe_load(prepared(command=COMMAND).composed.to_yaml())["spec"]
    assert [saved["entrypoint"], *saved["args"]] == SHOWN
    assert saved["module"] is False


@pytest.mark.parametrize(
    "args",
    [
        ["--x", "a=b", "", "${x}", "${oc.env:HOME}", "${local_rank}", "???", "0115", "yes", "[x"],
        ["a\nb", "é", " spaced ", "back\\slash", "# no", "a: b", "~/x", "'q'", '"'],
        [],
    ],
)
def test_what_is_saved_can_be_run_again(prepared, folder, args):
    first = prepared(command=["dump.py", *args])
    again = prepared(job=folder("run.yaml", first.composed.to_yaml()))
    assert again.spec == first.spec
    assert again.values == first.values


@pytest.mark.parametrize(
    ("words", "command", "path"),
    [
        (["spec.env.HF_TOKEN=abcdefgh"], ["dump.py"], "spec.env.HF_TOKEN"),
        ([], ["dump.py", "--token=abcdefgh"], "spec.args"),
        ([], ["dump.py", "https://u:pw@h/x"], "spec.args"),
    ],
)
def test_no_worker_gets_a_mask(prepared, folder, words, command, path):
    saved = folder("run.yaml", prepared(*words, command=command).composed.to_yaml())
    with pytest.raises(BadInput, match=f"{path}: was hidden when it was saved") as refused:
        prepared(job=saved)
    assert refused.value.problems[0].where.startswith("run.yaml:")
    given = ["spec.env.HF_TOKEN=abcdefgh"] if words else []
    assert prepared(*given, job=saved, command=["dump.py", "***"]).spec.args == ["***"]


def test_a_module_is_run_again_as_a_module(prepared, folder):
    first = prepared(command=["json.tool", "--help"], module=True)
    again = prepared(job=folder("run.yaml", first.composed.to_yaml()))
    assert again.spec.module
    assert again.spec == first.spec


def test_a_command_takes_the_place_of_a_files_in_what_is_saved(prepared, folder):
    job = folder("job.yaml", "spec: {entrypoint: json.tool, module: true, args: [--help]}\n")
    run = prepared(job=job, command=["dump.py", "a"])
    saved = yaml.safe_load(run.composed.to_yaml())["spec"]
    assert (saved["entrypoint"], saved["args"], saved["module"]) == ("dump.py", ["a"], False)


def test_the_journal_of_a_run_in_a_program(folder):
    rule = "{run_command: {argv: [echo, --token, ab]}}"
    words = ["run_dir=runs", f"machine.states.SUCCEEDED.on_enter=[{rule}]"]
    setup = Setup.of(words, None, coarse=False)
    (use,) = setup.machine().spec.states["SUCCEEDED"].on_enter
    with setup.running("r", Interrupts([])) as running:
        running.journal.write({"actions": [str(use)]})
        text = running.folder.journal.read_text()
    assert text.count("'--token', '***'") == 1
    assert "'ab'" not in text
    assert '"ab"' not in text
