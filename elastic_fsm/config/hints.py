"""What to tell somebody who typed a key that is not ours, or a value that Hydra cannot read."""

from __future__ import annotations

import shlex

from elastic_fsm.config.schema import field_types
from elastic_fsm.problems import Problem, listed

__all__ = [
    "GROUPS",
    "expected",
    "is_known",
    "is_utf8",
    "quoted_override",
    "takes_no_mapping",
    "torchrun_hint",
    "unknown_key",
]

# The groups that come as a choice of files; `machine` alone has no fixed keys.
GROUPS = ("machine", "spec", "launcher", "rendezvous", "restart", "stop", "logs")

# torchrun's options (and names people guess) with the key that does the same here.
_ELSEWHERE = {
    "nproc_per_node": "spec.local_world_size",
    "nproc": "spec.local_world_size",
    "nprocs": "spec.local_world_size",
    "num_workers": "spec.local_world_size",
    "n": "spec.local_world_size",
    "max_restarts": "spec.max_restarts",
    "role": "spec.role",
    "module": "spec.module",
    "entrypoint": "spec.entrypoint",
    "args": "spec.args",
    "env": "spec.env.NAME",
    "cwd": "spec.cwd",
    "chdir": "spec.cwd",
    "master_addr": "spec.master_addr",
    "master_port": "spec.master_port",
    "local_addr": "spec.local_addr",
    "virtual_local_rank": "spec.virtual_local_rank",
    "rdzv_backend": "rendezvous",
    "standalone": "rendezvous=standalone",
    "rdzv_id": "run_id",
    "log_dir": "run_dir",
    "redirects": "logs.mode",
    "tee": "logs.mode",
    "local_ranks_filter": "logs.console_ranks",
    "log_line_prefix_template": "logs.prefix",
    "signals_to_handle": "stop.signals",
    "shutdown_timeout": "stop.grace",
    "grace": "stop.grace",
    "exit_barrier_timeout": "rendezvous.barrier_timeout",
    "node_rank": "rendezvous.node_rank",
    "rdzv_endpoint": "rendezvous.endpoint",
    "monitor_interval": "spec.monitor_interval",
    "event_log_handler": "spec.event_log_handler",
    "duplicate_stdout_filters": "logs.stdout_filters",
    "duplicate_stderr_filters": "logs.stderr_filters",
    "logs_specs": "logs.specs",
}
# Those whose values mean the same, so that the whole word can be offered.
_SAME_VALUE = {"redirects", "tee", "env", "signals_to_handle", "rdzv_backend", "standalone"}
_NOT_NEEDED = {
    "nnodes": "here these are rendezvous.min_nodes=… and rendezvous.max_nodes=…",
    "rdzv_conf": "here this is rendezvous.options={key: value}",
    "start_method": "workers are programs of their own here: leave it out",
    "no_python": "a command that is no .py file is started as it is: leave it out",
    "run_path": "a .py file runs under our interpreter anyway: leave it out",
}


def torchrun_hint(name: str, value: str = "") -> str:
    """Our equivalent of one of torchrun's options (``nproc-per-node``), or an empty string."""
    word = name.lstrip("-").replace("-", "_")
    if word in _NOT_NEEDED:
        return _NOT_NEEDED[word]
    ours = _ELSEWHERE.get(word, "")
    if not ours:
        return ""
    if value and word not in _SAME_VALUE:
        return f"here this is {shlex.quote(f'{ours}={value}')}"
    return f"here this is {ours}" if "=" in ours else f"here this is {ours}=…"


def is_known(key: str) -> bool:
    """Whether a dotted key exists, or stands below one that is open (a list or a mapping)."""
    types = field_types()
    if key in types:
        return True
    above = [key[:at] for at, char in enumerate(key) if char == "."]
    return any(types.get(part, "").startswith(("list", "dict")) for part in above)


def takes_no_mapping(key: str) -> bool:
    """Whether a key is one of those to which a mapping can never be given."""
    kind = field_types().get(key, "")
    return bool(kind) and not kind.startswith(("dict", "Any"))


def unknown_key(key: str, *, value: str = "", where: str = "") -> Problem:
    """The finding for a key that does not exist, with the likeliest one that does."""
    parts = key.split(".")
    # `db.host.name`: it is `db` that does not exist.
    heads = [".".join(parts[:depth]) for depth in range(1, len(parts))]
    path = next((head for head in heads if not is_known(head)), key)
    fix = torchrun_hint(path.rpartition(".")[2], value) or _closest(path)
    return Problem("there is no such key", path=path, where=where, fix=fix)


def _closest(key: str) -> str:
    known = [name for name, kind in field_types().items() if kind]
    group, _, last = key.rpartition(".")
    inside = [name for name in known if name.startswith(f"{group}.")] if group else []
    # First in the group that was named; then everywhere, in case the group is wrong or missing.
    close = _similar(last, inside, 0.6) or _similar(last, known, 0.75)
    close += _near(key, known, 0.8)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {listed(inside)}" if inside else "`elastic-fsm config` lists every key"


def _similar(last: str, keys: list[str], cutoff: float) -> list[str]:
    by_name = {key.rpartition(".")[2]: key for key in keys}
    return [by_name[name] for name in _near(last, list(by_name), cutoff)]


def _near(word: str, known: list[str], cutoff: float) -> list[str]:
    import difflib  # only a mistake needs it: a start that makes none is quicker

    return difflib.get_close_matches(word, known, n=1, cutoff=cutoff)


# What is no list or mapping of plain values.
_SUCH_AS = {
    "spec.args": "a list, such as [--lr, 1e-3]",
    "spec.env": "a mapping, such as {NAME: text}",
    "spec.worker_env": "a mapping, such as {0: {NAME: text}}",
}
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list, such as [a, b]",
    "dict": "a mapping, such as {key: value}",
    "": "a mapping, such as {key: value}",
}


def expected(key: str) -> str:
    """In words, what a key takes."""
    above, _, last = key.rpartition(".")
    if above == "spec.worker_env":
        return _SUCH_AS["spec.env"]
    if last.isdecimal():  # of an entry, what its list takes
        return expected(above)
    if key in _SUCH_AS:
        return _SUCH_AS[key]
    kind = field_types().get(key, "Any")
    words = _EXPECTED.get(kind.partition("[")[0].partition(" ")[0], "")
    if kind.startswith("list[int]"):
        words = "a list of whole numbers, such as [0, 1]"
    if kind.startswith("list[str]"):
        words = "a list of texts, such as [a, b]"
    return f"{words} or null" if "None" in kind else words


def is_utf8(text: str) -> bool:
    """Whether a word of the command line was UTF-8; Python keeps other bytes as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted_override(key: str, value: str) -> str:
    """The word to type so that ``value`` reaches ``key`` as it is, quoted for Hydra and shell.

    Bytes that are not UTF-8 cannot be shown, and Hydra takes them between its quotes; in the place
    of such a value stands ``…``.
    """
    from hydra.core.override_parser.types import Quote, QuotedString

    value = value if is_utf8(value) else "…"
    return shlex.quote(f"{key}={QuotedString(value, Quote.double).with_quotes()}")
