"""Runs the deployed state machines on a laptop. Their definitions lie in ``shared/statemachines``.

``interpreter`` runs a definition with moto, and ``remembering`` spares it work done before; ``invoke_endpoint`` answers
its Lambda calls with the real handlers.
"""
