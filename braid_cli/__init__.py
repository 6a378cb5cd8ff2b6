"""Braid on a laptop: the command line ``braid`` and what its commands need.

``main`` builds the command line from ``commands``; ``options``, ``question`` and ``terminal`` are shared by them, and
``show`` renders answers. ``datasets`` reads and ingests, ``evaluation`` and ``tuning`` measure and fit, ``export``
makes model folders, ``http_server`` answers over HTTP, ``state_machine`` runs the deployed workflows,
``local_servers`` starts the stores that deployed engines are tested on, and ``demo`` is the tour.
"""
