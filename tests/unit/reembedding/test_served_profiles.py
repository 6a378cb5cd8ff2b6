"""What a warm process knows of the active profile."""

from __future__ import annotations

from braid.errors import TransientStoreError
from braid.opened_models import ServedProfiles
from braid.ports.reembedding import MigrationState

from tests.contract.shapes import Clock


class Index:
    """Says what it serves, or fails, and counts how often it is asked."""

    def __init__(self) -> None:
        self.serving: MigrationState | None = MigrationState()
        self.asked = 0

    def read(self) -> MigrationState:
        self.asked += 1
        if self.serving is None:
            raise TransientStoreError("the search index is unreachable")
        return self.serving


def made() -> tuple[Index, Clock, ServedProfiles]:
    index, clock = Index(), Clock()
    return index, clock, ServedProfiles(index.read, "default", keep_s=5.0, clock=clock.seconds)


def test_without_a_move_the_settings_profile_is_active() -> None:
    _, _, served = made()
    assert (served.active(), served.all()) == ("default", ("default",))


def test_records_are_written_for_the_active_profile_and_the_one_beside_it() -> None:
    index, _, served = made()
    index.serving = MigrationState(active="old", next="new")
    assert served.all() == ("old", "new")


def test_after_a_switch_both_profiles_are_written_until_the_previous_one_is_dropped() -> None:
    index, clock, served = made()
    for serving, profiles in (
        (MigrationState(active="new", previous="old"), ("new", "old")),
        (MigrationState(active="old", previous="old"), ("old",)),
        (MigrationState(active="new"), ("new",)),
    ):
        index.serving = serving
        clock.advance(5)
        assert served.all() == profiles


def test_an_answer_counts_for_a_while_and_is_then_asked_for_again() -> None:
    index, clock, served = made()
    index.serving = MigrationState(active="old")
    assert served.active() == "old"
    index.serving = MigrationState(active="new", previous="old")
    clock.advance(4.9)
    assert (served.active(), index.asked) == ("old", 1)
    clock.advance(0.1)
    assert (served.active(), index.asked) == ("new", 2)


def test_an_index_that_does_not_answer_costs_no_question_and_is_left_alone_for_a_while() -> None:
    index, clock, served = made()
    index.serving = None
    assert [served.active() for _ in range(3)] == ["default"] * 3
    assert index.asked == 1
    index.serving = MigrationState(active="new")
    clock.advance(5)
    assert served.active() == "new"
    index.serving = None
    clock.advance(5)
    assert served.active() == "new"
