"""The commands of ``braid``: one or more in each module's ``app``, listed in :data:`braid_cli.main.COMMANDS`."""
