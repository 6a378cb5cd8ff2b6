"""A table of the cache in moto, whose requests are served one at a time."""

from __future__ import annotations

import threading
from typing import Any

import boto3


def cache_table(name: str) -> Any:
    """Make the table and return a client of it."""
    client = serial_client()
    make_table(client, name)
    return client


def make_table(client: Any, name: str) -> None:
    """Make a table of the cache."""
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def serial_client() -> Any:
    """Return a client whose requests are served one at a time.

    DynamoDB does the writes to one item one after another; moto lets threads read and write an item at the same time.
    """
    client = boto3.client("dynamodb")
    request, lock = client._make_api_call, threading.Lock()

    def one_at_a_time(*given: Any) -> Any:
        with lock:
            return request(*given)

    client._make_api_call = one_at_a_time
    return client
