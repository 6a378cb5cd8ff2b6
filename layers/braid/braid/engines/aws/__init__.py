"""AWS services as engines: DynamoDB, S3, SQS, Step Functions, Lambda and Secrets Manager.

- ``clients``: their clients, with time limits and retries
- ``dynamodb``: schema versions, jobs and memberships; ``dynamodb_cache``: the cache; ``dynamodb_graph_counts``: the graph's
- ``s3``, ``sqs``, ``step_functions``, ``functions``: objects, messages, workflows and functions that are invoked
"""
