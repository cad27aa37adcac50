"""The run's counters beside the accepted ones: judged when the run ends, or accepted in their stead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perf.catalogue import keys
from perf.judge.counters import differing_places, is_portable, judge, software_moved
from perf.measure.machine import software
from perf.outcome import FAILING, Verdict, Word
from perf.report.grouped import Teller, Told, grouped, one_by_one
from perf.session import Session
from perf.store.counters import Accepted, Counted, read, write
from perf.subjects import graph_subjects


@dataclass
class Ratchet:
    """`path` is counters.json. Only keys that this run counted are judged, and cases gone from the catalogue."""

    run: Session
    path: Path
    accepted: Accepted
    verdicts: list[Verdict] = field(default_factory=list)
    places: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, run: Session) -> Ratchet:
        """Raises:
        CoregateError: the file is damaged.
        """
        path = run.options.baselines / "counters.json"
        return cls(run, path, read(path))

    def finish(self) -> None:
        if self.run.options.accept_counters:
            self._accept()
        else:
            self._judge()

    @property
    def failed(self) -> bool:
        return any(found.word in FAILING for found in self.verdicts)

    def lines(self, tell: Teller = grouped) -> list[str]:
        """One line a counter that got worse, the places under it; what moved otherwise as `tell` has it; what to do."""
        if self.run.options.accept_counters and self.run.counted:
            return [f"accepted the counters of {len(self.run.counted)} keys in {self.path}"]
        said = [line for word in Word for line in self._said(word, one_by_one if word in FAILING else tell)]
        new = sorted(set(self.run.counted) - set(self.accepted.counted)) if self.accepted.counted else []
        said += [f"new: {len(new)} keys are not in {self.path.name}, the first {new[0]}"] if new else []
        return [*said, "Where this is meant: the same command with --accept-counters"] if said else []

    def _judge(self) -> None:
        moved = software_moved(software(), self.accepted.software)
        for key, now in self.run.counted.items():
            before = self.accepted.counted.get(key)
            if before is not None:
                self.verdicts += judge(key, now.counters, before.counters, moved)
                self.places[key] = list(differing_places(now.places, before.places))
        if self.run.counted:
            self.verdicts += [
                Verdict(key, "counters", Word.MISSING, note="no longer in the catalogue: renamed or removed")
                for key in sorted(self._gone())
            ]

    def _said(self, word: Word, tell: Teller) -> list[str]:
        places = {key: tuple(f"    {line}" for line in lines) for key, lines in self.places.items()}
        moved = [found for found in self.verdicts if found.word is word]
        return tell(word, [Told(found.key, _counter(found), found.note, places.get(found.key, ())) for found in moved])

    def _gone(self) -> set[str]:
        selection, known = self.run.options.selection, self._known()
        return {key for key in self.accepted.counted if key not in known and selection.covers_key(key)}

    def _known(self) -> set[str]:
        subjects = graph_subjects(self.run.catalogue, self.run.options.everything)
        return keys(self.run.catalogue, self.run.options.everything) | {subject.key for subject in subjects}

    def _accept(self) -> None:
        """This run's counters in place of the old, all others as they were, less what the catalogue no longer has."""
        gone = self._gone()
        kept = {key: item for key, item in self.accepted.counted.items() if key not in gone}
        write(self.path, Accepted(software(), {**kept, **portable(self.run.counted)}))


def _counter(found: Verdict) -> str:
    """Its name, where the verdict is of one."""
    return "" if found.word is Word.MISSING else found.metric


def portable(counted: Mapping[str, Counted]) -> dict[str, Counted]:
    """Without what depends on the processor."""
    return {
        key: Counted({n: v for n, v in item.counters.items() if is_portable(key, n)}, item.places)
        for key, item in counted.items()
    }
