"""Retrievers for other frameworks, over :class:`braid.client.Braid`; each module needs the extra of its name.

::

    langchain.py     BraidRetriever for LangChain
    llamaindex.py    BraidRetriever for LlamaIndex
    shared_search.py  the search behind both, and the metadata of its results
"""
