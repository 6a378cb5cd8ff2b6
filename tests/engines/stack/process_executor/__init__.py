"""A LocalStack plugin: functions as Python processes of this machine, and HTTP APIs. Its own want Docker, or are sold.

LocalStack finds it by entry points. The executor's group is ``localstack.lambda.runtime_executor``, and it is taken
when ``LAMBDA_RUNTIME_EXECUTOR`` is its name, ``process``. It runs in LocalStack's Python, where nothing of Braid is.
"""
