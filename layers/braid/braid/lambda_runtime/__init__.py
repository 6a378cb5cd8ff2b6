"""What Lambda handlers share: logs, metrics, traces, warm-up and batches."""
