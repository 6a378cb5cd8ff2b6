"""Client API of the library: the same calls for a store in a folder, deployed stores, and a deployed Braid.

::

    braid.py             Braid: its calls, whatever answers them
    asynchronous.py      AsyncBraid: the same calls for ``await``
    contents.py          what `add` takes: texts, dicts, dataclasses, documents of frameworks, paths
    documents.py         ingests files and folders of documents; what `add` returns
    results.py           what a search returns and its display; facts
    in_process.py        answers with the engines and models of this process
    deployed.py          answers by the HTTP interface
    bounded_answers.py   its connections, whose answers are bounded in bytes and time
    posted_documents.py  posts files and folders of documents to it
    api_errors.py        errors of both: what the server refused, and why it could not be reached
"""
