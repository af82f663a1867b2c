"""What runs within the started processes; peers' modules are run by a Python that has the peer and not Pyrula."""

QUEUE = "benchmark"
# the environment variable that has ASGI workers die
DIES = "BENCHMARK_DIES"
