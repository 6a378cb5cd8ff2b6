"""AWS services as engines: DynamoDB, S3, SQS, Step Functions, Lambda and Secrets Manager."""
