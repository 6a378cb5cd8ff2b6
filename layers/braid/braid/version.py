"""The version of the package, of the HTTP interface and of deployments; defined only here."""

__version__ = "0.1.0"
