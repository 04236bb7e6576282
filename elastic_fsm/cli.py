"""The verbs of ``elastic-fsm``; each imports what it needs when it is called."""

from __future__ import annotations

import gc
import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from elastic_fsm import __version__
from elastic_fsm.printable import printable
from elastic_fsm.problems import COMMAND_LINE, BadInput, did_you_mean, shortened
from elastic_fsm.words import Grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from elastic_fsm.preparing import Prepared
    from elastic_fsm.scenario.script import Script
    from elastic_fsm.words import Words

__all__ = ["run_command_line"]

_RUN = Grammar(
    ["--dry-run"], {"-n": "4", "-c": "job.yaml", "--inject": "crash.txt"}, last="command"
)
_CONFIG = Grammar(["--origin"], {"-n": "4", "-c": "job.yaml"})

_HELP = """\
elastic-fsm: run a group of workers, and restart it when one fails

  elastic-fsm run -n 4 train.py --lr 0.1         four workers of a script
  elastic-fsm run -n 4 -m pkg.train              ... of a module
  elastic-fsm run -n 4 -- ./worker a=b           ... of any command
  elastic-fsm run -c job.yaml                    a run described in a file
  elastic-fsm torchrun --nproc-per-node=4 train.py   torchrun's command line, all of it;
                    --print-config shows the same in our words; also: elastic-fsm launch
  elastic-fsm config [-c job.yaml] [overrides]   the resolved run; --origin: where from
  elastic-fsm check [-c job.yaml] [overrides]    is the lifecycle sound? --matrix: its table
  elastic-fsm simulate scenario=FILE [overrides] failures tried out, nothing started;
                    --compare machine=a,b puts machines side by side
  elastic-fsm status [FOLDER]                    the runs below a folder, and where they are
  elastic-fsm explain [RUN_DIR]                  why it restarted, stopped, failed; --html FILE
  elastic-fsm replay [RUN_DIR] [overrides]       its events through its machine, or another one
  elastic-fsm graph [overrides] [-o machine.svg] the machine as text, picture, page; graph --help

run:
  -n N              workers on this node: spec.local_world_size=N (or auto)
  -c FILE           a YAML file on top of the defaults
  --dry-run         show what would be started, and start nothing
  --inject FILE     play the failures of a scenario against the real workers
  name=value        any value of the configuration:
      spec.max_restarts=3      restarts that failures may cost (0)
      spec.env.NAME=text       environment of the workers
      machine=fail_fast        the lifecycle (elastic)
      logs=files               tee, files, console, terminal, torchrun (tee)
      rendezvous=c10d          how nodes meet: standalone, c10d, static, … (standalone)
      stop.grace=60s           from the stop signal to SIGKILL (25s)
      run_dir=PATH run_id=ID   where logs, journal and report go (elastic_runs)

Exit codes: 0; that of the failed worker, 128 + n for a signal; 128 + n when told to stop by
signal n; 2 for bad input; 70 for an error of the agent's own.
"""


_NO_FOLDER = "the current folder has been removed: go to another one"


def _is_nowhere(error: OSError) -> bool:
    """Only the question where we are fails in this way without the name of a file."""
    return isinstance(error, FileNotFoundError) and error.filename is None


def _say(line: str) -> None:
    try:
        print(printable(line), file=sys.stderr)
    except OSError:
        _silence(2)


def _silence(descriptor: int) -> None:
    """What a stream that takes nothing has left in its buffer must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def run_command_line(argv: Sequence[str]) -> int:
    """Carry out a command line; returns the exit code."""
    _open_standard_streams()
    try:
        code = _dispatch(argv)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever was reading has seen enough
        _silence(1)
        return 141
    except KeyboardInterrupt:  # raised by code of the user's: a Ctrl-C itself comes as a signal
        _say("elastic-fsm: interrupted")
        return 130
    except OSError as error:  # no current folder, no more processes, a closed or full console
        _say(_why(error, argv))
        _silence(1)
        return 2
    except BadInput as error:
        _say(_one_screen(error, argv))
        machine = any(problem.path.startswith("machine.") for problem in error.problems)
        if machine and argv[0] == "run":
            _say("elastic-fsm check, with the same overrides, looks through all that can happen")
        return 2


def _open_standard_streams() -> None:
    """A stream that is closed (``>&-``) leads nowhere: neither to the next file that is opened,
    nor, as ``print`` has it where there is no standard error, to standard output.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(null, True)
            if descriptor == 2:
                sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error: any text can be printed
        sys.stdout.reconfigure(errors="backslashreplace")


def _dispatch(argv: Sequence[str]) -> int:
    verb, rest = (argv[0], argv[1:]) if argv else ("--help", [])
    if verb in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0
    if verb in ("-V", "--version", "version"):
        print(f"elastic-fsm {__version__}")
        return 0
    if verb not in _VERBS:
        raise BadInput.of(
            f"there is no verb {verb!r}",
            where=COMMAND_LINE,
            fix=did_you_mean(verb, _VERBS) + "; see elastic-fsm --help",
        )
    return _VERBS[verb](rest)


def _why(error: OSError, argv: Sequence[str]) -> str:
    if _is_nowhere(error):
        return f"elastic-fsm: {_NO_FOLDER}"
    if error.filename is None or _starts(argv):
        return f"elastic-fsm: {shortened(str(error))}"
    # A place that was named: one whose name is too long, say.
    finding = BadInput.of(error.strerror or str(error), where=str(error.filename))
    return _one_screen(finding, argv)


def _one_screen(error: BadInput, argv: Sequence[str]) -> str:
    head = ["elastic-fsm: nothing was started" if _starts(argv) else f"elastic-fsm {argv[0]}"]
    if len(error.problems) > 1:
        head.append(f"{len(error.problems)} problems")
    return "\n".join(["; ".join(head) + ":", *(f"  {text}" for text in error.texts())])


def _starts(argv: Sequence[str]) -> bool:
    """Whether somebody may expect that something was started; of an unknown verb, too."""
    return not argv or argv[0] not in _ONLY_TELLING


def _run(argv: Sequence[str]) -> int:
    words = _RUN.read(argv)
    if "--help" in words.flags:
        print(_HELP, end="")
        return 0
    scenario = words.path("--inject")
    injected, prepared = _injected(words, scenario) if scenario else (None, _prepare(words))
    if "--dry-run" in words.flags:
        from elastic_fsm.dry_run import describe

        print(printable(describe(prepared)), end="")
        return 0
    return _execute(prepared, injected=injected)


def _execute(prepared: Prepared, **more: Any) -> int:
    from elastic_fsm.entry import leaving
    from elastic_fsm.launch import execute

    gc.freeze()
    gc.enable()
    return execute(prepared, sole_owner=True, decided=leaving.decide, **more).exit_code


def _torchrun(argv: Sequence[str], *, legacy: bool = False) -> int:
    from elastic_fsm.torchrun.verb import prepare_torchrun

    prepared = prepare_torchrun(argv, legacy=legacy)
    return 0 if prepared is None else _execute(prepared, shares_run_id=True)


def _injected(words: Words, scenario: Path) -> tuple[Script, Prepared]:
    """The scenario of ``--inject``, and the run with its settings before those of the words."""
    from elastic_fsm.scenario.injecting import injection_problems
    from elastic_fsm.scenario.script import read_script
    from elastic_fsm.scenario.settings import blaming, run_of, with_settings_of

    typed = words.overrides

    def prepare_with(script: Script) -> Prepared:
        words.overrides = with_settings_of(script, typed)
        with blaming(script, typed):
            return _prepare(words, script.folder)

    script = read_script(scenario)
    return script, run_of(script, prepare_with, injection_problems)


def _config(argv: Sequence[str]) -> int:
    from elastic_fsm.config import compose

    words = _CONFIG.read(argv)
    if "--help" in words.flags:
        print(_HELP, end="")
        return 0
    composed = compose(words.overrides, job_file=words.job_file)
    print(composed.to_yaml(origin="--origin" in words.flags), end="")
    return 0


def _simulate(argv: Sequence[str]) -> int:
    from elastic_fsm.scenario.simulating import run_verb

    print(run_verb(argv), end="")
    return 0


def _explain(argv: Sequence[str]) -> int:
    from elastic_fsm.hindsight.verbs import explain

    return explain(argv)


def _status(argv: Sequence[str]) -> int:
    from elastic_fsm.hindsight.verbs import status

    return status(argv)


def _replay(argv: Sequence[str]) -> int:
    from elastic_fsm.hindsight.verbs import replay

    return replay(argv)


def _graph(argv: Sequence[str]) -> int:
    from elastic_fsm.graph.command import graph

    return graph(argv)


def _check(argv: Sequence[str]) -> int:
    from elastic_fsm.checking import run_verb

    text, code = run_verb(argv)
    print(text, end="")
    return code


def _prepare(words: Words, *plugin_folders: Path) -> Prepared:
    from elastic_fsm.config import compose
    from elastic_fsm.preparing import prepare

    composed = compose(words.overrides, job_file=words.job_file)
    job_folder = [words.job_file.parent] if words.job_file else []
    return prepare(
        composed,
        words.command,
        module=words.module,
        plugin_folders=[*job_folder, *plugin_folders],
    )


_ONLY_TELLING = ("config", "graph", "simulate", "check", "explain", "status", "replay")
_VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": _run,
    "config": _config,
    "graph": _graph,
    "simulate": _simulate,
    "check": _check,
    "explain": _explain,
    "status": _status,
    "replay": _replay,
    "torchrun": _torchrun,
    "launch": partial(_torchrun, legacy=True),
}
