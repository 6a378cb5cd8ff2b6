"""Hosted rerankers, and the selection of a reranker; the local cross-encoder is in ``engines.onnx``.

- ``selection``: opens the reranker that a request or the settings name, on first use
- ``bedrock``, ``voyage``: one service each; ``hosted_calls``: their prepared texts, deadlines and limits

A new reranker needs:

- a module here with a :class:`braid.ports.encoder.Reranker`, which raises ``RerankFailed`` and nothing else
- a kind in :class:`braid.models.enums_and_scalars.RerankerKind`, and a line in ``selection``
- if calls cost money: the kind in :data:`braid.models.enums_and_scalars.HOSTED_RERANKERS`, which quotas, the setting
  ``hosted_rerankers`` and evaluations use
- its settings in :mod:`braid.settings`, and in ``template.yaml`` the value of ``Reranker`` and the defaults of
  ``HostedRerankers``, the parameters that become those settings, and the permission that a call needs
- if it has an API key: the key's exclusion from the fingerprint of ``retrieval/caches/answers.py``, and checks that the
  key is set in ``braid_cli/question_validation.py`` and ``make/deploy_account.py``, which also
  checks that the network lets the call out
- an option in ``api/page/index.html``; ``shared/openapi.json`` is written by ``make openapi``

Tests compare the template, the page and the OpenAPI document with the kinds.
"""
