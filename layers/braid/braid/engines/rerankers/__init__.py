"""Hosted rerankers (Bedrock, Voyage), and the selection among all rerankers."""
