"""The machinery behind `pyrula`: private, cut by mechanism; import from `pyrula`, the public face, instead."""
