"""The service in each namespace of runs that attempt pods talk to: models, evidence, task archives."""
