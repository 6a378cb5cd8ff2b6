"""The five stages: state in, state out. They know ports, and no engine."""
