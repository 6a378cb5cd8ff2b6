"""What stages and services ask of stores and models: protocols, and the shapes that only they use."""
