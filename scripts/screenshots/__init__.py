"""The pictures in docs/, made anew: `python -m scripts.screenshots dashboards`."""
