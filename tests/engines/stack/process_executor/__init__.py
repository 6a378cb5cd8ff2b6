"""A LocalStack plugin that runs functions as Python processes of this machine: its own executor wants Docker.

LocalStack finds it by an entry point of the group ``localstack.lambda.runtime_executor``, and takes it when
``LAMBDA_RUNTIME_EXECUTOR`` is its name, ``process``. It runs in LocalStack's Python, where nothing of Braid is.
"""
