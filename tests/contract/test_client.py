"""The library's face keeps its contract over a store in a folder and over a served Braid."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from braid import ApiError, Braid, InvalidRequest
from braid.client.in_process import InProcess
from braid.errors import ConfigurationError, ModelMissing, StoreError
from braid.settings import Settings

from tests.contract.client import BraidContract
from tests.served import served, token
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TENANTS = (f"tenant-{number}" for number in count())


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path_factory.mktemp("client")))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def in_process(stages: DemoStages) -> Braid:
    return Braid._of(InProcess(stages.settings, stages), None)  # whose encoder needs no weights


@pytest.fixture(scope="module")
def address(stages: DemoStages) -> Iterator[str]:
    with served(stages) as address:
        yield address


class TestInProcess(BraidContract):
    @pytest.fixture
    def braid(self, in_process: Braid) -> Braid:
        return in_process.tenant(next(TENANTS))


class TestDeployed(BraidContract):
    @pytest.fixture
    def braid(self, address: str) -> Iterator[Braid]:
        with Braid.deployed(address, token(next(TENANTS)), attempts=1) as braid:
            yield braid


def test_a_tenant_has_its_own_data(in_process: Braid) -> None:
    ours, theirs = in_process.tenant("ours"), in_process.tenant("theirs")
    ours.add({"id": "a", "text": "Ours alone."})
    assert theirs.get("a") is None
    assert not list(theirs.search("Ours alone"))
    assert repr(ours).endswith("tenant='ours')")


@pytest.mark.parametrize("settings", [None, Settings()])
def test_a_relative_path_is_of_the_folder_in_which_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings | None
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    with Braid("store", settings=settings) as braid:
        monkeypatch.chdir(tmp_path / "second")
        braid.add({"id": "a", "text": "The ledger is kept by the Harbour team."})
        monkeypatch.chdir(tmp_path)
        assert [result.id for result in braid.search("Who keeps the ledger?")] == ["a"]
    assert (tmp_path / "first" / "store").is_dir()


def test_a_store_that_was_closed_says_so_instead_of_finding_nothing(tmp_path: Path) -> None:
    with Braid(tmp_path) as store:
        assert store.stats().records == 0
    for call in (lambda: store.search("x"), store.stats, lambda: store.tenant("other").add("x")):
        with pytest.raises(StoreError, match="was closed; open another Braid"):
            call()


def test_another_tenant_than_the_tokens_is_refused(address: str) -> None:
    with Braid.deployed(address, token("ours"), attempts=1) as braid, pytest.raises(ApiError) as refused:
        braid.tenant("theirs").stats()
    assert refused.value.status == 403


def test_what_names_no_tenant_no_address_or_no_token_is_refused(in_process: Braid) -> None:
    with pytest.raises(InvalidRequest, match=r"^tenant: "):
        in_process.tenant("../x")
    with pytest.raises(InvalidRequest, match=r"^url: "):
        Braid.deployed("localhost:8700", "t")
    with pytest.raises(InvalidRequest, match=r"^token: "):
        Braid.deployed("http://localhost:8700", "")
    with pytest.raises(ConfigurationError, match=r"^settings: .*engine='aws'"):
        Braid.aws(Settings())


def test_a_folder_added_again_loses_what_is_gone_and_another_of_its_name_is_refused(
    in_process: Braid, tmp_path: Path
) -> None:
    braid = in_process.tenant(next(TENANTS))
    (tmp_path / "a" / "notes").mkdir(parents=True)
    (tmp_path / "b" / "notes").mkdir(parents=True)
    for name in ("quay.md", "gates.txt", "b/notes/quay.md"):
        (tmp_path / ("" if "/" in name else "a/notes") / name).write_text(f"About {name}.", encoding="utf-8")
    assert braid.add(tmp_path / "a" / "notes").written == 2
    (tmp_path / "a" / "notes" / "quay.md").unlink()
    again = braid.add(tmp_path / "a" / "notes")
    assert (again.written, again.unchanged, again.removed) == (0, 1, 1)
    assert [record.id for record in braid.records()] == ["notes/gates.txt#chunk-0"]
    with pytest.raises(InvalidRequest, match=r"^content: another file or folder called 'notes' was added before"):
        braid.add(tmp_path / "b" / "notes")


def test_without_the_extra_documents_texts_are_read_and_other_formats_name_it(
    in_process: Braid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    for package in ("pypdf", "selectolax", "docx", "pptx", "openpyxl"):
        missing = f"raise ModuleNotFoundError(name={package!r})"
        (tmp_path / "none" / f"{package}.py").write_text(missing, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "none")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "quay.md").write_text("# Quay\n\n<p align=center>1901 &amp; on<!-- x --></p>\n", "utf-8")
    (tmp_path / "plain" / "gates.txt").write_text("The gates open at six, é.", encoding="utf-8")
    (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.7\n")
    braid = in_process.tenant(next(TENANTS))
    assert braid.add(tmp_path / "plain").written == 2
    assert [record.content for record in braid.records()] == ["The gates open at six, é.", "1901 & on"]
    with pytest.raises(InvalidRequest, match=r"plan\.pdf needs the package pypdf: install .+-any\.whl\[documents\]"):
        braid.add(tmp_path / "plan.pdf")


class Modelless(DemoStages):
    """Stages whose model cannot be made."""

    tried = 0

    def make_models(self, on_progress: object = None) -> None:  # noqa: ARG002 - as the base class calls it
        self.tried += 1
        message = "no network"
        raise ModelMissing(message)


def test_where_the_model_cannot_be_made_searches_warn_once_and_writes_fail(tmp_path: Path) -> None:
    stages = Modelless(Settings(home=tmp_path))
    braid = Braid._of(InProcess(stages.settings, stages), None)
    with pytest.raises(ModelMissing, match="no network"):
        braid.add("text")
    with pytest.warns(UserWarning, match="answering without vectors: no network"):
        braid.search("text")
    braid.search("text")
    assert stages.tried == 2
    stages.close()
