"""An expense that waits for a person, and how its workflow is tested."""
