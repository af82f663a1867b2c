"""How Python values become JSON and come back: one form for each annotation.

Two laws. What `to_json` gives is exactly what reading the stored bytes will give, so a body cannot tell a live outcome
from a replayed one. And whatever cannot keep the first law (NaN, integers past 64 bits, text that is not UTF-8) is
refused with a sentence instead of being bent into shape.

Pydantic does the typed part and is imported only when an annotation, or a value that surprises its annotation, needs
it: most steps take and return plain JSON types, and a worker's cold start should not pay for what they do not use.
"""
