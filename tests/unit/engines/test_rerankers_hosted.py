"""Bedrock and Voyage: the documented request, the documented answer, and everything that may come instead."""

from __future__ import annotations

import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import boto3
import pytest
from aws_lambda_powertools.utilities.parameters import SecretsProvider
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from braid.app import Application
from braid.deadline import CircuitBreaker
from braid.engines.aws import secret_keys
from braid.engines.aws.secret_keys import api_key
from braid.engines.rerankers.bedrock import BedrockReranker
from braid.engines.rerankers.voyage import VoyageReranker
from braid.errors import ConfigurationError, RerankFailed
from braid.models import Query, RerankerKind
from braid.ports.encoder import Reranker
from braid.settings import Settings
from moto import mock_aws
from pydantic import SecretStr

from braid_cli.question_validation import unusable_models
from tests.voyage_server import KEY, Drip, HangUp, Reply, Stall, VoyageServer, answered, voyage_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "Which owl hunts by day?"
TEXTS = ["barn owl", "snowy owl", "tawny owl"]
SCORES = {"barn owl": 0.125, "snowy owl": 0.875, "tawny owl": 0.25}
IN_ORDER = [0.125, 0.875, 0.25]


@pytest.fixture
def server() -> Iterator[VoyageServer]:
    with voyage_server() as running:
        running.score = SCORES.__getitem__
        yield running


@pytest.fixture
def voyage(server: VoyageServer) -> Iterator[VoyageReranker]:
    made = VoyageReranker(lambda: KEY, url=server.url)
    yield made
    made._pool.clear()


def test_voyage_is_asked_as_documented_and_its_scores_are_in_the_order_of_the_texts(
    server: VoyageServer, voyage: VoyageReranker
) -> None:
    assert voyage.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert server.requests == [
        {
            "model": "rerank-2.5",
            "query": QUESTION,
            "documents": TEXTS,
            "return_documents": False,
            "truncation": True,
        }
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert isinstance(voyage, Reranker)
    assert voyage.name == "voyage rerank-2.5"


def test_voyage_is_asked_again_over_the_same_connection(server: VoyageServer, voyage: VoyageReranker) -> None:
    for _ in range(3):
        voyage.rerank(QUESTION, TEXTS, timeout_s=5)
    assert len(server.connections) == 1


def test_a_text_of_voyage_costs_the_thousandth_part_of_five_cents() -> None:
    reranker = VoyageReranker(lambda: KEY)
    assert reranker.cost_usd(QUESTION, ["text"] * 50) == pytest.approx(0.0025)
    assert reranker.cost_usd(QUESTION, ["text", "", " "]) == pytest.approx(0.00005)
    assert VoyageReranker(lambda: KEY, usd_per_1000_documents=1.0).cost_usd(QUESTION, ["text"]) == 0.001


def test_texts_without_a_word_are_not_sent_and_without_any_nothing_is(
    server: VoyageServer, voyage: VoyageReranker
) -> None:
    assert voyage.rerank(QUESTION, ["", "snowy owl", "\n"], timeout_s=5) == [0.0, 0.875, 0.0]
    assert server.requests[0]["documents"] == ["snowy owl"]
    assert voyage.rerank(QUESTION, ["", " "], timeout_s=5) == [0.0, 0.0]
    assert voyage.rerank(QUESTION, [], timeout_s=5) == []
    assert len(server.requests) == 1


def test_long_texts_are_cut_before_they_are_sent(server: VoyageServer) -> None:
    server.score = lambda _: 0.5
    reranker = VoyageReranker(lambda: KEY, url=server.url, window=64)
    reranker.rerank(QUESTION, ["owl " * 5000], timeout_s=5)
    assert 150 < len(server.requests[0]["documents"][0]) < 256
    reranker._pool.clear()


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_a_refusal_of_voyage_is_not_tried_again_and_shows_no_key(
    server: VoyageServer, voyage: VoyageReranker, status: int
) -> None:
    server.faults.append(Reply(status, f'{{"detail": "{KEY} {TEXTS[0]}"}}'.encode()))
    with pytest.raises(RerankFailed, match=f"reranker voyage rerank-2.5: HTTP {status}") as refused:
        voyage.rerank(QUESTION, TEXTS, timeout_s=5)
    assert len(server.requests) == 1
    assert refused.value.cost_usd == 0
    assert not {KEY, TEXTS[0], QUESTION} & set(str(refused.value).split())
    assert KEY not in str(refused.value)


def test_a_refused_key_is_called_that(server: VoyageServer, voyage: VoyageReranker) -> None:
    server.faults.append(Reply(401))
    with pytest.raises(RerankFailed, match="refused the key"):
        voyage.rerank(QUESTION, TEXTS, timeout_s=5)


@pytest.mark.parametrize("fault", [Reply(408), Reply(429), Reply(500), Reply(502), Reply(503), HangUp()])
def test_voyage_is_asked_once_more_when_that_may_help(
    server: VoyageServer, voyage: VoyageReranker, fault: Reply | HangUp
) -> None:
    server.faults.append(fault)
    assert voyage.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert len(server.requests) == 2


def test_tries_are_bounded(server: VoyageServer, voyage: VoyageReranker) -> None:
    server.faults.extend([Reply(429)] * 5)
    with pytest.raises(RerankFailed, match="HTTP 429"):
        voyage.rerank(QUESTION, TEXTS, timeout_s=5)
    assert len(server.requests) == 2


def test_a_throttle_that_lasts_longer_than_the_budget_is_not_waited_for(
    server: VoyageServer, voyage: VoyageReranker
) -> None:
    server.faults.append(Reply(429, headers=(("Retry-After", "60"),)))
    started = time.monotonic()
    with pytest.raises(RerankFailed, match="HTTP 429"):
        voyage.rerank(QUESTION, TEXTS, timeout_s=10)
    assert time.monotonic() - started < 2
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [Stall(), Drip()])
def test_voyage_is_given_up_when_the_budget_is_spent_and_may_bill_what_it_did(
    server: VoyageServer, voyage: VoyageReranker, fault: Stall | Drip
) -> None:
    server.faults.append(fault)
    started = time.monotonic()
    with pytest.raises(RerankFailed, match=r"needs more than its 0.3 s") as late:
        voyage.rerank(QUESTION, TEXTS, timeout_s=0.3)
    assert 0.3 <= time.monotonic() - started < 1.0
    assert late.value.cost_usd == pytest.approx(0.00015)
    assert voyage.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER


def test_an_answer_that_drips_is_hung_up_on(server: VoyageServer, voyage: VoyageReranker) -> None:
    server.faults.append(Drip())
    with pytest.raises(RerankFailed):
        voyage.rerank(QUESTION, TEXTS, timeout_s=0.1)
    assert server.hung_up_on.wait(5)


def test_a_service_that_is_not_there_is_a_lost_reranker() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        reranker = VoyageReranker(lambda: KEY, url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1/rerank")
        with pytest.raises(RerankFailed, match="NewConnectionError") as lost:
            reranker.rerank(QUESTION, TEXTS, timeout_s=5)
    assert lost.value.cost_usd == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"results": []}',
        b'{"data": [1]}',
        b'{"data": [{"index": 0}]}',
        b"[" * 100_000,
        answered([(0, 0.5), (1, 0.5)]),
        answered([(0, 0.5), (1, 0.5), (1, 0.5)]),
        answered([(0, 0.5), (1, 0.5), (3, 0.5)]),
        answered([(0, 0.5), (1, 0.5), (2, float("nan"))]),
        answered([(0, 0.5), (1, 0.5), (2, 40)]),
        answered([(0, 0.5), (1, 0.5), (2, "high")]),
        b" " * (1 << 20) + answered([(0, 0.5), (1, 0.5), (2, 0.5)]),
    ],
    ids=lambda body: body[-40:].decode(),
)
def test_an_answer_of_another_shape_is_a_lost_reranker(
    server: VoyageServer, voyage: VoyageReranker, body: bytes
) -> None:
    server.faults.append(Reply(200, body))
    with pytest.raises(RerankFailed, match="the answer"):
        voyage.rerank(QUESTION, TEXTS, timeout_s=5)
    assert len(server.requests) == 1


def test_a_key_goes_nowhere_but_where_it_was_meant_for(server: VoyageServer, voyage: VoyageReranker) -> None:
    with voyage_server() as elsewhere:
        server.faults.append(Reply(307, headers=(("Location", elsewhere.url),)))
        with pytest.raises(RerankFailed, match="HTTP 307"):
            voyage.rerank(QUESTION, TEXTS, timeout_s=5)
        assert elsewhere.requests == []


def test_a_stalled_question_holds_up_no_other(server: VoyageServer, voyage: VoyageReranker) -> None:
    server.faults.append(Stall())
    lost: list[RerankFailed] = []

    def ask() -> None:
        with pytest.raises(RerankFailed) as failed:
            voyage.rerank(QUESTION, TEXTS, timeout_s=1.0)
        lost.append(failed.value)

    stalled = threading.Thread(target=ask)
    stalled.start()
    while not server.requests:
        threading.Event().wait(0.005)
    assert voyage.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert lost == []
    stalled.join()
    assert len(lost) == 1


NAMES = ("THE_KEY", "THE_SECRET")
ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:absent-AbCdEf"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


def key_of(secret: str) -> str:
    client = boto3.client("secretsmanager", region_name="eu-west-1")
    arn = client.create_secret(Name="voyage", SecretString=secret)["ARN"]
    return api_key(SecretStr(""), arn, names=NAMES, timeout_s=1)()


def test_a_key_of_ones_own_is_used_as_it_is() -> None:
    assert api_key(SecretStr(f" {KEY}\n"), "", names=NAMES, timeout_s=1)() == KEY


@pytest.mark.usefixtures("aws")
def test_a_key_is_read_from_the_secret_of_any_region_and_not_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("secretsmanager", region_name="eu-west-1")
    arn = client.create_secret(Name="voyage", SecretString=f"{KEY}\n")["ARN"]
    key = api_key(SecretStr(""), arn, names=NAMES, timeout_s=1)
    assert key() == KEY
    client.delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True)
    assert key() == KEY


@pytest.mark.usefixtures("aws")
def test_a_secret_that_is_not_there_is_a_lost_reranker() -> None:
    key = api_key(SecretStr(""), ARN, names=NAMES, timeout_s=1)
    with pytest.raises(RerankFailed, match=r"THE_SECRET: the secret cannot be read \(ResourceNotFoundException\)"):
        key()


def test_a_key_that_was_read_is_used_on_while_its_service_fails_and_not_once_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Secrets:
        refusals: ClassVar[list[Any]] = ["AccessDeniedException", "ThrottlingException"]
        answers: ClassVar[list[Any]] = [{"SecretString": KEY}, *["ThrottlingException"] * 2, *refusals]

        def get_secret_value(self, **_: object) -> Any:
            answer = self.answers.pop(0)
            if isinstance(answer, str):
                raise ClientError({"Error": {"Code": answer}}, "GetSecretValue")
            return answer

    monkeypatch.setattr(secret_keys, "_provider", lambda *_: SecretsProvider(boto3_client=Secrets()))
    monkeypatch.setattr(secret_keys, "MAX_AGE_S", -1)
    clock = iter([1.0, 1.0, 2.0, 40.0, 40.0, 80.0, 80.0, 120.0])
    monkeypatch.setattr(secret_keys, "CircuitBreaker", lambda rest_s: CircuitBreaker(rest_s, lambda: next(clock)))
    read = api_key(SecretStr(""), ARN, names=("THE_KEY", "THE_SECRET"), timeout_s=1.0)
    assert [read() for _ in range(4)] == [KEY] * 4
    assert Secrets.answers == Secrets.refusals  # the third time it was not asked
    for code in Secrets.refusals:
        with pytest.raises(RerankFailed, match=code):
            read()


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("secret", ['{"api_key": "pa-1"}', "two words", "schlüssel", " "])
def test_a_secret_that_holds_more_than_a_key_is_refused_without_showing_it(secret: str) -> None:
    with pytest.raises(RerankFailed, match="THE_SECRET: the secret's value is not an API key alone") as refused:
        key_of(secret)
    assert secret.strip() not in str(refused.value) or not secret.strip()


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError, match="THE_KEY: holds a character") as refused:
        api_key(SecretStr(key), "", names=NAMES, timeout_s=1)
    assert key not in str(refused.value)


def test_without_key_and_secret_both_are_named() -> None:
    with pytest.raises(ConfigurationError, match="neither THE_KEY nor THE_SECRET"):
        api_key(SecretStr(""), "", names=NAMES, timeout_s=1)


MODEL = "arn:aws:bedrock:eu-central-1::foundation-model/amazon.rerank-v1:0"
COHERE = "arn:aws:bedrock:eu-central-1::foundation-model/cohere.rerank-v3-5:0"


def client(**options: Any) -> Any:
    return boto3.client(
        "bedrock-agent-runtime",
        region_name="eu-central-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106 - of no account
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=2, read_timeout=2),
        **options,
    )


def asked(**more: object) -> dict[str, object]:
    """Return the documented request."""
    return {
        "queries": [{"type": "TEXT", "textQuery": {"text": QUESTION}}],
        "sources": [
            {"type": "INLINE", "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": text}}}
            for text in TEXTS
        ],
        "rerankingConfiguration": {
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {
                "numberOfResults": 3,
                "modelConfiguration": {"modelArn": MODEL},
            },
        },
        **more,
    }


def results(*scored: tuple[int, float]) -> dict[str, Any]:
    return {"results": [{"index": index, "relevanceScore": score} for index, score in scored]}


ANSWER = results((1, 0.875), (2, 0.25), (0, 0.125))


@pytest.fixture
def stubbed() -> Iterator[tuple[BedrockReranker, Stubber]]:
    """Return a reranker whose client answers as told, and checks requests and answers against the service's model."""
    made = client()
    with Stubber(made) as stub:
        yield BedrockReranker(made, MODEL), stub
        stub.assert_no_pending_responses()


def test_bedrock_without_its_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"^reranker bedrock needs the extra aws: .+-any\.whl\[aws\]"):
        BedrockReranker.connect(Settings(bedrock_region="eu-west-1"))


def test_bedrock_is_asked_as_documented_and_its_scores_are_in_the_order_of_the_texts(
    stubbed: tuple[BedrockReranker, Stubber],
) -> None:
    reranker, stub = stubbed
    stub.add_response("rerank", ANSWER, asked())
    assert reranker.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert isinstance(reranker, Reranker)
    assert reranker.name == "bedrock amazon.rerank-v1:0"


def test_bedrock_is_asked_for_what_is_left_of_its_answer(stubbed: tuple[BedrockReranker, Stubber]) -> None:
    reranker, stub = stubbed
    stub.add_response("rerank", {**results((1, 0.875)), "nextToken": "more"}, asked())
    stub.add_response("rerank", results((2, 0.25), (0, 0.125)), asked(nextToken="more"))
    assert reranker.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("AccessDeniedException", 403),
        ("ValidationException", 400),
        ("ResourceNotFoundException", 404),
        ("ServiceQuotaExceededException", 400),
        ("ConflictException", 409),
        ("UnrecognizedClientException", 403),
    ],
)
def test_a_refusal_of_bedrock_is_not_tried_again_and_shows_nothing_that_was_sent(
    stubbed: tuple[BedrockReranker, Stubber], code: str, status: int
) -> None:
    reranker, stub = stubbed
    stub.add_client_error("rerank", code, f"cannot rerank {QUESTION}", status)
    with pytest.raises(RerankFailed) as refused:
        reranker.rerank(QUESTION, TEXTS, timeout_s=5)
    assert str(refused.value) == f"reranker bedrock amazon.rerank-v1:0: {code}"
    assert refused.value.cost_usd == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 429),
        ("InternalServerException", 500),
        ("DependencyFailedException", 424),
        ("BadGatewayException", 502),
        ("", 503),
        ("", 429),
    ],
)
def test_bedrock_is_asked_once_more_when_that_may_help(
    stubbed: tuple[BedrockReranker, Stubber], code: str, status: int
) -> None:
    reranker, stub = stubbed
    stub.add_client_error("rerank", code, "", status)
    stub.add_response("rerank", ANSWER, asked())
    assert reranker.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    for _ in range(2):
        stub.add_client_error("rerank", code, "", status)
    with pytest.raises(RerankFailed, match=f"amazon.rerank-v1:0: {code}"):
        reranker.rerank(QUESTION, TEXTS, timeout_s=5)


class Answering:
    """A client whose answers no service model checks."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls = 0

    def rerank(self, **request: object) -> dict[str, Any]:
        del request
        self.calls += 1
        answer = self.answers.pop(0)
        if callable(answer):
            answer()
        found: dict[str, Any] = answer
        return found


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"results": None},
        {"results": [1]},
        {"results": [{}]},
        results((0, 0.5), (1, 0.5)),
        results((0, 0.5), (1, 0.5), (1, 0.5)),
        results((0, 0.5), (1, 0.5), (2, float("nan"))),
        results((0, 0.5), (1, 0.5), (2, -3.0)),
    ],
)
def test_an_answer_of_another_shape_is_a_lost_bedrock_reranker(answer: dict[str, Any]) -> None:
    with pytest.raises(RerankFailed, match="the answer"):
        BedrockReranker(Answering(answer), MODEL).rerank(QUESTION, TEXTS, timeout_s=5)


def test_pages_without_an_end_are_not_followed_for_ever() -> None:
    endless = Answering(*[{"results": [], "nextToken": "again"}] * 100)
    with pytest.raises(RerankFailed, match="0 scores for 3 texts"):
        BedrockReranker(endless, MODEL).rerank(QUESTION, TEXTS, timeout_s=5)
    assert endless.calls == 10


def test_bedrock_is_given_up_when_the_budget_is_spent_and_may_bill_what_it_did() -> None:
    released = threading.Event()
    stalled = Answering(lambda: released.wait(20))
    started = time.monotonic()
    try:
        with pytest.raises(RerankFailed, match=r"needs more than its 0.2 s") as late:
            BedrockReranker(stalled, MODEL).rerank(QUESTION, TEXTS, timeout_s=0.2)
    finally:
        released.set()
    assert 0.2 <= time.monotonic() - started < 1.0
    assert late.value.cost_usd == pytest.approx(0.001)


def test_an_endpoint_that_is_not_there_is_a_lost_reranker() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        real = client(endpoint_url=f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(RerankFailed, match="EndpointConnectionError") as lost:
            BedrockReranker(real, MODEL).rerank(QUESTION, TEXTS, timeout_s=5)
    assert lost.value.cost_usd == 0


def test_what_the_client_itself_refuses_to_send_is_a_lost_reranker() -> None:
    with pytest.raises(RerankFailed, match="ParamValidationError"):
        BedrockReranker(client(), "").rerank(QUESTION, TEXTS, timeout_s=5)


def test_bedrock_is_billed_by_hundreds_of_chunks() -> None:
    amazon, cohere = (BedrockReranker(Answering(), model) for model in (MODEL, COHERE))
    assert amazon.cost_usd(QUESTION, ["text"] * 50) == pytest.approx(0.001)
    assert amazon.cost_usd(QUESTION, ["text"] * 101) == pytest.approx(0.002)
    assert cohere.cost_usd(QUESTION, ["text"] * 50) == pytest.approx(0.002)
    assert amazon.cost_usd(QUESTION, [""]) == 0
    assert BedrockReranker(Answering(), "sagemaker/other").cost_usd(QUESTION, ["text"]) == pytest.approx(0.002)
    own = BedrockReranker(Answering(), MODEL, usd_per_1000_queries=5.0)
    assert own.cost_usd(QUESTION, ["text"]) == pytest.approx(0.005)


def test_a_text_longer_than_a_chunk_is_billed_as_several_where_it_is_sent_whole() -> None:
    long = ["owl " * 2_500] * 50
    assert BedrockReranker(Answering(), MODEL).cost_usd(QUESTION, long) == pytest.approx(0.001)
    assert BedrockReranker(Answering(), MODEL, window=4_000).cost_usd(QUESTION, long) == pytest.approx(0.003)


def test_the_model_is_named_by_id_or_arn_and_the_region_by_setting_or_arn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    by_id = BedrockReranker.connect(Settings(bedrock_region="us-west-2"))
    assert by_id._model_arn == "arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0"
    assert by_id._client.meta.region_name == "us-west-2"  # type: ignore[attr-defined]
    by_arn = BedrockReranker.connect(Settings(bedrock_rerank_model=COHERE))
    assert (by_arn._model_arn, by_arn._client.meta.region_name) == (COHERE, "eu-central-1")  # type: ignore[attr-defined]
    assert BedrockReranker.connect(Settings())._client.meta.region_name == "us-east-1"  # type: ignore[attr-defined]


@pytest.fixture
def no_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@pytest.mark.usefixtures("no_region")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (RerankerKind.BEDROCK, "BRAID_BEDROCK_REGION: You must specify a region"),
        (RerankerKind.VOYAGE, "neither BRAID_VOYAGE_API_KEY nor BRAID_VOYAGE_API_KEY_SECRET is set"),
        (RerankerKind.ONNX, "BRAID_RERANKER_MODEL"),
    ],
)
def test_a_question_that_asks_for_a_reranker_which_is_not_set_up_loses_it_and_is_told_what_is_missing(
    tmp_path: Path, kind: RerankerKind, said: str
) -> None:
    reranker = Application(Settings(home=tmp_path)).reranker_for(kind)
    assert reranker is not None
    with pytest.raises(RerankFailed, match=said):
        reranker.rerank(QUESTION, TEXTS, timeout_s=1)


def test_the_command_line_refuses_voyage_without_a_key(tmp_path: Path) -> None:
    asked = Query(text=QUESTION, tenant_id="acme", reranker=RerankerKind.VOYAGE)
    with pytest.raises(ConfigurationError, match="--reranker: voyage needs BRAID_VOYAGE_API_KEY"):
        unusable_models(asked, Application(Settings(home=tmp_path)))
    settings = Settings(home=tmp_path, models_dir=tmp_path / "none", voyage_api_key=SecretStr(KEY))
    assert unusable_models(asked, Application(settings))


def test_the_question_decides_over_the_settings_and_none_is_none(server: VoyageServer, tmp_path: Path) -> None:
    application = Application(
        Settings(home=tmp_path, reranker=RerankerKind.VOYAGE, voyage_api_key=SecretStr(KEY), voyage_url=server.url)
    )
    assert application.reranker_for(RerankerKind.NONE) is None
    chosen = application.reranker_for(None)
    assert chosen is not None
    assert chosen.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert chosen.cost_usd(QUESTION, TEXTS) == pytest.approx(0.00015)
    again = application.reranker_for(RerankerKind.VOYAGE)
    assert again is not None
    assert again.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
    assert len(server.connections) == 1


def test_bedrock_answers_through_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = client()
    monkeypatch.setattr(boto3, "client", lambda *_, **__: made)
    application = Application(Settings(home=tmp_path, reranker=RerankerKind.BEDROCK))
    chosen = application.reranker_for(None)
    assert chosen is not None
    with Stubber(made) as stub:
        stub.add_response("rerank", ANSWER, asked())
        assert chosen.rerank(QUESTION, TEXTS, timeout_s=5) == IN_ORDER
