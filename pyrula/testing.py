"""Tests of workflows: run them in the test's own process, in time that skips, with fakes for steps, through crashes."""

from pyrula_runtime.testing.crashes import CrashNotSurvived, crash_everywhere
from pyrula_runtime.testing.fakes import StepAttempt, attempts
from pyrula_runtime.testing.replaying import ReplayDiffers
from pyrula_runtime.testing.run import SimulatedRun
from pyrula_runtime.testing.simulation import Simulation
from pyrula_runtime.testing.stuck import SimulationStuck

__all__ = [
    "CrashNotSurvived",
    "ReplayDiffers",
    "SimulatedRun",
    "Simulation",
    "SimulationStuck",
    "StepAttempt",
    "attempts",
    "crash_everywhere",
]
