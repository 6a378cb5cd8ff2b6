"""The deployed state machine, run on a laptop over the real handlers."""
