"""DynamoDB, S3, SQS, Step Functions, Lambda and Secrets Manager behind the ports."""
