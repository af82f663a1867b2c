"""Clients: submit runs, look at them, wait for them, signal and operate them. Needs a store and nothing else."""
