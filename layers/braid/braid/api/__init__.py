"""The front door: HTTP requests in API Gateway's format, for whoever runs the function or a server on a laptop.

::

    handler.py        one request from beginning to end: read it, know the caller, route it, log it
    bodies.py         what may be read as a body at all
    callers.py        whose request it is: verified claims, membership
    resolver.py       Powertools' router, one a thread
    questions.py  records.py  imports.py  housekeeping.py      the routes
    shapes.py         what requests and answers look like
    problems.py       errors as RFC 9457 problem details
    tokens.py         what is handed out signed and comes back
    traces.py         what is kept of an answer
    document.py       the OpenAPI document
    page/             the page at /explorer
"""
