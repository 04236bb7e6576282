"""What others import from torch's modules is found under the same paths of ours."""

from __future__ import annotations

import logging
from importlib import import_module

import pytest

NAMES = {
    "elastic.agent.server": (
        "ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec WorkerState"
    ),
    "elastic.agent.server.api": "DEFAULT_ROLE RunResult SimpleElasticAgent WorkerState",
    "elastic.agent.server.local_elastic_agent": (
        "LocalElasticAgent TORCHELASTIC_ENABLE_FILE_TIMER TORCHELASTIC_HEALTH_CHECK_PORT "
        "TORCHELASTIC_TIMER_FILE TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
    ),
    "elastic.agent.server.health_check_server": "HealthCheckServer create_healthcheck_server",
    "elastic.events": (
        "Event EventSource NodeState RdzvEvent construct_and_record_rdzv_event "
        "get_logging_handler record record_rdzv_event"
    ),
    "elastic.events.api": "Event EventSource NodeState RdzvEvent",
    "elastic.events.handlers": "_log_handlers get_logging_handler",
    "elastic.metrics": "MetricHandler configure prof put_metric",
    "elastic.metrics.api": "MetricHandler configure prof put_metric",
    "elastic.multiprocessing": (
        "DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext ProcessFailure "
        "RunProcsResult SignalException Std SubprocessContext start_processes to_map"
    ),
    "elastic.multiprocessing.api": "DefaultLogsSpecs PContext SignalException Std to_map",
    "elastic.multiprocessing.errors": (
        "ChildFailedError ErrorHandler ProcessFailure get_error_handler record"
    ),
    "elastic.rendezvous": (
        "RendezvousClosedError RendezvousConnectionError RendezvousError "
        "RendezvousGracefulExitError RendezvousHandler RendezvousHandlerCreator "
        "RendezvousHandlerRegistry RendezvousInfo RendezvousParameters RendezvousStateError "
        "RendezvousStoreInfo RendezvousTimeoutError rendezvous_handler_registry"
    ),
    "elastic.rendezvous.api": "RendezvousHandler RendezvousParameters rendezvous_handler_registry",
    "elastic.rendezvous.registry": "get_rendezvous_handler handler_registry",
    "elastic.timer": "FileTimerClient TimerClient configure expires",
    "elastic.utils": "macros",
    "elastic.utils.api": "macros",
    "launcher": "LaunchConfig elastic_launch launch_agent",
    "launcher.api": "LaunchConfig elastic_launch launch_agent",
    "launch": "launch main parse_args",
    "run": (
        "config_from_args determine_local_world_size get_args_parser main parse_args "
        "parse_min_max_nnodes run run_script_path"
    ),
}


@pytest.mark.parametrize("path", NAMES)
def test_names_of_a_module(path):
    ours = import_module(f"elastic_fsm.distributed.{path}")
    assert [name for name in NAMES[path].split() if not hasattr(ours, name)] == []
    assert set(NAMES[path].split()) <= set(ours.__all__)


@pytest.mark.torch
@pytest.mark.parametrize("path", NAMES)
def test_torch_has_these_names_too(path):
    theirs = import_module(f"torch.distributed.{path}")
    assert [name for name in NAMES[path].split() if not hasattr(theirs, name)] == []


@pytest.mark.torch
def test_the_variables_have_torchs_names():
    path = "distributed.elastic.agent.server.local_elastic_agent"
    ours, theirs = (import_module(f"{root}.{path}") for root in ("elastic_fsm", "torch"))
    for name in NAMES["elastic.agent.server.local_elastic_agent"].split()[1:]:
        assert getattr(ours, name) == getattr(theirs, name)


def test_a_sink_that_is_added_is_used():
    from elastic_fsm.distributed.elastic.events import Event, EventSource, record
    from elastic_fsm.distributed.elastic.events.handlers import _log_handlers

    seen = []
    handler = logging.Handler()
    handler.emit = lambda entry: seen.append(entry.getMessage())
    _log_handlers["mine"] = handler
    try:
        record(Event("x", EventSource.AGENT), "mine")
    finally:
        del _log_handlers["mine"]
    assert len(seen) == 1


def test_macros():
    from elastic_fsm.distributed.elastic.utils import macros

    assert macros.substitute(["--rank=${local_rank}", "$HOME", 3], "1") == ["--rank=1", "$HOME", 3]
    assert macros.local_rank == "${local_rank}"
