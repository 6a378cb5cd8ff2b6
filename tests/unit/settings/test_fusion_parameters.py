"""Fitted parameters: read from a file when there is one, refused by field when wrong, and used by the stages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.errors import ConfigurationError
from braid.models import FusionParameters, Intent, Mode
from braid.ranking.fusion import adaptive_weights
from braid.retrieval.stages.fuse_rerank import FusionLimits, strand_weights
from braid.retrieval.stages.stage_messages import FuseRequest
from braid.settings import Settings
from braid.settings.configuration_files import Fitted, load_fitted
from pydantic import ValidationError

from tests.fakes import NOW, hits, plan, query, walked

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, **parameters: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"parameters": parameters, "evidence": {"folds": 5}}), encoding="utf-8")
    return path


def test_without_a_file_the_documented_defaults_hold(tmp_path: Path) -> None:
    fitted = load_fitted(Settings(home=tmp_path, shared_dir=tmp_path))
    assert (fitted.path, fitted.parameters) == (None, FusionParameters())


def test_a_file_in_the_home_is_used(tmp_path: Path) -> None:
    path = written(tmp_path / "fitted.json", graph_weight=0.7, hit_share=0.25)
    fitted = Application(Settings(home=tmp_path)).fitted
    assert (fitted.path, fitted.parameters) == (path, FusionParameters(graph_weight=0.7, hit_share=0.25))


def test_a_deployment_carries_its_file_in_the_shared_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "opt" / "models" / "fitted.json", lexical_share=0.6)
    settings = Settings(home=tmp_path / "nothing", shared_dir=tmp_path / "opt")
    assert load_fitted(settings) == Fitted(FusionParameters(lexical_share=0.6), path)


def test_the_file_that_a_setting_names_wins_over_the_homes_and_the_homes_over_the_shared(tmp_path: Path) -> None:
    written(tmp_path / "opt" / "models" / "fitted.json", lexical_share=0.1)
    written(tmp_path / "fitted.json", lexical_share=0.2)
    named = written(tmp_path / "elsewhere.json", lexical_share=0.3)
    settings = Settings(home=tmp_path, shared_dir=tmp_path / "opt")
    assert load_fitted(settings).parameters.lexical_share == 0.2
    assert load_fitted(settings.model_copy(update={"fitted_weights": named})).parameters.lexical_share == 0.3


def test_what_an_operator_sets_wins_over_the_file(tmp_path: Path) -> None:
    written(tmp_path / "fitted.json", lexical_share=0.2, rank_constant=10, hit_share=0.9)
    fitted = load_fitted(Settings(home=tmp_path, lexical_share=0.75, rank_constant=30))
    assert fitted.parameters == FusionParameters(lexical_share=0.75, rank_constant=30, hit_share=0.9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"parameters": {"hit_share": 1.5}}', "parameters.hit_share: must be less than or equal to 1"),
        ('{"parameters": {"causal_shift": "much"}}', "parameters.causal_shift: "),
        ('{"parameters": {"colour": 1}}', "parameters.colour: "),
        ('{"parameters": {"vector_weight": 0, "graph_weight": 0}}', "both 0"),
        ("{}", "parameters: missing"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_file_is_refused_at_cold_start_and_its_field_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "fitted.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as refused:
        Application(Settings(home=tmp_path))
    assert str(refused.value).startswith(str(tmp_path / "fitted.json"))
    assert said in str(refused.value)


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.json: cannot be read .*BRAID_FITTED_WEIGHTS"):
        load_fitted(Settings(home=tmp_path, fitted_weights=tmp_path / "missing.json"))


def test_equal_parameters_have_one_digest_wherever_they_lie_and_others_have_another(tmp_path: Path) -> None:
    one = Fitted(FusionParameters(hit_share=0.25), tmp_path)
    assert one.digest == Fitted(FusionParameters(hit_share=0.25)).digest
    assert len({one.digest, Fitted(FusionParameters()).digest, Fitted(FusionParameters(rank_constant=61)).digest}) == 3


@pytest.mark.parametrize("intent", list(Intent))
def test_each_intent_has_a_shift_of_its_own(intent: Intent) -> None:
    parameters = FusionParameters().model_copy(update={f"{intent.value}_shift": 0.3})
    weights = adaptive_weights(0.5, 0.5, intent=intent, vector_hits=8, graph_hits=8, parameters=parameters)
    assert (weights.vector, weights.graph) == pytest.approx((0.8, 0.2))


def weighed(parameters: FusionParameters, mode: Mode = Mode.HYBRID, **asked: Any) -> float:
    request = FuseRequest(query=query(**asked), plan=plan(mode=mode), trace_id="t", started_at=NOW)
    return strand_weights(
        request, hits(("a", 0.5)), (), [walked("a", "b")], FusionLimits(parameters=parameters).parameters
    ).graph


def test_base_weights_are_the_questions_when_it_states_them_and_else_the_fitted_ones() -> None:
    parameters = FusionParameters(vector_weight=0.2, graph_weight=0.8)
    assert weighed(parameters) == pytest.approx(0.8)
    assert weighed(parameters, vector_weight=0.5, graph_weight=0.5) == pytest.approx(0.5)
    assert weighed(parameters, graph_weight=0.2) == pytest.approx(0.5)


def test_the_shift_of_questions_about_entities_is_fitted_as_well() -> None:
    assert weighed(FusionParameters(entity_shift=-0.4), Mode.ENTITY) == pytest.approx(0.9)
    assert weighed(FusionParameters(entity_shift=-0.4)) == pytest.approx(0.5)


def test_parameters_that_weigh_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="both 0"):
        FusionParameters(vector_weight=0, graph_weight=0)
