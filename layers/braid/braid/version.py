"""The version of the package, of the HTTP interface and of what a deployment reports: stated here alone."""

__version__ = "0.1.0"
