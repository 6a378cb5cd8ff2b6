"""Client API of the library: the same calls for a store in a folder, deployed stores, and a deployed Braid.

::

    braid.py             Braid: the calls, and the protocol of the backends that answer them
    asynchronous.py      AsyncBraid: the same calls for ``await``
    argument_types.py    keyword arguments of search, context and facts, for editors and type checkers
    added_items.py       parses the argument of `add`: texts, dicts, dataclasses, documents of frameworks, paths
    documents_in_process.py  ingests files and folders of documents; the report of `add`
    results.py           search results and facts, and their display
    in_process.py        backend: engines and models of this process
    deployed.py          backend: the HTTP API of a deployed Braid
    bounded_responses.py connections of that backend, with responses bounded in bytes and time
    posted_documents.py  posts files and folders of documents to the HTTP API
    api_errors.py        errors over HTTP: refusals of the server, and failed connections
"""
