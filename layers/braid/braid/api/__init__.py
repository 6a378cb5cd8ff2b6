"""HTTP API, in API Gateway's event format: the same in Lambda and in the laptop's server.

::

    handler.py        joins the routes (make_api), and handles one request: authentication, routing, response, logs
    router.py         Powertools' router, one per thread
    question_routes.py  record_routes.py  health_and_explorer_routes.py      the routes
    authorisation.py  tenant and role of a caller whose token was verified before, by API Gateway or the laptop's server
    json_bodies.py    bounds the bytes of request bodies, then parses and validates them
    schemas.py        request and response schemas
    signed_tokens.py  signs and verifies tokens: list cursors, and the access tokens of the laptop's server
    problems.py       errors as RFC 9457 problem details
    idempotency.py    idempotency keys: a repeated request runs once and gets the same response
    quotas.py         quotas of tenants, counted in the cache; above the reranking quota answers are degraded
    audit.py          the audit log
    answer_traces.py  explanations of answers by trace id; OpenTelemetry's traces are in telemetry
    openapi.py        the OpenAPI document
    page/             the page at /explorer
"""
