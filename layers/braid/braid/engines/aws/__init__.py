"""AWS services as engines: DynamoDB, S3, SQS, Step Functions, Lambda and Secrets Manager.

- ``clients``: their clients, with time limits and retries; ``secret_keys``: keys, given or in Secrets Manager
- ``dynamodb_schemas_jobs_members``: schema versions, jobs and memberships; ``dynamodb_cache``: the cache and its
  counters, which quotas use; ``dynamodb_graph_counts``: numbers of records, vertices and edges of the graph
- ``s3``, ``sqs``, ``step_functions``, ``lambda_invocation``: objects, messages, workflows and invoked functions
"""
