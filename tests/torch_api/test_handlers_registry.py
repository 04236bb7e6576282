"""Handlers by name, what they are made from, and the names of torch's errors."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import elastic_fsm
from elastic_fsm.banner import banner
from elastic_fsm.config import compose
from elastic_fsm.distributed.elastic import rendezvous
from elastic_fsm.preparing import prepare
from elastic_fsm.problems import BadInput
from elastic_fsm.rendezvous.choice import check_rendezvous
from elastic_fsm.rendezvous.errors import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousGracefulExitError,
    explain,
    is_kind,
)
from elastic_fsm.rendezvous.handler import RendezvousParameters, RendezvousStoreInfo
from elastic_fsm.rendezvous.handler_registry import (
    RendezvousHandlerRegistry,
    get_rendezvous_handler,
    rendezvous_handler_registry,
)
from elastic_fsm.rendezvous.hash_store import HashStore
from elastic_fsm.rendezvous.later import make_handler
from elastic_fsm.rendezvous.options import TAKEN, warn_of_options
from elastic_fsm.rendezvous.single import SingleNodeHandler
from elastic_fsm.rundir import RunDir


def parameters(backend="single", nodes=1, endpoint="", **config):
    return RendezvousParameters(backend, endpoint, "run-7", nodes, nodes, **config)


class Named(SingleNodeHandler):
    """Says that it is of a backend."""

    def __init__(self, backend, params=None):
        super().__init__()
        self.backend, self.params = backend, params

    def get_backend(self):
        return self.backend


def creator_of(backend):
    return lambda params: Named(backend, params)


# -- the registry ------------------------------------------------------------------------------


def test_a_registered_creator_gets_the_parameters():
    registry, params = RendezvousHandlerRegistry(), parameters("mine")
    registry.register("mine", creator_of("mine"))
    assert registry.create_handler(params).params is params


def test_a_name_has_one_creator():
    registry, create = RendezvousHandlerRegistry(), creator_of("mine")
    registry.register("mine", create)
    registry.register("mine", create)
    with pytest.raises(ValueError, match="'mine' is registered already"):
        registry.register("mine", creator_of("mine"))
    with pytest.raises(ValueError, match="must have a name"):
        registry.register("", create)


def test_an_unknown_name_is_answered_with_what_was_meant():
    with pytest.raises(ValueError, match=r"no rendezvous backend 'c1od'; did you mean 'c10d'\?"):
        get_rendezvous_handler(parameters("c1od"))


def test_a_handler_of_another_backend_is_refused():
    registry = RendezvousHandlerRegistry()
    registry.register("mine", creator_of("yours"))
    with pytest.raises(RuntimeError, match="'mine' says that it is 'yours'"):
        registry.create_handler(parameters("mine"))


def test_a_plug_in_gives_the_creator(monkeypatch):
    plugin = EntryPoint("far", f"{__name__}:far_away", "torchrun.handlers")
    found = {"torchrun.handlers": [plugin]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found[group])
    handler = RendezvousHandlerRegistry().create_handler(parameters("far", price=3))
    assert (handler.get_backend(), handler.params.get("price")) == ("far", 3)


def far_away():
    return creator_of("far")


def test_one_that_is_replaced_by_force_is_used(monkeypatch):
    """NVRx swaps c10d in this way, for it knows of no other."""
    monkeypatch.setattr(
        rendezvous_handler_registry, "_registry", dict(rendezvous_handler_registry._registry)
    )
    del rendezvous_handler_registry._registry["c10d"]
    rendezvous_handler_registry.register("c10d", creator_of("c10d"))
    assert isinstance(get_rendezvous_handler(parameters("c10d")), Named)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["static", "c10d", "etcd", "etcd-v2"])
def test_without_torch_its_backends_say_what_to_install(backend):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from elastic_fsm.distributed.elastic.rendezvous import *\n"
        f"params = RendezvousParameters({backend!r}, 'localhost:1', 'run', 1, 1)\n"
        "rendezvous_handler_registry.create_handler(params)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"BadInput: the rendezvous backend {backend!r} is PyTorch's" in run.stderr
    assert "pip install torch" in run.stderr


@pytest.mark.torch
@pytest.mark.parametrize("backend", ["etcd", "etcd-v2"])
def test_without_a_client_of_etcd_its_backends_say_what_to_install(backend, monkeypatch):
    pytest.importorskip("torch.distributed.elastic.rendezvous")
    stub = pytest.importorskip("torch.distributed.elastic.rendezvous._etcd_stub")
    for module in ("etcd_rendezvous", "etcd_rendezvous_backend"):
        home = importlib.import_module(f"torch.distributed.elastic.rendezvous.{module}")
        monkeypatch.setattr(home, "etcd", stub)
    with pytest.raises(BadInput, match=f"'{backend}' needs a client of etcd") as caught:
        get_rendezvous_handler(parameters(backend, endpoint="localhost:1", nodes=2))
    assert "pip install python-etcd" in str(caught.value)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["etcd", "etcd-v2"])
def test_a_run_is_told_before_it_starts_that_there_is_no_client_of_etcd(name, monkeypatch):
    pytest.importorskip("torch")
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n == "etcd" else find(n))
    with pytest.raises(BadInput, match="needs a client of etcd") as caught:
        elastic_fsm.run({"spec": {"entrypoint": "true"}, "rendezvous": {"name": name}})
    assert "rendezvous.name: " in str(caught.value)


def test_a_level_that_torch_does_not_know_is_told_by_the_variable(monkeypatch):
    def load(_):
        raise ValueError("Unknown level: 'verbose'")

    monkeypatch.setattr("elastic_fsm.rendezvous.handler_registry.import_module", load)
    monkeypatch.delenv("LOGLEVEL", raising=False)
    with pytest.raises(ValueError, match=r"^Unknown level"):
        get_rendezvous_handler(parameters("c10d"))
    monkeypatch.setenv("LOGLEVEL", "verbose")
    with pytest.raises(BadInput, match=r"^environment: PyTorch cannot be loaded: Unknown level"):
        get_rendezvous_handler(parameters("c10d"))


@pytest.mark.slow
def test_the_names_cost_no_torch():
    code = (
        "import sys; from elastic_fsm.distributed.elastic.rendezvous import *\n"
        "params = RendezvousParameters('single', '', 'run', 1, 1)\n"
        "rendezvous_handler_registry.create_handler(params).next_rendezvous()\n"
        "print('torch' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.torch
def test_the_mirror_has_all_of_torchs_names():
    torch_rendezvous = pytest.importorskip("torch.distributed.elastic.rendezvous")
    assert set(torch_rendezvous.__all__) <= set(rendezvous.__all__)
    missing = [name for name in rendezvous.__all__ if not hasattr(rendezvous, name)]
    assert missing == []


@pytest.mark.torch
def test_a_backend_that_was_swapped_in_torchs_registry_is_honoured(monkeypatch):
    home = pytest.importorskip("torch.distributed.elastic.rendezvous")
    registry = home.rendezvous_handler_registry
    swapped = {**registry._registry, "c10d": creator_of("c10d"), "other": creator_of("other")}
    monkeypatch.setattr(registry, "_registry", swapped)
    handler = get_rendezvous_handler(parameters("c10d", endpoint="host:1", nodes=2, timeout=9))
    assert isinstance(handler.params, home.RendezvousParameters)
    assert vars(handler.params) == vars(parameters("c10d", endpoint="host:1", nodes=2, timeout=9))
    own = home.RendezvousParameters("other", "", "run-7", 1, 1)
    assert get_rendezvous_handler(own).params is own


# -- what a handler is made from ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (("", "", "run", 1, 1), "must have a name"),
        (("c10d", "", "run", 0, 1), "min_nodes must be at least 1, not 0"),
        (("c10d", "", "run", 3, 2), r"max_nodes \(2\) is less than min_nodes \(3\)"),
    ],
)
def test_impossible_parameters_are_refused(values, text):
    with pytest.raises(ValueError, match=text):
        RendezvousParameters(*values)


WORDS = [None, True, False, 1, 0, 2, "1", "true", "T", "yes", "y", "0", "F", "no", "n", "often"]
NUMBERS = [None, 7, "7", True, 2.5, "seven", [7]]


def answer(ask, value):
    try:
        return ask(parameters("mine", option=value))
    except (ValueError, TypeError):
        return "refused"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("method", "value"),
    [("get_as_bool", v) for v in WORDS] + [("get_as_int", v) for v in NUMBERS],
)
def test_options_are_read_as_torch_reads_them(method, value):
    home = pytest.importorskip("torch.distributed.elastic.rendezvous")
    theirs = home.RendezvousParameters("mine", "", "run", 1, 1, option=value)
    expected = answer(lambda _: getattr(theirs, method)("option"), value)
    assert answer(lambda ours: getattr(ours, method)("option"), value) == expected


def test_options_that_are_missing_have_a_default():
    params = parameters()
    assert params.get("x") is None
    assert (params.get("x", 3), params.get_as_int("x", 3)) == (3, 3)
    assert params.get_as_bool("x", True) is True


def test_a_wrong_option_is_named():
    params = parameters(is_host="often", read_timeout="long")
    with pytest.raises(ValueError, match="'is_host' must be yes or no, not 'often'"):
        params.get_as_bool("is_host")
    with pytest.raises(ValueError, match="'read_timeout' must be a whole number, not 'long'"):
        params.get_as_int("read_timeout")


# -- options, told before a run starts ---------------------------------------------------------

# Where torch reads the options of each backend.
HOMES = {
    "static": ["static_tcp_rendezvous"],
    "c10d": ["c10d_rendezvous_backend", "dynamic_rendezvous"],
    "etcd": ["etcd_rendezvous"],
    "etcd-v2": ["etcd_rendezvous_backend", "dynamic_rendezvous"],
}


@pytest.mark.torch
@pytest.mark.parametrize("backend", HOMES)
def test_the_options_are_those_that_torch_asks_for(backend):
    home = pytest.importorskip("torch.distributed.elastic.rendezvous")
    folder = Path(home.__file__).parent
    text = "".join((folder / f"{module}.py").read_text() for module in HOMES[backend])
    asked = re.findall(r'params\.(?:config\.)?(?:get\w*\(|config\[)\s*"(\w+)"', text)
    asked += [f"{key}_timeout" for key in re.findall(r'_get_timeout\(params, "(\w+)"\)', text)]
    assert sorted({*asked} - {"rank"}) == sorted(TAKEN[backend])


def refused(*words):
    """What stands on the screen, if anything."""
    return [str(problem) for problem in check_rendezvous(compose(words).values)]


C10D = ("rendezvous=c10d", "rendezvous.endpoint='h:1'")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("option", "takes"),
    [
        ("join_timeout=abc", "a whole number, at least 1"),
        ("last_call_timeout=0", "a whole number, at least 1"),
        ("keep_alive_interval=[5]", "a whole number, at least 1"),
        ("read_timeout=.inf", "a whole number, at least 1"),
        ("is_host=often", "true or false"),
        ("store_type=1", "tcp or file"),
    ],
)
def test_a_value_that_torch_would_refuse_is_told(option, takes):
    name, _, value = option.partition("=")
    (problem,) = refused(*C10D, f"rendezvous.options.{option}")
    assert problem.startswith(f"rendezvous.options.{name}: ")
    assert value.strip("[].") in problem
    assert problem.endswith(f" does not fit\n    it takes {takes}")


@pytest.mark.torch
@pytest.mark.parametrize(
    "option",
    ["join_timeout=9", "join_timeout='9'", "join_timeout=null", "is_host=yes", "store_type=' TCP'"],
)
def test_a_value_that_torch_takes_is_none_of_our_business(option):
    assert refused(*C10D, f"rendezvous.options.{option}") == []


@pytest.mark.torch
def test_a_file_store_is_known_by_any_of_its_names():
    words = ("rendezvous=c10d", "rendezvous.options.store_type=FILE")
    assert "a file store needs its file" in refused(*words)[0]
    assert refused(*words, "rendezvous.endpoint=/shared/run") == []


def test_what_is_said_elsewhere_is_no_option_of_any_handler(monkeypatch):
    known = {**rendezvous_handler_registry._registry, "mine": creator_of("mine")}
    monkeypatch.setattr(rendezvous_handler_registry, "_registry", known)
    mine = ("rendezvous=c10d", "rendezvous.name=mine", "rendezvous.endpoint='h:1'")
    (problem,) = refused(*mine, "rendezvous.options.local_addr=x")
    assert problem == (
        "rendezvous.options.local_addr: local_addr is none of the handler's options\n"
        "    give it as spec.local_addr"
    )
    assert refused(*mine, "rendezvous.options.join_timeout=soon") == []


def test_an_option_that_torch_has_no_use_for_is_warned_of():
    """Not refused: another torch may know it, or a handler that has replaced torch's."""
    assert warn_of_options("static", {"timeout": 9}) == warn_of_options("mine", {"a": 1}) == ""
    warning = warn_of_options("static", {"timeout": 9, "rank": 1, "a": 2})
    assert warning == (
        "rendezvous=static has no use for rendezvous.options.a, rendezvous.options.rank; "
        "it takes timeout"
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ((), False),
        (("rendezvous.options.join_timeout=9",), False),
        (("rendezvous.options.a=1",), True),
    ],
)
def test_the_warning_is_among_the_first_words(words, warned, tmp_path):
    prepared = prepare(compose((*C10D, *words)), ["true"])
    text = banner(prepared, RunDir(tmp_path, tmp_path / "node", 0, -1))
    assert ("warning: rendezvous=c10d has no use for rendezvous.options.a; it" in text) == warned


@pytest.mark.parametrize("name", ["standalone", "single"])
@pytest.mark.parametrize(
    ("key", "removal"),
    [
        ("endpoint", "rendezvous.endpoint="),
        ("options.join_timeout", "~rendezvous.options.join_timeout"),
    ],
)
def test_a_node_alone_is_not_told_where_to_meet(name, key, removal):
    words = [f"rendezvous.name={name}", f"rendezvous.{key}=9"]
    (problem,) = refused(*words)
    assert problem.startswith(f"rendezvous.{key}: rendezvous={name} meets nobody\n")
    assert removal in problem
    assert refused(*words, removal) == []


def test_options_of_null_are_not_handed_over():
    """Some of torch's handlers take no None, where they have a default."""
    values = compose([*C10D, "rendezvous.options={read_timeout: null, join_timeout: 9}"]).values
    config = make_handler(values, "run")._parameters.config
    assert config == {"join_timeout": 9}


# -- a single node -----------------------------------------------------------------------------


def test_a_single_node_is_complete_at_once_with_a_new_store_and_port():
    handler = get_rendezvous_handler(parameters())
    first, second = handler.next_rendezvous(), handler.next_rendezvous()
    assert (first.rank, first.world_size, handler.get_run_id()) == (0, 1, "run-7")
    assert first.bootstrap_store_info.master_addr == "127.0.0.1"
    assert first.bootstrap_store_info.master_port != second.bootstrap_store_info.master_port
    first.store.set("key", "value")
    assert not second.store.check(["key"])
    assert handler.num_nodes_waiting() == 0
    assert handler.use_agent_store is False


def test_a_single_node_that_was_shut_down_is_closed():
    handler = SingleNodeHandler(local_addr="127.0.0.2")
    assert handler.next_rendezvous().bootstrap_store_info.master_addr == "127.0.0.2"
    assert handler.is_closed() is False
    assert handler.shutdown() is True
    assert handler.is_closed() is True
    with pytest.raises(RendezvousClosedError):
        handler.next_rendezvous()


def test_more_nodes_than_one_are_refused():
    with pytest.raises(ValueError, match="for one node, not 2"):
        get_rendezvous_handler(parameters(nodes=2))


def test_a_meeting_place_is_agreed_on_through_the_store():
    store = HashStore()
    told = RendezvousStoreInfo.build(0, store, "10.0.0.1", server_port=99)
    heard = RendezvousStoreInfo.build(1, store, "10.0.0.2")
    assert told == heard == RendezvousStoreInfo("10.0.0.1", 99)
    assert RendezvousStoreInfo.build(0, HashStore(), "here").master_port > 0


# -- errors ------------------------------------------------------------------------------------


def test_errors_are_told_apart_by_name():
    theirs = type("RendezvousClosedError", (RuntimeError,), {})
    mine = type("VeryClosed", (theirs,), {})
    assert is_kind(mine(), RendezvousClosedError)
    assert is_kind(RendezvousClosedError(), RendezvousError)
    assert not is_kind(mine(), RendezvousGracefulExitError)


@pytest.mark.torch
def test_a_rank_that_is_none_is_told_by_its_name():
    pytest.importorskip("torch.distributed.elastic.rendezvous")
    with pytest.raises(ValueError, match="option 'rank' must be a whole number, not 'x'"):
        get_rendezvous_handler(RendezvousParameters("c10d", "localhost:0", "run", 1, 1, rank="x"))


@pytest.mark.torch
def test_torchs_own_errors_are_known():
    home = pytest.importorskip("torch.distributed.elastic.rendezvous")
    names = [name for name in home.__all__ if name.endswith("Error")]
    assert len(names) == 6
    for name in names:
        assert is_kind(getattr(home, name)(), getattr(rendezvous, name))


def test_an_error_is_explained_with_its_cause():
    error = RendezvousError("no luck")
    error.__cause__ = OSError("no route")
    assert explain(error) == "RendezvousError: no luck: OSError: no route"
    assert "its id was used by an earlier run" in explain(RendezvousClosedError())
