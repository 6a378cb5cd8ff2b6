"""AWS services as engines: DynamoDB, S3, SQS, Step Functions, Lambda and Secrets Manager.

- ``clients``: their clients, with time limits and retries
- ``dynamodb``: schema versions, jobs and memberships; ``dynamodb_cache``: the cache, its counters and with them the
  quotas; ``dynamodb_graph_counts``: how many records, vertices and edges the graph has
- ``s3``, ``sqs``, ``step_functions``, ``lambda_invocation``: objects, messages, workflows and functions that are
  invoked
"""
