"""The commands of ``braid``: each module's ``app`` holds one or more, :data:`braid_cli.main.COMMANDS` names them."""
