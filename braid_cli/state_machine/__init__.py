"""The deployed state machines on a laptop.

``interpreter`` runs a definition with moto; ``invoke_endpoint`` answers its Lambda calls with the real handlers.
"""
