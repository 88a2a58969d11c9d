"""The outside world behind small interfaces: Kubernetes, S3, metrics, events."""
