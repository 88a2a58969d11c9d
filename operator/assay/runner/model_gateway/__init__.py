"""The agent's only way to a model: meters, records and forwards each call of one try."""
