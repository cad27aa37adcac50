"""The card's state through a fake NVML: what slows it down, whose processes are on it, and what is not known."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from perf.measure.nvml import CardState, NvmlCard, driver_version, notes, open_card, own_bytes, slowdowns


class FakeNvml:
    """The part of `pynvml` that is asked; names in `refused` raise as a driver does that does not support them."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    class NVMLError(Exception):
        pass

    def __init__(self, bits: int = 0, held: dict[int, int | None] | None = None, refused: tuple[str, ...] = ()) -> None:
        self._answers: dict[str, Any] = {
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetCurrentClocksThrottleReasons": bits,
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in (held or {}).items()
            ],
        }
        self._refused = refused

    def __getattr__(self, name: str) -> Any:
        def query(handle: str, *which: int) -> Any:
            assert handle == "handle"
            if name in self._refused:
                raise self.NVMLError(name)
            return self._answers[name]

        return query


def state(nvml: FakeNvml, pid: int = 7) -> CardState:
    return NvmlCard(nvml, "handle", pid).state()


def test_a_quiet_card() -> None:
    found = state(FakeNvml(held={7: 512}))
    assert found == CardState(sm_clock_mhz=1980, temperature_c=41, own_bytes=512)
    assert not found.throttled
    assert notes([found]) == {"sm_clock": "1980 MHz", "temperature": "41 °C"}


@pytest.mark.parametrize(
    ("bits", "words", "throttled"),
    [
        (0x01 | 0x02, set(), False),  # idle, clocks set by the user
        (0x04, {"power cap"}, False),
        (0x20, {"software thermal"}, True),
        (0x08 | 0x40, {"hardware slowdown", "hardware thermal"}, True),
        (0x80 | 0x04, {"power brake", "power cap"}, True),
    ],
)
def test_what_slows_the_card_down(bits: int, words: set[str], throttled: bool) -> None:
    assert slowdowns(bits) == words
    assert state(FakeNvml(bits)).throttled is throttled


def test_foreign_processes_are_counted_and_said() -> None:
    found = state(FakeNvml(held={7: 512, 11: 100, 12: None}))
    assert (found.foreign, found.own_bytes) == (2, 512)
    assert notes([CardState(), found])["foreign_processes"] == "2"


def test_a_container_that_sees_the_hosts_process_numbers() -> None:
    assert own_bytes({4711: 300}, pid=7) == 300
    assert own_bytes({4711: 300, 4712: 5}, pid=7) is None
    assert own_bytes({}, pid=7) is None
    assert state(FakeNvml(held={4711: 300})).foreign == 0
    assert state(FakeNvml(held={4711: 300, 4712: 5})).foreign == 1


def test_what_a_driver_refuses_is_absent() -> None:
    refused = ("nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTemperature")
    found = state(FakeNvml(0x20, {7: 512}, refused))
    assert found == CardState(own_bytes=512)
    assert state(FakeNvml(held={7: 512}, refused=("nvmlDeviceGetComputeRunningProcesses",))).own_bytes is None
    assert notes([found]) == {}


def test_notes_span_the_case() -> None:
    hot = CardState(sm_clock_mhz=1200, temperature_c=88, slowdowns=frozenset({"software thermal"}))
    assert notes([CardState(sm_clock_mhz=1980, temperature_c=40), hot]) == {
        "sm_clock": "1200–1980 MHz",
        "temperature": "40–88 °C",
        "throttle": "software thermal",
    }


def test_a_cpu_has_no_card() -> None:
    assert open_card("cpu") is None


@pytest.mark.parametrize(("reached", "said"), [(True, "580.159.04"), (False, "")])
def test_the_driver_is_nvmls_where_it_can_be_reached(reached: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    def init() -> None:
        if not reached:
            raise Error

    fake = SimpleNamespace(NVMLError=Error, nvmlInit=init, nvmlSystemGetDriverVersion=lambda: "580.159.04")
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    driver_version.cache_clear()
    assert driver_version() == said
    driver_version.cache_clear()
