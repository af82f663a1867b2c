"""What Pyrula costs, beside what else could be used and what the disk allows: `python -m benchmarks --list`.

How it measures. Whatever is compared runs in real processes, in one run of the benchmark, interleaved (A B C A B C …),
each time in a fresh folder on the same disk; a figure is the median of the repeats, with the least and the greatest.
Processes note moments on a tape (a file of their own) by the one monotonic clock of the host, so no figure depends on
how often the benchmark looks.

Where to read. `figures` says what a measurement is, `runner` interleaves, `report` prints. `systems` says how each
thing is started, `inside` holds what runs within the started processes, `measurements` what is asked of them.

What may go wrong. The machine has other guests: each repeat starts with a calibration (a loop of fixed work, a row of
fsyncs), printed with its spread, and differences smaller than that spread mean nothing. Clients and workers share the
cores, so a rate is that of the whole machine.
"""
