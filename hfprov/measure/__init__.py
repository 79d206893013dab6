"""Bandwidth and latency that can be believed: plans, conditions, runs, statistics, judgement."""
