"""Schedules between the core's rules and a store: time zones, records as bytes, the runs that firings begin.

Duties fire them, workers declare them, clients operate them; all of them do it by what stands here.
"""
