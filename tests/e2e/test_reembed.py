"""``braid schema`` and ``braid reembed`` on the demo corpus, with the real default model."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Done

    Braid = Callable[..., Done]

T = ("--tenant", "saltmarrow")


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """Return a copy of the common home, which may be changed."""
    return shutil.copytree(home, tmp_path / "home")


def version(folder: Path, number: int, **fields: Any) -> str:
    """Write a version that has all types of the second one and one more, and return its path."""
    second = json.loads((folder / "second.json").read_text(encoding="utf-8"))
    second |= {"version": number, "changes": "one more", "entity_types": [*second["entity_types"], "Ship"]} | fields
    path = folder / f"version-{number}.json"
    path.write_text(json.dumps({name: second[name] for name in second if name != "tenant_id"}), encoding="utf-8")
    return str(path)


@pytest.fixture
def registered(braid: Braid, own_home: Path, tmp_path: Path) -> list[dict[str, Any]]:
    versions: list[dict[str, Any]] = json.loads(braid("schema", "list", *T, "--json", home=own_home).out)["versions"]
    (tmp_path / "second.json").write_text(json.dumps(versions[-1]), encoding="utf-8")
    return versions


def test_a_schema_is_listed_checked_and_registered_and_what_is_outdated_is_embedded_again(
    braid: Braid, own_home: Path, tmp_path: Path, registered: list[dict[str, Any]]
) -> None:
    assert [each["version"] for each in registered] == [1, 2]
    assert "services and code" in braid("schema", "list", *T, home=own_home).out.replace("\n", " ")
    third = version(tmp_path, 3)
    checked = braid("schema", "check", third, *T, home=own_home)
    assert (checked.status, "is compatible with version 2" in checked.out) == (0, True)
    assert "entity type Ship is new" in checked.out
    assert braid("schema", "register", third, *T, home=own_home).status == 0
    assert braid("schema", "register", third, *T, home=own_home).status == 0
    assert braid("schema", "current", *T, home=own_home).out == "3\n"
    counted = json.loads(braid("reembed", "--dry-run", "--json", home=own_home).out)["outdated"]["saltmarrow"]
    assert counted["schema"] > 0
    done = json.loads(braid("reembed", "--json", home=own_home).out)
    assert (done["status"], done["written"], done["total"]) == ("finished", counted["schema"], counted["schema"])
    assert "nothing is outdated" in braid("reembed", "--dry-run", home=own_home).out
    shown = json.loads(braid("reembed", "--status", "--json", home=own_home).out)
    assert (shown["active_profile"], shown["jobs"][0]["status"]) == ("minilm", "finished")
    assert "finished" in braid("reembed", "--status", home=own_home).out


@pytest.mark.usefixtures("registered")
def test_a_version_that_takes_types_away_is_refused_unless_it_is_forced(
    braid: Braid, own_home: Path, tmp_path: Path
) -> None:
    poorer = version(tmp_path, 3, entity_types=["Person"])
    checked = braid("schema", "check", poorer, *T, "--json", home=own_home)
    assert checked.status == 1
    assert json.loads(checked.out)["compatible"] is False
    refused = braid("schema", "register", poorer, *T, home=own_home)
    assert refused.status == 2
    assert "--force" in refused.err
    assert braid("schema", "current", *T, home=own_home).out == "2\n"
    assert braid("schema", "register", poorer, *T, "--force", home=own_home).status == 0


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ('{"version": "x"}', "version: "),
        ('{"version": 9}', "the next version of tenant saltmarrow's schema is 3, not 9"),
        ('{"version": 2, "changes": "other"}', "registered with other content"),
    ],
)
def test_a_file_that_is_no_next_version_is_named_with_what_is_wrong(
    braid: Braid, own_home: Path, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(content, encoding="utf-8")
    done = braid("schema", "register", str(file), *T, home=own_home)
    assert (done.status, said in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rollback",), "no previous index"),
        (("--drop-previous",), "no previous index"),
        (("--pause",), "no job is running"),
        (("--status", "--rollback"), "one at a time"),
        (("--model-profile", "minilm"), "is the active profile already"),
        (("--model-profile", "nothing"), "unknown profile 'nothing'"),
        (("--model-profile", "instructor"), "braid models export instructor-large-entity"),
        (("--tenant", "no spaces"), "tenant"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(braid: Braid, own_home: Path, options: Any, said: str) -> None:
    done = braid("reembed", *options, home=own_home)
    assert done.status in {1, 2}
    assert said in done.err
    assert done.err.count("\n") == 1


def test_the_queue_is_worked_off_by_hand(braid: Braid, own_home: Path) -> None:
    done = json.loads(braid("reembed", "--queue", "--json", home=own_home).out)
    assert done == {"written": 0, "lost": []}
