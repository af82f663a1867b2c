"""Settings for generated cases: they judge what is computed, never how fast, since the box may be busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
