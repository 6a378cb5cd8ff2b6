"""Runs the deployed state machines on a laptop. Their definitions are in ``shared/statemachines``.

``interpreter`` runs a definition with moto, whose repeated work ``moto_caching`` caches; ``invoke_endpoint`` answers
its Lambda calls with the deployed handlers.
"""
