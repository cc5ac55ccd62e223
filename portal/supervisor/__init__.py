"""Starts the whole system on one machine and keeps it running: stores, web, workers, simulated fleet, workload.

``manage.py up`` is its shell. Linux only: children are bound to the supervisor's life by the kernel.
"""
