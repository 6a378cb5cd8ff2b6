"""The built package, installed into an empty environment outside of any clone: `make test-package`."""
