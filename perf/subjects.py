"""What is counted or timed of a core as a whole, whatever the variant: graphs, serving plans, weights."""

from __future__ import annotations

from itertools import product

from perf.catalogue import Catalogue, Selection, presets_of, select
from perf.contract import Core, GraphSubject, LoadSubject


def graph_subjects(catalogue: Catalogue, selection: Selection) -> list[GraphSubject]:
    """What to count graphs for: variants and shapes do not narrow it, since the count runs a core's whole sequence.

    The standard matrix leaves `dynamic` to torch; the others force it either way as well.
    """
    return [
        GraphSubject(core, preset, device, dynamic)
        for core, device in product(select(catalogue.cores, selection.cores), selection.devices)
        for preset in presets_of(catalogue.cores[core], device, selection)
        for dynamic in ((None,) if selection.matrix == "standard" else (None, True, False))
    ]


def plan_subjects(catalogue: Catalogue, selection: Selection) -> list[GraphSubject]:
    """Pure cores whose serving plan speaks of shapes that the preset has."""
    return [
        subject
        for subject in graph_subjects(catalogue, selection)
        if subject.dynamic is None and _planned(catalogue.cores[subject.core], subject.preset)
    ]


def _planned(core: Core, preset: str) -> bool:
    names = {shape.name for shape in core.presets[preset].shapes}
    return core.plan is not None and not core.impure and bool(names & set(core.plan.served))


def load_subjects(catalogue: Catalogue, selection: Selection) -> list[LoadSubject]:
    """What reading weights is timed for: both formats, whatever the variant and the shape."""
    return [
        LoadSubject(core, preset, device, suffix)
        for core, device in product(select(catalogue.cores, selection.cores), selection.devices)
        for preset in presets_of(catalogue.cores[core], device, selection)
        for suffix in (".pt", ".safetensors")
    ]
