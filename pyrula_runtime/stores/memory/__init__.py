"""The store in memory: the contract in plain dictionaries, for tests of users (`pyrula.testing`) and for our own.

It keeps the laws with the simplest means: one lock round every verb, a list in order of submission, no threads, and
time from its clock alone. So it is also the model that the random histories of every other store are compared with.
"""
