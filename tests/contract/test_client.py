"""The library's face keeps its contract over a store in a folder and over a served Braid."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from braid import ApiError, Braid, InvalidRequest
from braid.client.in_process import InProcess
from braid.errors import ModelMissing
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
