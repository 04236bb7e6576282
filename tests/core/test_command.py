"""What a user types: the words of ``run``, the workers' command, and how many workers."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from elastic_fsm import shebang
from elastic_fsm.banner import banner
from elastic_fsm.cli import run_command_line
from elastic_fsm.command import check_command
from elastic_fsm.config import compose
from elastic_fsm.devices import visible_gpus, workers_for_auto
from elastic_fsm.preparing import prepare
from elastic_fsm.problems import BadInput
from elastic_fsm.rundir import RunDir
from elastic_fsm.words import Grammar

split_words = Grammar(
    ["--dry-run"], {"-n": "4", "-c": "job.yaml", "--inject": "crash.txt"}, last="command"
).read

# -- words -------------------------------------------------------------------------------------

VERBATIM = ["a=b", "--rdzv", "x", "@", "%", "${x}", "???", "", "a b", "\\", "-n", "--", "-m", "é"]

# words; overrides; command
SPLIT = {
    "nothing": ([], [], []),
    "a script": (["train.py", "--lr", "0.1"], [], ["train.py", "--lr", "0.1"]),
    "overrides end at the command": (
        ["spec.max_restarts=3", "train.py", "spec.max_restarts=4"],
        ["spec.max_restarts=3"],
        ["train.py", "spec.max_restarts=4"],
    ),
    "short option": (["-n", "4", "t.py"], ["spec.local_world_size=4"], ["t.py"]),
    "short option in one word": (["-n4", "t.py"], ["spec.local_world_size=4"], ["t.py"]),
    "short option with =": (["-n=4", "t.py"], ["spec.local_world_size=4"], ["t.py"]),
    "long option": (["--local-world-size", "auto"], ["spec.local_world_size=auto"], []),
    "long option with =": (["--local-world-size=2"], ["spec.local_world_size=2"], []),
    "the order of overrides stays": (
        ["a=1", "-n", "2", "b=2"], ["a=1", "spec.local_world_size=2", "b=2"], [],
    ),
    "hydra's forms": (
        ["+a.b=1", "++c=2", "~d", "~machine.transitions.reform", "machine=fail_fast", "a@b=c",
         "e/f=g", "h="],
        ["+a.b=1", "++c=2", "~d", "~machine.transitions.reform", "machine=fail_fast", "a@b=c",
         "e/f=g", "h="],
        [],
    ),
    "no overrides": (["./a=b"], [], ["./a=b"]),
    "no override either": (["=b"], [], ["=b"]),
    "a word that begins with a digit": (["1=2"], [], ["1=2"]),
    "a lonely dash": (["-", "x"], [], ["-", "x"]),
    "verbatim after --": (["a=1", "--", *VERBATIM], ["a=1"], VERBATIM),
    "verbatim after the program": (["prog", *VERBATIM], [], ["prog", *VERBATIM]),
    "an empty word is a command": (["", "a=b"], [], ["", "a=b"]),
    "a program after --": (["--", "a=b"], [], ["a=b"]),
    "nothing after --": (["a=1", "--"], ["a=1"], []),
}  # fmt: skip


@pytest.mark.parametrize(("argv", "overrides", "command"), SPLIT.values(), ids=SPLIT)
def test_words_are_taken_apart(argv, overrides, command):
    words = split_words(argv)
    assert (words.overrides, words.command, words.module) == (overrides, command, False)
    assert words.job_file is None
    assert words.flags == set()


def test_a_module_takes_all_that_follows():
    words = split_words(["a=1", "-m", "pkg.train", "-n", "a=b", ""])
    assert words.module
    assert words.command == ["pkg.train", "-n", "a=b", ""]
    assert words.overrides == ["a=1"]


@pytest.mark.parametrize(
    "argv", [["-c", "job.yaml"], ["-cjob.yaml"], ["--config", "job.yaml"], ["--config=job.yaml"]]
)
def test_job_files(argv):
    assert split_words(argv).job_file == Path("job.yaml")


def test_flags():
    words = split_words(["--dry-run", "-h", "train.py", "--dry-run"])
    assert words.flags == {"--dry-run", "--help"}
    assert words.command == ["train.py", "--dry-run"]


def test_values_are_kept_in_order():
    grammar = Grammar(valued={"--check": "FILE", "-c": "job.yaml"}, repeated=["--check"])
    words = grammar.read(["--check", "a.txt", "--check=b.txt", "-c", "job.yaml"])
    assert words.values == {"--check": ["a.txt", "b.txt"], "-c": ["job.yaml"]}
    assert words.path("-c") == Path("job.yaml")
    assert words.path("--output") is None


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["-c", "a.yaml", "--config=b.yaml"], "--config is given twice\n    name one file; it may"),
        (["--inject", "a.txt", "--inject=a.txt"], "--inject is given twice\n    leave one out"),
    ],
)
def test_what_is_said_twice_is_refused(argv, told):
    with pytest.raises(BadInput) as caught:
        split_words(argv)
    assert told in str(caught.value)


def test_a_place_may_look_like_an_override(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grammar = Grammar(last="place")
    assert grammar.read(["a=b"]).overrides == ["a=b"]
    Path("a=b").mkdir()
    assert grammar.read(["a=b"]).place == Path("a=b")


@pytest.mark.parametrize(
    ("argv", "run", "overrides"),
    [
        (["--run"], None, []),
        (["--run", "a=b"], None, ["a=b"]),
        (["--run", "--no-any"], None, []),
        (["--run", "folder"], Path("folder"), []),
        (["--run=folder", "a=b"], Path("folder"), ["a=b"]),
    ],
)
def test_a_value_that_may_be_left_out(argv, run, overrides):
    words = Grammar(["--no-any"], {"--run": "[RUN_DIR]"}).read(argv)
    assert "--run" in words.values
    assert (words.path("--run"), words.overrides) == (run, overrides)


@pytest.mark.parametrize(
    ("line", "what", "fix"),
    [
        ("run --origin true", "unknown option --origin", "--dry-run"),
        ("config --dry-run", "unknown option --dry-run", "--origin"),
        ("config --inject x.txt", "unknown option --inject", "-c"),
        ("config -- true", "unknown option --", "-c"),
        ("config train.py", "'train.py' means nothing here", "leave it out"),
        ("config job.yaml", "'job.yaml' means nothing here", "a job file is named by -c job.yaml"),
        ("check --origin", "unknown option --origin", "--matrix"),
        ("simulate --dry-run x.txt", "unknown option --dry-run", "--whole"),
        ("graph --dry-run", "unknown option --dry-run", "--run"),
        ("status -c job.yaml", "unknown option -c", "--json"),
        ("explain --nproc_per_node=2", "unknown option --nproc_per_node", "local_world_size=2"),
        ("status one two", "'two' means nothing here", "name one only"),
        ("run --dry-run=1 true", "--dry-run takes no value", "write it as --dry-run"),
    ],
)
def test_what_a_verb_does_not_take_is_refused(line, what, fix, capsys):
    assert run_command_line(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert what in err
    assert fix in err


def test_config_has_help(capsys):
    assert run_command_line(["config", "--help"]) == 0
    assert "--origin" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "what", "fix"),
    [
        (["-m"], "-m needs the name of a module", "-m pkg.train"),
        (["-n"], "-n needs a value", "-n 4"),
        (["-n", ""], "-n needs a value", "-n 4"),
        (["--config="], "--config needs a value", "--config job.yaml"),
        (["--dry-rnu"], "unknown option --dry-rnu", "did you mean '--dry-run'?"),
    ],
)
def test_options_that_cannot_be(argv, what, fix):
    with pytest.raises(BadInput) as caught:
        split_words(argv)
    (problem,) = caught.value.problems
    assert (problem.what, problem.fix, problem.where) == (what, fix, "command line")


@pytest.mark.parametrize("argv", [["--nproc_per_node=4"], ["--nproc-per-node", "4"]])
def test_options_of_torchrun_are_answered_with_ours(argv):
    with pytest.raises(BadInput, match=r"unknown option --nproc[\s\S]*spec\.local_world_size"):
        split_words(argv)


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """The findings about a command, run in a folder with a script and a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHON_EXEC", raising=False)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "plain").write_text("")
    (tmp_path / "sub" / "pkg").mkdir(parents=True)
    (tmp_path / "sub" / "own.py").write_text("")
    (tmp_path / "sub" / "pkg" / "main.py").write_text("")
    (tmp_path / "dir.py").mkdir()
    (tmp_path / "dir.py" / "main.py").write_text("")
    for link in ("lost.py", "lost"):
        (tmp_path / link).symlink_to("nowhere")
    for link in ("round.py", "round"):
        (tmp_path / link).symlink_to(link)
    os.mkfifo(tmp_path / "pipe", 0o755)

    def check(entrypoint, **spec):
        base = {"cwd": None, "args": [], "module": False, "env": {}}
        return [str(p) for p in check_command({**base, "entrypoint": entrypoint, **spec})]

    return check


@pytest.mark.parametrize(
    ("entrypoint", "spec"),
    [
        ("train.py", {}),
        ("own.py", {"cwd": "sub"}),
        ("sh", {}),
        ("./tool", {}),
        ("../tool", {"cwd": "sub"}),
        (sys.executable, {}),
        ("json.tool", {"module": True}),
        ("train", {"module": True}),
        ("pkg.main", {"module": True, "cwd": "sub"}),
        ("not_here", {"module": True, "env": {"PYTHONPATH": "/x"}}),
        ("tool", {"env": {"PATH": "."}}),
    ],
)
def test_commands_that_can_be_started(problems, entrypoint, spec):
    assert problems(entrypoint, **spec) == []


@pytest.mark.parametrize(
    ("entrypoint", "spec", "found"),
    [
        (None, {}, "spec.entrypoint: there is no command to run"),
        ("trian.py", {}, "spec.entrypoint: no such file: 'trian.py'\n    did you mean 'train.py'?"),
        ("none/x.py", {}, "spec.entrypoint: no such file: 'none/x.py'\n    looked in "),
        ("train.py", {"cwd": "sub"}, "spec.entrypoint: no such file: 'train.py'"),
        ("no-such-program", {}, "spec.entrypoint: command not found: 'no-such-program'"),
        ("./plain", {}, "spec.entrypoint: './plain' may not be executed"),
        ("sh", {"env": {"PATH": "/none"}}, "spec.entrypoint: command not found: 'sh'"),
        ("no_such.module", {"module": True}, "spec.entrypoint: no module named 'no_such' for "),
        (".relative", {"module": True}, "spec.entrypoint: no module named '' for "),
        ("dir.py", {}, "spec.entrypoint: 'dir.py' is a folder, not a script\n    name the script"),
        ("sub", {}, "spec.entrypoint: 'sub' is a folder, not a program"),
        (
            "./sub",
            {},
            "spec.entrypoint: './sub' is a folder, not a program",
        ),
        (
            "tool",
            {},
            "spec.entrypoint: command not found: 'tool'\n    it is looked for on PATH; the",
        ),
        ("./tol", {}, "spec.entrypoint: no such file: './tol'\n    did you mean 'tool'?"),
        ("lost.py", {}, "spec.entrypoint: 'lost.py' is a link to 'nowhere', which is not there"),
        ("./lost", {}, "spec.entrypoint: './lost' is a link to 'nowhere', which is not there"),
        ("./round", {}, "spec.entrypoint: './round' goes round in a circle of links"),
        ("round.py", {}, "spec.entrypoint: 'round.py' goes round in a circle of links"),
        ("./pipe", {}, "spec.entrypoint: './pipe' is no regular file, and so no program"),
        ("./" + 300 * "x", {}, "spec.entrypoint: no such file: './xxx"),
        ("sh", {"cwd": "none"}, "spec.cwd: the working directory 'none' does not exist"),
        ("./tool", {"cwd": "none"}, "spec.cwd: the working directory 'none' does not exist"),
        ("sh", {"cwd": "plain"}, "spec.cwd: the working directory 'plain' is no folder"),
        ("sh", {"cwd": "lost"}, "spec.cwd: the working directory 'lost' is a link to 'nowhere'"),
        ("sh", {"cwd": "round"}, "spec.cwd: the working directory 'round' goes round in a"),
    ],
)
def test_commands_that_cannot_be_started(problems, entrypoint, spec, found):
    (problem,) = problems(entrypoint, **spec)
    assert problem.startswith(found)


FIRST_LINES = {
    "#!/bin/sh\n": "",
    "#! \t/bin/sh -e\r\n": "",  # the shell's affair
    "#!/bin/sh": "",
    "#!/usr/bin/env sh\n": "",
    "#!/usr/bin/env -S no-such-program -x\n": "",  # more than is looked at
    "#!../../bin/sh": "is to be run by '../../bin/sh', which is not there",
    "#!tool2\n": "",
    "\x7fELF\n": "",
    "\x00": "",
    "#!/no/python\n": "is to be run by '/no/python', which is not there\n    install that, or",
    "#!./sub\n": "is to be run by './sub', which is no program",
    "#!./plain\n": "is to be run by './plain', which is no program",
    "#!./unrun\n": (
        "is to be run by './unrun', which is to be run by '/no/python', which is not there\n"
        "    install that, or mend the first line"
    ),
    "#!./mute\n": "is to be run by './mute', which does not say what runs it\n    write it",
    "#!./odd\n": "is run by a script, which is run by another, and so on for too long\n    name a",
    "#!./link4\n": "",
    "#!./link5\n": "is run by a script, which is run by another, and so on for too long",
    "\xef\xbb\xbf#!/bin/sh\n": "begins with a byte order mark, so that nothing sees its first line",
    "#!\n": "names nothing in its first line that runs it",
    "#!/usr/bin/env no-python\n": "is to be run by 'no-python', which is not on PATH",
    "#!/bin/sh\r\n": "has the line ends of Windows, which are taken for a part of a name\n    use",
    "#!/usr/bin/env sh\r\n": "has the line ends of Windows",
    "#!/usr/bin/env \tsh \t\n": "",
    "#!/usr/bin/env sh -e\n": (
        "is to be run by 'sh -e', which is one word to Linux\n    write #!/usr/bin/env -S sh -e"
    ),
    "#!/usr/bin/env no-python -u\r\n": "has the line ends of Windows",
    "echo hi\n": "does not say what runs it\n    write it into the first line, as in #!/bin/sh",
    "": "does not say what runs it",
}


@pytest.fixture
def formats(tmp_path, monkeypatch):
    """The folder in which Linux tells how it runs programs that do not say it themselves."""
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    for name in ("register", "status"):
        (folder / name).touch()
    monkeypatch.setattr(shebang, "_FORMATS", str(folder))
    monkeypatch.setattr("sys.platform", "linux")
    return folder


@pytest.mark.parametrize("line", FIRST_LINES)
def test_what_a_program_says_that_runs_it_must_be_there(problems, tmp_path, line, formats):
    programs = {"odd": line, "tool2": "#!/bin/sh\n", "unrun": "#!/no/python\n", "mute": "x\n"}
    programs |= {"link1": "#!/bin/sh\n"}
    programs |= {f"link{above + 1}": f"#!./link{above}\n" for above in range(1, 5)}
    for name, text in programs.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
        (tmp_path / name).chmod(0o755)
    found = "".join(problems("./odd"))
    if FIRST_LINES[line]:
        assert found.startswith(f"spec.entrypoint: './odd' {FIRST_LINES[line]}")
    else:
        assert found == ""
    assert bool(problems("odd", env={"PATH": f".:{os.environ['PATH']}"})) == bool(found)


def test_a_program_may_be_of_a_kind_that_was_registered(problems, tmp_path, formats):
    """By the end of its name; and in a container the list may be out of sight."""
    (tmp_path / "my.lua").write_text("print(1)\n")
    (tmp_path / "my.lua").chmod(0o755)
    assert problems("./my.lua")
    (formats / "lua").touch()
    assert problems("./my.lua") == []
    for file in formats.iterdir():
        file.unlink()
    assert problems("./my.lua") == []
    formats.rmdir()
    assert problems("./my.lua") == []


@pytest.mark.parametrize(
    ("name", "head", "refused"),
    [
        ("run.sh", "echo hi\n", True),
        ("run.sh", "", True),
        ("run.sh", "\x7fELF", False),
        ("empty", "", True),
        ("empty.lua", "", False),
        ("odd", "<?php\n", False),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_nobody_registers_shell_scripts_or_nothing_at_all(
    problems, tmp_path, formats, name, head, refused, known
):
    """Whatever else Linux was told of, and where that is out of sight."""
    (formats / "lua").touch()
    if not known:
        for file in formats.iterdir():
            file.unlink()
    (tmp_path / name).write_text(head)
    (tmp_path / name).chmod(0o755)
    found = [f"spec.entrypoint: './{name}' does not say what runs it"]
    assert [problem.partition("\n")[0] for problem in problems(f"./{name}")] == found * refused


def test_other_systems_take_the_words_of_a_first_line_apart(problems, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    (tmp_path / "tool").write_text("#!/usr/bin/env sh -e\n")
    assert problems("./tool") == []
    (tmp_path / "tool").write_text("#!/usr/bin/env no-python -u\n")
    (problem,) = problems("./tool")
    assert "'no-python', which is not on PATH" in problem


def test_what_may_not_be_read_or_reached(problems, monkeypatch):
    """The system lets root do both."""
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.R_OK)
    (problem,) = problems("train.py")
    assert problem.endswith(": 'train.py' may not be read\n    allow it: chmod +r train.py")
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != "sub")
    (problem,) = problems("true", cwd="sub")
    assert "spec.cwd: the working directory 'sub' may not be entered\n    allow it:" in problem


@pytest.fixture
def out_of_reach(monkeypatch):
    """What has ``private`` in its path stands in a folder that this user may not enter."""
    real = os.stat

    def stat(path, *args, **options):
        if "private" in os.fspath(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *args, **options)

    monkeypatch.setattr("os.stat", stat)


def test_what_may_not_be_reached(problems, tmp_path, out_of_reach):
    for entrypoint in ("private/train.py", "./private/tool"):
        (problem,) = problems(entrypoint)
        assert f"spec.entrypoint: {entrypoint!r} cannot be reached\n    allow to" in problem
    (problem,) = problems("true", cwd="private")
    assert "spec.cwd: the working directory 'private' cannot be reached" in problem
    (tmp_path / "tool").write_text("#!/private/python\n")
    (problem,) = problems("./tool")
    assert "is to be run by '/private/python', which cannot be reached" in problem


def test_an_unknown_folder_hides_no_missing_command(problems):
    assert len(problems(None, cwd="none")) == 2


def test_a_folder_above_one_that_cannot_be_entered_needs_no_look(problems, monkeypatch):
    """``true`` is found on PATH, whatever may be seen of the current folder."""
    real = os.stat

    def stat(path, *args, **options):
        if not os.path.isabs(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *args, **options)

    monkeypatch.setattr("os.stat", stat)
    assert problems("true") == []
    (problem,) = problems("no-such-program")
    assert "command not found" in problem


@pytest.mark.parametrize(("name", "refused"), [("odd.sh", True), ("odd", False)])
def test_a_script_must_be_read_by_what_runs_it(problems, tmp_path, monkeypatch, name, refused):
    """What cannot be read cannot be looked into: only the name says that it is a script."""
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o711)

    def unreadable(path, *args, **options):
        raise PermissionError

    monkeypatch.setattr(Path, "open", unreadable)
    found = [f"spec.entrypoint: './{name}' may not be read by what runs it\n    allow it: chmod +r"]
    assert [text[: len(found[0])] for text in problems(f"./{name}")] == found * refused


@pytest.mark.parametrize("python", ["/no/python", "plain"])
def test_the_guardian_must_have_a_python(problems, monkeypatch, python):
    monkeypatch.setattr("sys.executable", python)
    (problem,) = problems("./tool")
    assert problem.startswith("the guardian, which ends the workers when the agent dies, cannot be")
    assert f"{python!r}" in problem
    assert "executable for this user" in problem


@pytest.fixture
def packages(tmp_path):
    """One with an ``__init__``, one without, and in each another package, which can be run."""
    for package in ("full", "bare"):
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "part.py").write_text("raise AssertionError('imported')")
        (tmp_path / package / "inner" / "__main__.py").write_text("")
    (tmp_path / "full" / "__init__.py").write_text("raise AssertionError('imported')")


@pytest.mark.parametrize("package", ["full", "bare"])
def test_a_module_is_looked_for_down_to_its_file(problems, packages, package):
    for name in ("part", "inner", "inner.__main__"):
        assert problems(f"{package}.{name}", module=True) == []
    (problem,) = problems(f"{package}.prat", module=True)
    assert problem == (
        f"spec.entrypoint: no module 'prat' in '{package}'\n    did you mean 'part'?"
    )
    (problem,) = problems(f"{package}.part.x", module=True)
    assert problem == f"spec.entrypoint: no module 'x' in '{package}.part'"
    (problem,) = problems(package, module=True)
    assert problem.startswith(
        f"spec.entrypoint: '{package}' is a package without a module __main__"
    )
    assert f"    name a module in it: {package}." in problem


def test_a_package_that_sets_its_path_has_parts_elsewhere(problems, packages, tmp_path):
    init = "import os\n__path__.append(os.path.join(os.path.dirname(__file__), 'real'))\n"
    (tmp_path / "full" / "__init__.py").write_text(init)
    assert problems("full.train", module=True) == []


def test_a_package_with_nothing_in_it_cannot_be_run(problems, tmp_path):
    (tmp_path / "empty").mkdir()
    (problem,) = problems("empty", module=True)
    assert problem.endswith("\n    name a module")


def test_the_path_of_a_file_names_no_module(problems, packages):
    for name in ("full/part", "./train.py"):
        (problem,) = problems(name, module=True)
        assert problem.startswith(f"spec.entrypoint: {name!r} is a path, and no module's name\n")
        assert "as in -m pkg.train" in problem
    for module in ("train", "full.part"):
        (problem,) = problems(f"{module}.py", module=True)
        assert problem == (
            f"spec.entrypoint: no module 'py' in {module!r}\n"
            f"    a module is named without .py: -m {module}"
        )


def test_what_is_installed_may_look_for_its_parts_elsewhere(problems):
    """As packages do that lay another folder onto their ``__path__``."""
    assert problems("json.no_such", module=True) == []
    assert problems("sys.no_such", module=True) == []


def test_another_interpreter_may_know_other_modules(problems, monkeypatch):
    monkeypatch.setenv("PYTHON_EXEC", "./tool")
    assert problems("no_such", module=True) == []


@pytest.mark.parametrize("python", ["/nonexistent", "no-such-python", "./plain"])
def test_the_other_interpreter_must_be_there(problems, monkeypatch, python):
    monkeypatch.setenv("PYTHON_EXEC", python)
    found = f"PYTHON_EXEC: the interpreter is not there, or cannot be run: {python!r}"
    for words in (("train.py", {}), ("no_such", {"module": True})):
        (problem,) = problems(words[0], **words[1])
        assert problem.startswith(found)
    assert problems("sh") == []


def test_the_first_words_of_a_run_that_no_signal_stops(tmp_path):
    prepared = prepare(compose(["stop.signals=[]"]), ["true"])
    text = banner(prepared, RunDir(tmp_path, tmp_path / "node", 0, -1))
    assert "; stop by no signal, 25 s of grace; " in text


# -- devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        ("0,1,2,3", 4), ("2", 1), (" 1 , 3 ", 2), ("", 0), ("-1", 0), ("0,-1,2", 1), ("0,,2", 1),
        ("NoDevFiles", 0), ("GPU-8932f937-d72c-4106,GPU-0a1b", 2), ("MIG-GPU-8932/1/0", 1),
    ],
)  # fmt: skip
def test_a_list_in_the_environment_decides(listed, count, tmp_path):
    (tmp_path / "dev").mkdir()
    for number in range(8):
        (tmp_path / "dev" / f"nvidia{number}").touch()
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": listed}, tmp_path) == count


def test_several_lists_allow_what_all_of_them_do(tmp_path):
    both = {"HIP_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "0,1,2"}
    assert visible_gpus(both, tmp_path) == 2


def test_without_a_list_the_device_nodes_are_counted(tmp_path):
    assert visible_gpus({}, tmp_path) == 0
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, simd in enumerate((0, 256, 256)):
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(f"cpu_cores 1\nsimd_count {simd}\n")
    (nodes / "3").mkdir()
    (nodes / "3" / "properties").write_text("nothing\n")
    (nodes / "4" / "properties").mkdir(parents=True)  # cannot be read
    assert visible_gpus({}, tmp_path) == 2
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert visible_gpus({}, tmp_path) == 2
    (tmp_path / "dev" / "nvidia1").touch()
    assert visible_gpus({}, tmp_path) == 3


@pytest.mark.parametrize(("listed", "count"), [("", 1), ("0,1", 2)])
def test_there_is_at_least_one_worker(monkeypatch, listed, count):
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert workers_for_auto() == count
